package testweb

import (
	"io"
	"net/http"
	"time"
)

// cut says where an answer ends too early.
type cut uint8

const (
	cutNothing cut = iota
	cutReset       // TCP reset before the first byte
	cutClose       // connection closed before the first byte
	cutBody        // connection closed in the middle of the body
)

func (c cut) String() string {
	return [...]string{"whole", "reset", "closed", "body cut"}[c]
}

// An answer is what a request gets. It is decided before anything is sent, so
// that the log has it.
type answer struct {
	target      target
	status      int
	contentType string
	location    string
	body        func(dst []byte) []byte // appends the body; nil for none
	size        int64                   // with filler text after body up to so many bytes; 0 for none
	gzip        bool                    // for clients that accept it

	header http.Header               // more of them
	stream func(out io.Writer) error // writes the body instead, until it fails
	isLive bool                      // what stream writes is sent at once, its length not told

	wait   time.Duration // before the headers
	pieces int           // in which the body comes, pause apart; 0 means 1
	pause  time.Duration
	cut    cut

	// askRetry returns the Retry-After header, and how long it means; nil for none.
	askRetry    func(now time.Time) (header string, wait time.Duration)
	retryHeader string // what it returned
}

// refuse makes a an error without links.
func (a *answer) refuse(status int) {
	*a = answer{target: a.target, status: status, contentType: contentHTML, wait: a.wait}
	a.body = func(dst []byte) []byte {
		dst = append(dst, "<!DOCTYPE html>\n<title>"...)
		dst = append(dst, http.StatusText(status)...)
		return append(dst, "</title>\n<p>There is nothing to see here.</p>\n"...)
	}
}

const contentHTML = "text/html; charset=utf-8"

// answer returns what a request for t gets that comes after try others.
func (w *Web) answer(t target, try int) *answer {
	a := &answer{target: t, status: http.StatusOK, contentType: contentHTML}
	switch t.kind {
	case aPage:
		w.answerPage(a, t.page, try)
	case aHop:
		a.status, a.location = w.hopStatus(t.page, t.part), w.location(t.page, t.part)
	case aRobots:
		status, body := w.robotsAnswer(t.page.host)
		a.status, a.contentType = status, "text/plain; charset=utf-8"
		a.body = func(dst []byte) []byte { return append(dst, body...) }
	case aResource:
		t.resource.answer(a, try)
	case aDeadPage, aDeadRobots:
		a.status, a.cut = 0, cutReset
		if t.page.host%2 == 1 {
			a.cut = cutClose
		}
	default:
		a.refuse(http.StatusNotFound)
	}
	return a
}

func (w *Web) answerPage(a *answer, p page, try int) {
	a.body = func(dst []byte) []byte { return w.appendPage(dst, p) }
	for _, decorate := range w.fates.decorators {
		decorate(w, p, a)
	}
	if f := w.fateOf(p); f.answer != nil {
		f.answer(w, p, try, a)
	}
}
