package testweb

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Lag measures how long after their start the server read a crawl's requests. On
// a busy machine that can be long, and then the gap to the next request looks too
// short to the server, which says nothing about the crawl. Use NewLag.
type Lag struct {
	read  map[string]time.Time // the last request for each URL, without its scheme
	lags  []time.Duration
	stall time.Duration
}

// NewLag returns a Lag that has measured nothing.
func NewLag() *Lag { return &Lag{read: make(map[string]time.Time)} }

// Read notes a request of the log. All of them come before the first Started.
func (l *Lag) Read(r *Request) {
	l.stall = max(l.stall, r.Stall)
	if !r.Read.IsZero() {
		l.read[r.Host+r.Path] = r.Read
	}
}

// Started notes when a crawl started its last request for a URL, by its own clock.
func (l *Lag) Started(url string, at time.Time) {
	_, key, _ := strings.Cut(url, "://")
	if read, ok := l.read[key]; ok {
		l.lags = append(l.lags, read.Sub(at))
	}
}

// ReadLog calls Read for each request of a log that was written to Config.Log.
func (l *Lag) ReadLog(log io.Reader) error {
	err := lines(log, func(line []byte) error {
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		l.Read(&r)
		return nil
	})
	if err != nil {
		err = fmt.Errorf("read request log: %w", err)
	}
	return err
}

// ReadRecords calls Started for each record that has a fetched_at and was
// requested, which is what attempts counts.
func (l *Lag) ReadRecords(records io.Reader) error {
	err := lines(records, func(line []byte) error {
		var r struct {
			URL       string
			Attempts  *int
			FetchedAt time.Time `json:"fetched_at"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		if !r.FetchedAt.IsZero() && (r.Attempts == nil || *r.Attempts > 0) {
			l.Started(r.URL, r.FetchedAt)
		}
		return nil
	})
	if err != nil {
		err = fmt.Errorf("read records: %w", err)
	}
	return err
}

// LagFigures are what a Lag has measured.
type LagFigures struct {
	Requests             int // whose start is known
	Least, Median, Worst time.Duration
	Stall                time.Duration // the longest that the server's process did not run
}

// Figures returns what was measured so far.
func (l *Lag) Figures() LagFigures {
	f := LagFigures{Requests: len(l.lags), Stall: l.stall}
	if f.Requests > 0 {
		slices.Sort(l.lags)
		f.Least, f.Median, f.Worst = l.lags[0], l.lags[f.Requests/2], l.lags[f.Requests-1]
	}
	return f
}

// maxLeast is the lag that the quickest of many requests may have.
const maxLeast = 10 * time.Millisecond

// Err reports starts that cannot be right: some request is read at once.
func (f LagFigures) Err() error {
	if f.Least > maxLeast {
		return fmt.Errorf("every request is read %v or more after its start, want %v at most for the fastest: is the start noted too early?", f.Least, maxLeast)
	}
	return nil
}

// Most returns the lag that any request may have had: the worst of those whose
// start is known and the longest stall of the server, for the lag of a robots.txt
// is in no record.
func (f LagFigures) Most() time.Duration { return max(f.Worst, 0) + f.Stall }

func (f LagFigures) String() string {
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) } // as records have it
	return fmt.Sprintf("%v median and %v at most from a request's start to its being read; the server stalled for up to %v",
		round(f.Median), round(f.Worst), round(f.Stall))
}

// watchStalls notes how late this process is when it has something to do, from a
// millisecond on, until ctx ends.
func (w *Web) watchStalls(ctx context.Context) {
	const pause = 2 * time.Millisecond
	for slept := time.Now(); sleep(ctx, pause); slept = time.Now() {
		if late := time.Since(slept) - pause; late > max(time.Millisecond, time.Duration(w.stall.Load())) {
			w.stall.Store(int64(late))
		}
	}
}
