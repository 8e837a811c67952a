package fetcher_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// slowPages returns a world with n hosts whose pages are long, and as many whose pages are short,
// and their seeds.
func slowPages(t *testing.T, n int) (w *world, cfg config, seeds []string) {
	rules := headings(t)
	answers := map[string]reply{}
	many := strings.Repeat("<p>text</p>", 20_000)
	for i := range n {
		slow, quick := fmt.Sprintf("http://slow%d.test/", i), fmt.Sprintf("http://quick%d.test/", i)
		answers[slow] = page("<a href=/again>x</a>" + many)
		answers[slow+"again"] = page("<h1>x</h1>" + many)
		answers[quick] = page("<h1>x</h1><a href=/again>x</a>")
		answers[quick+"again"] = page("<h1>x</h1>")
		seeds = append(seeds, slow, quick)
	}
	w = newWorld(t, pages(answers))
	cfg = w.config()
	cfg.Fields, cfg.Text, cfg.Concurrency = rules, true, 2*n
	return w, cfg, seeds
}

// makeSlow makes the work on the long pages slow: every few steps take 30 ms.
func makeSlow(c *fetcher.Crawl) {
	c.SetDearTime(time.Second)
	c.OnStep(func(url string) {
		if strings.HasPrefix(url, "http://slow") {
			time.Sleep(30 * time.Millisecond)
		}
	})
}

// TestSlowPagesStopNoOthers: three times as many slow pages as there are processors delay the
// pages of other hosts by little. Each slow page is done when its time is used up, is marked and
// named, its links are followed, and its host rests. Values that were found before stay.
func TestSlowPagesStopNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		n := 3 * runtime.GOMAXPROCS(0)
		w, cfg, seeds := slowPages(t, n)
		began := time.Now()
		done := map[string]time.Duration{}
		cfg.Logger = log.logger()
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
			w.sink.mu.Lock()
			defer w.sink.mu.Unlock()
			done[p.URL.String()] = time.Since(began)
			return nil
		}
		c := w.worker(cfg)
		makeSlow(c)
		w.crawlWith(c, fetcher.Empty, seeds...)
		for i := range n {
			quick, slow := fmt.Sprintf("http://quick%d.test/again", i), fmt.Sprintf("http://slow%d.test/", i)
			if took := done[quick]; took > 10*time.Second {
				t.Errorf("%s was done after %v, want a few seconds", quick, took)
			}
			first, second := w.sink.recordOf(t, slow), w.sink.recordOf(t, slow+"again")
			if first.NotTaken != "too_slow" || first.Error == "" || first.Attempts != 1 || first.LinksAdded != 1 {
				t.Errorf("%s: %+v, want the mark too_slow and a link", slow, first)
			}
			if second.NotTaken != "too_slow" {
				t.Errorf("%sagain: %+v, want the mark too_slow", slow, second)
			}
			if rest := second.FetchedAt.Sub(first.FetchedAt); rest < 100*time.Second {
				t.Errorf("%s got its next request after %v, want a rest of 10 times the work", slow, rest)
			}
			if lines := log.String(); strings.Count(lines, "page took too long") != 2*n || !strings.Contains(lines, "url="+slow+" ") {
				t.Errorf("the log does not name %s: %s", slow, lines)
			}
		}
	})
}

// TestSlowPageHindersNoStop: a crawl that is stopped ends after its grace, although a page is at
// work. The page has no record, and the next run takes it.
func TestSlowPageHindersNoStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, cfg, _ := slowPages(t, 1)
		cfg.Grace = 3 * time.Second
		seed := "http://slow0.test/"
		c := w.worker(cfg)
		makeSlow(c)
		w.seed(c, seed)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, stop)
		began := time.Now()
		if end, err := c.Run(ctx); end != fetcher.Stopped || err != nil {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		if took := time.Since(began); took > 2*time.Second+cfg.Grace+100*time.Millisecond {
			t.Errorf("the stop took %v, want at most the grace of %v", took, cfg.Grace)
		}
		for _, r := range w.sink.records {
			if r.URL == seed {
				t.Errorf("the page was completed: %+v", r)
			}
		}
		if end, err := w.worker(cfg).Run(t.Context()); end != fetcher.Empty || err != nil {
			t.Fatalf("the next run ended with %q, %v", end, err)
		}
		if r := w.sink.recordOf(t, seed); r.NotTaken != "" || r.Text == "" {
			t.Errorf("after the next run: %+v", record.Record{URL: r.URL, NotTaken: r.NotTaken, Error: r.Error})
		}
	})
}

// TestRunDoesNotWaitForOnPage: a run that is stopped ends soon after its grace, although OnPage
// ignores its context. The page goes back, and the next run calls OnPage for it again.
func TestRunDoesNotWaitForOnPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seed = "http://a.test/"
		w := newWorld(t, pages(map[string]reply{seed: page("<h1>x</h1>")}))
		cfg := w.config()
		cfg.Grace, cfg.Fields = 3*time.Second, headings(t)
		returned := make(chan string, 1)
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
			time.Sleep(time.Hour)
			returned <- p.Document().Find("h1").Text() // the page is still valid
			return nil
		}
		c := w.worker(cfg)
		w.seed(c, seed)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Second, stop)
		began := time.Now()
		if end, err := c.Run(ctx); end != fetcher.Stopped || err != nil {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		if took := time.Since(began); took > 10*time.Second+cfg.Grace+time.Second {
			t.Errorf("Run took %v, want 10 s, the grace of %v and 1 s", took, cfg.Grace)
		}
		if n := len(w.sink.records); n != 0 {
			t.Errorf("%d records, want none", n)
		}
		if text := <-returned; text != "x" {
			t.Errorf("OnPage found %q in its page, want x", text)
		}
		cfg.OnPage = nil
		if end, err := w.worker(cfg).Run(t.Context()); end != fetcher.Empty || err != nil {
			t.Fatalf("the next run ended with %q, %v", end, err)
		}
		if r := w.sink.recordOf(t, seed); string(r.Fields) != `{"name":"x"}` {
			t.Errorf("after the next run: %+v", r)
		}
	})
}
