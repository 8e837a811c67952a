package testweb

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"time"
)

// Request is one request that the server got: a line of the request log.
type Request struct {
	Host string `json:"host"` // the requested host, without port
	Path string `json:"path"` // with the query
	// Start is the time from New until the server read the request, by a monotonic
	// clock. Requests in the log are ordered by Start.
	Start time.Duration `json:"start_ns"`
	Read  time.Time     `json:"read"` // the same moment by the system's clock
	// Stall is the length of the longest pause of the server's process since the previous
	// request. Serve measures it.
	Stall time.Duration `json:"stall_ns,omitempty"`
	// Attempt is the number of requests for this URL so far, from 1. It is 0 for URLs
	// that do not fail on purpose.
	Attempt    int           `json:"attempt,omitempty"`
	Status     int           `json:"status"`                   // of the answer; 0 if the connection was broken
	RetryAfter time.Duration `json:"retry_after_ns,omitempty"` // the wait that the answer asked for
}

// requestLog keeps or writes requests, ordered by their start.
type requestLog struct {
	began time.Time
	keep  bool
	kept  []Request
	lines *json.Encoder // nil if the log is not written
	err   error         // the first error of writing
}

func newRequestLog(out io.Writer, keep bool) requestLog {
	l := requestLog{began: time.Now(), keep: keep}
	if out != nil {
		l.lines = json.NewEncoder(out)
		l.lines.SetEscapeHTML(false)
	}
	return l
}

func (l *requestLog) add(r *Request) {
	if l.keep {
		l.kept = append(l.kept, *r)
	}
	if l.lines != nil && l.err == nil {
		l.err = l.lines.Encode(r)
	}
}

// ReadLog reads a log that was written to Config.Log.
func ReadLog(in io.Reader) (log []Request, err error) {
	err = decode(in, "request log", func(r *Request) { log = append(log, *r) })
	return log, err
}

// Log returns the requests so far. It returns none without Config.KeepLog.
func (w *Web) Log() []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log.kept)
}

// logError returns the first error that occurred while the log was written.
func (w *Web) logError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.err
}

// take counts and logs a request, and decides its answer. It reads the clock and adds
// to the log while it holds one lock, so that the log is ordered by Start.
func (w *Web) take(host, path string) *answer {
	t := w.target(host, path)
	slot, counted := 0, false
	if t.kind == aPage {
		slot, counted = w.slotOf(t.page)
		slot += t.page.host * len(w.fates.slots)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now, try := time.Now(), 0
	if t.kind == aResource && t.resource.fails > 0 {
		counted = true
		try = t.resource.tries
		t.resource.tries++
	} else if counted {
		try = int(w.tries[slot])
		w.tries[slot] = uint8(min(try+1, 255))
	}
	a := w.answer(t, try)
	r := Request{Host: host, Path: path, Start: now.Sub(w.log.began), Read: now.Round(0).UTC(), Stall: time.Duration(w.stall.Swap(0)), Status: a.status}
	if a.cut == cutReset || a.cut == cutClose {
		r.Status = 0
	}
	if counted {
		r.Attempt = try + 1
	}
	if a.askRetry != nil {
		var header string
		header, r.RetryAfter = a.askRetry(now)
		a.header = http.Header{"Retry-After": {header}}
	}
	w.log.add(&r)
	return a
}
