package fetcher_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// privateWeb is a site that links and redirects to other origins. It notes the
// headers of each request.
func privateWeb(got map[string]string) *wire {
	answers := map[string]reply{
		"http://a.test/robots.txt":      {status: 302, header: map[string]string{"Location": "http://robots.test/robots.txt"}},
		"http://robots.test/robots.txt": text("Sitemap: http://maps.test/list.xml\nSitemap: http://a.test/list.xml"),
		"http://maps.test/list.xml":     {contents: "application/xml", body: "<urlset><url><loc>http://a.test/listed</loc></url></urlset>"},
		"http://a.test/":                links("/page", "/away", "http://b.test/", "http://a.test:8080/", "https://a.test/", "http://www.a.test/", "http://friend.test/", "http://c.test/"),
		"http://a.test/away":            redirect("http://target.test/"),
		"https://c.test/":               redirect("http://c.test/cleartext"),
		"http://moved.test/":            redirect("http://www.moved.test/"),
		"http://www.moved.test/":        links("/more"),
		"http://proxied.test:8000/":     links("https://proxied.test/"),
	}
	var mu sync.Mutex
	return &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
		mu.Lock()
		defer mu.Unlock()
		secrets := ""
		for _, name := range []string{"Authorization", "Cookie", "X-Api-Key"} {
			if r.Header.Get(name) != "" {
				secrets += name[:1]
			}
		}
		got[url] = secrets
		if r.Header.Get("Accept-Language") != "de" {
			panic("no Accept-Language")
		}
		a, ok := answers[url]
		return a, ok
	}}
}

// TestPrivateHeadersGoToSeedsOnly: even if every link is followed, only the origins
// of seeds get the private headers of the client. The headers of a policy.Override go only
// to their host.
func TestPrivateHeadersGoToSeedsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(map[string]string)
		w := newWorld(t, privateWeb(got))
		cfg := w.config()
		cfg.Client = privateClient(t, w.wire)
		cfg.Rules, cfg.Sitemaps = anywhere, true
		cfg.Hosts = policy.NewHosts(policy.Override{Pattern: "friend.test", Header: http.Header{"Cookie": {"for friends"}}})
		w.crawl(cfg, "http://a.test/", "https://c.test/", "http://moved.test/", "http://proxied.test:8000/")
		for url, want := range map[string]string{
			"http://a.test/": "ACX", "http://a.test/robots.txt": "ACX", "http://a.test/page": "ACX", "http://a.test/away": "ACX",
			"http://a.test/listed": "ACX", "http://a.test/list.xml": "ACX", // found on other hosts, but of the seed's origin
			"https://a.test/": "ACX", "https://a.test/robots.txt": "ACX", // the same host over TLS
			"http://robots.test/robots.txt": "", "http://maps.test/robots.txt": "", "http://maps.test/list.xml": "",
			"http://b.test/": "", "http://b.test/robots.txt": "", "http://a.test:8080/": "", "http://www.a.test/": "",
			"http://target.test/": "", "https://c.test/": "ACX", "http://c.test/cleartext": "", "http://c.test/": "", "http://c.test/robots.txt": "",
			"http://moved.test/": "ACX", "http://www.moved.test/": "", "http://www.moved.test/more": "",
			"http://proxied.test:8000/": "ACX", "https://proxied.test/": "",
			"http://friend.test/": "C", "http://friend.test/robots.txt": "C",
		} {
			if secrets, asked := got[url]; secrets != want || !asked {
				t.Errorf("%s had the private headers %q (requested: %v), want %q", url, secrets, asked, want)
			}
		}
	})
}

func privateClient(t *testing.T, transport http.RoundTripper) *get.Client {
	t.Helper()
	client, err := get.New(get.Config{Transport: transport, HeaderTimeout: 2 * get.DefaultTimeout, Headers: http.Header{
		"Authorization": {"Bearer 1"}, "Cookie": {"a=b"}, "X-Api-Key": {"1"}, "Accept-Language": {"de"}}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestPrivateHeadersOfAnotherWorker: a worker without seeds sends the headers to the same
// origins, in a later run or at the same time.
func TestPrivateHeadersOfAnotherWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(map[string]string)
		w := newWorld(t, privateWeb(got))
		cfg := w.config()
		cfg.SeedOrigins, cfg.Rules = true, anywhere
		w.seed(w.worker(cfg), "http://a.test/") // as 'crawler seed' does
		cfg.SeedOrigins, cfg.Client = false, privateClient(t, w.wire)
		w.crawl(cfg)
		if got["http://a.test/"] != "ACX" || got["http://a.test/page"] != "ACX" || got["http://b.test/"] != "" {
			t.Errorf("private headers by URL: %v, want them for a.test and not for b.test", got)
		}
	})
}

// TestPrivateHeadersWantScope: private headers without a scope are refused,
// because the origins of seeds are not known then.
func TestPrivateHeadersWantScope(t *testing.T) {
	w := newWorld(t, pages(nil))
	cfg := w.config()
	cfg.Rules, cfg.Scope, cfg.Client = anywhere, nil, privateClient(t, w.wire)
	if _, err := newWorker(cfg); err == nil || !strings.Contains(err.Error(), "Scope is nil") {
		t.Errorf("New: %v, want the error that Scope is nil", err)
	}
}
