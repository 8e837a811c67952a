package dashboard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/serve/dashboard"
)

// noCrawls is a program without crawls.
type noCrawls struct{}

func (noCrawls) List(context.Context) []dashboard.Crawl { return nil }

func (noCrawls) Open(context.Context, string) (dashboard.Handle, error) {
	return nil, errors.New("no crawl")
}

func (noCrawls) Do(context.Context, dashboard.Caller, string, dashboard.Action) error { return nil }

func (noCrawls) Command(_, _, _ string) string { return "" }

// TestSessionEnds: a login lasts for SessionTTL. Then its cookie shows nothing any more, and an open stream says so and ends.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dashboard.New(t.Context(), dashboard.Config{Crawls: noCrawls{}, SessionTTL: time.Hour,
			Login: func(secret string) (dashboard.Caller, bool) { return dashboard.Caller{Name: "ann"}, secret == "right" }})
		ask := func(method, path, cookie, accept string, form url.Values) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Accept", accept)
			if cookie != "" {
				r.Header.Set("Cookie", cookie)
			}
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			return w
		}
		form := url.Values{"secret": {"right"}}
		page := ask("GET", "/login", "", "", nil).Body.String()
		for _, found := range regexp.MustCompile(`name="([a-z]+)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			form.Set(found[1], found[2])
		}
		cookie, _, _ := strings.Cut(ask("POST", "/login", "", "", form).Header().Get("Set-Cookie"), ";")
		if w := ask("GET", "/", cookie, "", nil); w.Code != http.StatusOK {
			t.Fatalf("after the login: status %d, want 200", w.Code)
		}
		begun := time.Now()
		stream := ask("GET", "/", cookie, "text/event-stream", nil).Body.String() // until the login ends
		if took := time.Since(begun); took < time.Hour || took > time.Hour+2*time.Second || !strings.Contains(stream, "event: end\n") {
			t.Errorf("the stream ended after %v, want 1h, with an event that says so: %q", took, stream)
		}
		if w := ask("GET", "/", cookie, "", nil); w.Code != http.StatusSeeOther {
			t.Errorf("after an hour: status %d, want 303 to the login", w.Code)
		}
	})
}
