package testweb

import (
	"io"
	"net/http"
	"time"
)

// cut is the point at which the server breaks off an answer.
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

// An answer is the answer to a request. It is decided before anything is sent, so that
// the request log can describe it.
type answer struct {
	status      int
	contentType string
	location    string
	body        func(dst []byte) []byte // appends the body; nil means an empty body
	size        int64                   // the body is extended with filler text to at least this size
	packed      func(dst []byte) []byte // appends the body as gzip, for clients that accept it; nil means that body is sent
	gzip        bool                    // compress the body for clients that accept gzip

	header http.Header               // further headers
	raw    []byte                    // if not nil, the whole answer as it is sent
	stream func(out io.Writer) error // if not nil, it writes the body, without Content-Length

	wait time.Duration // time before the headers are sent
	slow bool          // the body is sent in slowPieces pieces
	cut  cut

	// askRetry returns the Retry-After header and the wait that the header asks for.
	// nil means no Retry-After header.
	askRetry func(now time.Time) (header string, wait time.Duration)
}

// refuse turns the answer into an error page without links.
func (a *answer) refuse(status int) {
	*a = answer{status: status, contentType: contentHTML, wait: a.wait}
	a.body = func(dst []byte) []byte {
		dst = append(dst, "<!DOCTYPE html>\n<title>"...)
		dst = append(dst, http.StatusText(status)...)
		return append(dst, "</title>\n<p>There is nothing to see here.</p>\n"...)
	}
}

const contentHTML = "text/html; charset=utf-8"

// answer returns the answer to a request for t. The argument try is the number of
// earlier requests for t.
func (w *Web) answer(t target, try int) *answer {
	a := &answer{status: http.StatusOK, contentType: contentHTML}
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
	if w.isMix() {
		a.packed = func(dst []byte) []byte { return w.appendPacked(dst, p) }
	}
	for _, decorate := range w.fates.decorators {
		decorate(w, p, a)
	}
	if f := w.fateOf(p); f.answer != nil {
		a.packed = nil
		f.answer(w, p, try, a)
	}
}
