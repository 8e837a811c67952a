package testweb

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
)

// Expectation is what a correct crawl records for one URL.
type Expectation struct {
	URL     string `json:"url"`     // canonical
	Outcome string `json:"outcome"` // ok, redirect, client_error, robots, type, server_error, network
	Status  int    `json:"status"`  // of the last answer; 0 if there is none, or if the URL must not be requested
	// OrderFree means that Outcome and Status do not depend on the order of the crawl.
	// If it is false, the outcomes in Also are right too.
	OrderFree  bool     `json:"order_free"`
	Also       []string `json:"also,omitempty"`
	RedirectTo string   `json:"redirect_to,omitempty"` // canonical
	Title      string   `json:"title,omitempty"`       // only of pages whose body is read
	Text       string   `json:"text,omitempty"`        // a sentence of the main text, of pages whose text is compared
	Truncated  bool     `json:"truncated,omitempty"`   // the body is longer than Config.MaxBodyBytes
	Optional   bool     `json:"optional,omitempty"`    // a correct crawl can record the URL or leave it out
	// BodySHA256 is the SHA-256 of the part of the HTML that a correct crawl reads, in
	// hexadecimal. Only WriteExpected sets it, because the page must be generated to
	// compute it.
	BodySHA256 string `json:"body_sha256,omitempty"`

	isRead bool // a correct crawl reads the body; title and digest are compared
}

// Expected returns what a correct crawl records for each URL, without digests. It
// generates one URL at a time, so that it takes little memory.
func (w *Web) Expected() iter.Seq[Expectation] {
	return func(yield func(Expectation) bool) {
		w.each(func(t target) bool { return yield(w.expect(t)) })
	}
}

func (w *Web) expect(t target) Expectation {
	e := Expectation{URL: w.url(t), OrderFree: true}
	switch t.kind {
	case aResource:
		return t.resource.want
	case aHop:
		e.Outcome, e.Status = "redirect", w.hopStatus(t.page, t.part)
		e.RedirectTo = w.url(w.afterHop(t.page, t.part))
	case aDeadPage:
		e.Outcome, e.Also, e.OrderFree = deadOutcomes[0], deadOutcomes[1:], false
	default:
		f := w.fateOf(t.page)
		e.Outcome, e.Status, e.Truncated = f.outcome, f.status, f.truncated
		if f == moved {
			e.RedirectTo = w.url(target{kind: aPage, page: w.movedTo(t.page)})
		}
		if f.hasLinks() {
			e.Title, e.isRead = string(w.appendTitle(nil, t.page)), true
		}
	}
	return e
}

func (e *Expectation) accepts(outcome string) bool {
	return outcome == e.Outcome || slices.Contains(e.Also, outcome)
}

// digestOf returns the SHA-256 of the part of a URL's body that a correct crawl reads, in
// hexadecimal. isRead is false if a correct crawl does not read the body.
func (w *Web) digestOf(t target) (digest string, isRead bool) {
	switch {
	case t.kind == aResource:
		return t.resource.digest(w.cfg.MaxBodyBytes)
	case t.kind != aPage || !w.fateOf(t.page).hasLinks():
		return "", false
	}
	return w.digest(t.page), true
}

func (w *Web) digest(p page) string {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	body := w.appendPage((*buffer)[:0], p)
	*buffer = body[:0]
	hash := sha256.New()
	hash.Write(body)
	if w.fateOf(p).truncated {
		_ = w.fill(hash, w.cfg.MaxBodyBytes-int64(len(body))) // writes to a hash do not fail
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// WriteExpected writes one line of JSON for each URL that a correct crawl records: its
// Expectation, with the digest.
func (w *Web) WriteExpected(out io.Writer) error {
	buffered := bufio.NewWriterSize(out, 64<<10)
	lines := json.NewEncoder(buffered)
	lines.SetEscapeHTML(false)
	for t := range w.each {
		e := w.expect(t)
		e.BodySHA256, _ = w.digestOf(t)
		if err := lines.Encode(&e); err != nil {
			return fmt.Errorf("write expected URLs: %w", err)
		}
	}
	return buffered.Flush()
}

// decode reads lines of JSON, such as records, and calls the function visit for each
// value. An incomplete value at the end of r is not an error, because it is possibly
// still being written.
func decode[T any](r io.Reader, what string, visit func(*T)) error {
	decoder := json.NewDecoder(r)
	for line := 1; ; line++ {
		var value T
		switch err := decoder.Decode(&value); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: line %d: %w", what, line, err)
		}
		visit(&value)
	}
}
