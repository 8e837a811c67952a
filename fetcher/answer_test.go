package fetcher_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestOnAnswer: each requested URL is given once to OnPage or to OnAnswer, with its final result.
func TestOnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/":       links("/gone", "/moved", "/ill", "/broken", "/page"),
			"http://a.test/gone":   {status: 410},
			"http://a.test/moved":  redirectBy(301, "/page"),
			"http://a.test/ill":    {status: 500},
			"http://a.test/broken": {broken: errors.New("reset")},
			"http://a.test/page":   page("<h1>x</h1>"),
		}))
		cfg := w.config()
		cfg.Retries = 1
		got := map[string]string{}
		add := func(url, what string) {
			w.sink.mu.Lock()
			defer w.sink.mu.Unlock()
			got[url] += what
		}
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error { add(p.URL.String(), "page"); return nil }
		cfg.OnAnswer = func(_ context.Context, a *fetcher.Answer) error {
			add(a.URL.String(), fmt.Sprint(a.Outcome, " ", a.Status, " ", a.Target, " ", a.Err != nil))
			return nil
		}
		w.crawl(cfg, "http://a.test/")
		for url, want := range map[string]string{
			"http://a.test/": "page", "http://a.test/page": "page", "http://a.test/gone": "client_error 410  false",
			"http://a.test/moved": "redirect 301 http://a.test/page false", "http://a.test/ill": "server_error 500  true",
			"http://a.test/broken": "network 0  true",
		} {
			if got[url] != want {
				t.Errorf("%s was handed over as %q, want %q", url, got[url], want)
			}
		}
		if len(got) != 6 {
			t.Errorf("handed over: %v, want 6 URLs", got)
		}
	})
}

// TestHandlerBacksOff: after an error of OnPage or OnAnswer, the URL is requested again after the policy's
// back-off, which doubles. If the error comes each time, the URL fails as handler, and no link is offered.
func TestHandlerBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://a.test/": links("/1"), "http://b.test/": redirectBy(301, "/2")}))
		cfg := w.config()
		cfg.Retries, cfg.Politeness.BackoffBase = 2, time.Minute
		boom := errors.New("boom")
		cfg.OnPage = func(context.Context, *fetcher.Page) error { return boom }
		cfg.OnAnswer = func(context.Context, *fetcher.Answer) error { return boom }
		w.crawl(cfg, "http://a.test/", "http://b.test/")
		for _, url := range []string{"http://a.test/", "http://b.test/"} {
			var at []time.Time
			for _, call := range w.wire.log() {
				if call.url == url {
					at = append(at, call.start)
				}
			}
			if len(at) != 3 {
				t.Fatalf("%s was requested %d times, want 3", url, len(at))
			}
			for i, base := range []time.Duration{time.Minute, 2 * time.Minute} {
				if gap := at[i+1].Sub(at[i]); gap < base*7/10 || gap > base*13/10 {
					t.Errorf("%s: attempt %d comes after %v, want about %v", url, i+2, gap, base)
				}
			}
			if r := w.sink.recordOf(t, url); r.Outcome != string(frontier.Handler) || r.Error != "boom" || r.LinksFound != 0 || r.Attempts != 3 {
				t.Errorf("the record of %s is %+v, want the handler's error after 3 attempts", url, r)
			}
		}
		if stats := w.stats(); stats.Added != 2 || stats.Failed != 2 {
			t.Errorf("the books are %+v, want 2 URLs added and failed", stats.Books)
		}
	})
}
