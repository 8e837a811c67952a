package crawl

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// TestWrapTransport: Config.WrapTransport sees each request of a run, also that for robots.txt, and what it adds is sent.
func TestWrapTransport(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var seen, signed []string
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		signed = append(signed, r.Header.Get("Signed"))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			_, _ = w.Write([]byte(`<a href="/a b?c">a</a>`))
		}
	}))
	defer web.Close()
	c := Config{Dir: filepath.Join(t.TempDir(), "a.crawl"), Seeds: []string{web.URL}, Settings: small()}
	c.Settings.AllowPrivate, c.Settings.Delay = true, 0
	c.WrapTransport = func(inner http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			target := r.URL.Path + "?" + r.URL.RawQuery
			mu.Lock()
			seen = append(seen, target)
			mu.Unlock()
			r = r.Clone(r.Context())
			r.Header.Set("Signed", target)
			return inner.RoundTrip(r)
		})
	}
	if err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := []string{"/robots.txt?", "/?", "/a b?c"}
	if !slices.Equal(seen, want) || !slices.Equal(signed, want) {
		t.Errorf("the RoundTripper saw %q, and the server %q; want %q", seen, signed, want)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
