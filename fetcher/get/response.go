package get

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Response is one answer.
type Response struct {
	Status int
	Header http.Header
	// ContentType is the type without parameters, in lower case: the last valid one of the
	// Content-Type headers, or, of a page, detected from the body if they name none.
	ContentType string
	Body        []byte // decompressed; valid until Release
	Truncated   bool   // the body is longer than the limit, where Body ends
	// Cut is why the body of a page ended early, or nil: the connection or the compressed data
	// ended, or a chunk is damaged. Body has what arrived before.
	Cut error
	// Damage is why the body of a page cannot be unpacked, or nil. If it wraps ErrCoding, Body
	// is empty. Otherwise Body has what comes before damaged data.
	Damage      error
	TypeRefused bool          // a 2xx of an unwanted content type: Body was not read
	WireBytes   int64         // of the body as received, compressed or not
	RedirectTo  string        // the Location of a redirect, not resolved; in UTF-8
	RetryAfter  time.Duration // 0 means none
	SetsCookie  bool          // Config.Jar keeps a cookie of the answer
	SignAgain   bool          // the server asks for another signature, which the next request for the URL has; see Signer
	Latency     time.Duration // from the request to the end of the answer's header
	Duration    time.Duration // from the start, before connecting, to the end of the body
	Wire        *Wire         // nil without Config.Capture; valid until Release

	xhtml        bool     // the body is an XHTML document, although its type is another one of XML
	mime         mimeType // of the Content-Type headers
	buffer, wire *buffer  // of Body and Wire
	loggedOut    bool     // see Config.LoggedOut
}

// MIMEType returns ContentType with the charset that the Content-Type headers name for it, as the
// value of a Content-Type header.
func (r *Response) MIMEType() string { return mimeType{r.ContentType, r.mime.charset}.String() }

// IsHTML reports whether Body is HTML or XHTML. XHTML can also have the type text/xml, application/xml
// or any other type of XML.
func (r *Response) IsHTML() bool { return r.xhtml || slices.Contains(HTMLTypes(), r.ContentType) }

// Release frees the buffers for other answers. Body and Wire must not be used afterwards.
func (r *Response) Release() {
	r.Body, r.Wire = nil, nil
	for _, b := range []*buffer{r.buffer, r.wire} {
		if b != nil {
			b.release()
		}
	}
	r.buffer, r.wire = nil, nil
}

func newResponse(answer *http.Response) *Response {
	r := &Response{Status: answer.StatusCode, Header: answer.Header, mime: extractMIMEType(answer.Header["Content-Type"])}
	r.ContentType = r.mime.essence
	switch r.Status {
	case http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		r.RedirectTo = location(answer.Header.Get("Location"))
	}
	if after := answer.Header.Get("Retry-After"); after != "" {
		r.RetryAfter = retryAfter(after, answer.Header.Get("Date"), time.Now())
	}
	return r
}

// location returns the value of a Location header. If the value is not UTF-8, its bytes that
// are not ASCII are percent-encoded. Otherwise they would count as U+FFFD in the URL.
func location(value string) string {
	if utf8.ValidString(value) {
		return value
	}
	return escape(value, func(c byte) bool { return c >= utf8.RuneSelf })
}

// maxRetryAfter bounds a Retry-After header.
const maxRetryAfter = 365 * 24 * time.Hour

// retryAfter parses a Retry-After header, which has a number of seconds or an HTTP date. A fraction of a
// second is rounded up.
// The wait until an HTTP date is counted from date, the server's Date header. If date is
// not valid, the wait is counted from now. The result is 0 for a date in the past and for
// other text.
func retryAfter(after, date string, now time.Time) time.Duration {
	after = strings.TrimSpace(after)
	if whole, fraction, _ := strings.Cut(after, "."); whole != "" && strings.Trim(whole+fraction, "0123456789") == "" {
		seconds, err := strconv.ParseInt(whole, 10, 64)
		if strings.Trim(fraction, "0") != "" {
			seconds++
		}
		if err != nil || seconds > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second
	}
	until, err := http.ParseTime(after)
	if err != nil {
		return 0
	}
	if server, err := http.ParseTime(date); err == nil {
		now = server
	}
	return min(max(0, until.Sub(now)), maxRetryAfter)
}
