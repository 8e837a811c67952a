package crawltest

import (
	"context"
	"net/http"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
)

// Page returns the page that a worker would give to OnPage for an answer to a request for url: with its document, its
// record, and the fields and the text that config.Settings ask for. Its methods Drop and Add can be used, and Links shows
// their effect. The page is valid until the test ends. The test fails at once if the answer is no page for OnPage: if its
// status is not 2xx, or its type is not wanted. config can be the zero Config; see Run for what does not count.
//
//	page := crawltest.Page(t, crawl.Config{}, "https://a.test/item/1", 200, nil, []byte("<h1>Tea</h1>"))
//	if err := onPage(t.Context(), page); err != nil { … }
//
// Without a Content-Type, the body is HTML in UTF-8.
func Page(t testing.TB, config crawl.Config, url string, status int, header http.Header, body []byte) *crawl.Page {
	t.Helper()
	pages, ended, failed := make(chan *crawl.Page), make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	config.Seeds = []string{url}
	config.OnPage = func(ctx context.Context, page *crawl.Page) error {
		pages <- page
		<-ctx.Done() // the page is given back when OnPage returns
		return ctx.Err()
	}
	var other *crawl.Answer
	config.OnAnswer = func(_ context.Context, answer *crawl.Answer) error {
		other = answer
		return nil
	}
	config.OnRefused = nil
	web := Web{"*": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for name, values := range header {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})}
	config.Settings = settingsOf(config)
	config.Settings.Robots, config.Settings.Retries, config.Settings.Sitemaps, config.Settings.Grace = "ignore", 0, false, 0
	go func() {
		defer close(ended)
		_, err := Run(ctx, config, web)
		failed <- err
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	select {
	case page := <-pages:
		return page
	case err := <-failed:
		if other != nil {
			t.Fatalf("crawltest: the answer is no page for OnPage: its outcome is %q, its status %d", other.Outcome, other.Status)
		}
		t.Fatalf("crawltest: no page: %v", err)
		return nil
	}
}
