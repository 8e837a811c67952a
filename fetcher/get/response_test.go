package get

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after, date string
		want        time.Duration
	}{
		{"120", "", 2 * time.Minute},
		{" 5 ", "", 5 * time.Second},
		{"0", "", 0},
		{"-5", "", 0},
		{"1.5", "", 2 * time.Second},
		{"0.001", "", time.Second},
		{"2.0", "", 2 * time.Second},
		{"3.", "", 3 * time.Second},
		{"1.5.5", "", 0},
		{".5", "", 0},
		{"1,5", "", 0},
		{"1e3", "", 0},
		{"-1.5", "", 0},
		{"\t31536000.5 ", "", maxRetryAfter},
		{"99999999999999999999", "", maxRetryAfter},
		{"4000000000", "", maxRetryAfter},
		{"Fri, 20 Nov 2026 12:00:30 GMT", "", 30 * time.Second},
		{"Fri, 20 Nov 2026 12:00:30 GMT", "Fri, 20 Nov 2026 12:00:20 GMT", 10 * time.Second}, // the server's clock is ahead
		{"Fri, 20 Nov 2026 11:00:00 GMT", "", 0},
		{"Friday, 20-Nov-26 12:01:00 GMT", "", time.Minute},
		{"Fri Nov 20 12:00:45 2026", "", 45 * time.Second},
		{"Fri, 20 Nov 9026 12:00:30 GMT", "", maxRetryAfter},
		{"soon", "", 0},
	} {
		if got := retryAfter(c.after, c.date, now); got != c.want {
			t.Errorf("retryAfter(%q, %q) = %v, want %v", c.after, c.date, got, c.want)
		}
	}
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(503)
	})
	r := mustGet(t, client(t, Config{}), Request{URL: url})
	defer r.Release()
	if r.RetryAfter != 7*time.Second {
		t.Errorf("RetryAfter = %v, want 7s", r.RetryAfter)
	}
	if outcome, retry := r.Outcome(); outcome != frontier.ServerError || !retry {
		t.Errorf("Outcome() = %v, %v", outcome, retry)
	}
}

// FuzzHeaders: the values that are read from headers lie within their bounds,
// whatever the headers contain.
func FuzzHeaders(f *testing.F) {
	f.Add("text/html; charset=x", "gzip", "120", "Fri, 20 Nov 2026 12:00:20 GMT", "/a")
	f.Add("TEXT/HTML", "gzip, br", "Fri, 20 Nov 2026 12:00:30 GMT", "", "")
	f.Add(";", ",", "-1", "x", "\x00")
	f.Fuzz(func(t *testing.T, contentType, encoding, after, date, location string) {
		r := newResponse(&http.Response{StatusCode: 301, Header: http.Header{
			"Content-Type": {contentType}, "Content-Encoding": {encoding}, "Retry-After": {after}, "Date": {date}, "Location": {location},
		}})
		if r.RetryAfter < 0 || r.RetryAfter > maxRetryAfter {
			t.Errorf("Retry-After %q with Date %q is read as %v, want 0 to %v", after, date, r.RetryAfter, maxRetryAfter)
		}
		if again := extractMIMEType([]string{r.MIMEType()}); again != r.mime || strings.ContainsAny(r.ContentType, "; ,") {
			t.Errorf("Content-Type %q is read as %q, and this as %q", contentType, r.mime, again)
		}
		names, err := codingsOf(r.Header)
		if err != nil && (!errors.Is(err, ErrCoding) || names != nil || len(err.Error()) > 500) || len(names) > maxCodings {
			t.Errorf("Content-Encoding %q: codings %q, %v", encoding, names, err)
		}
	})
}

// TestLocation: if a Location is not UTF-8, its bytes that are not ASCII are
// percent-encoded.
func TestLocation(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"/a?b#c": "/a?b#c", "/café": "/café", "/caf\xe9?q=\xe9": "/caf%E9?q=%E9"} {
		r := newResponse(&http.Response{StatusCode: 302, Header: http.Header{"Location": {value}}})
		if r.RedirectTo != want {
			t.Errorf("Location %q: RedirectTo %q, want %q", value, r.RedirectTo, want)
		}
	}
}
