package fetcher_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/fields"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestDataIsInRecords: the fields and the text of a page are in its record, and
// OnPage sees them. The links of a page do not depend on whether fields are
// read.
func TestDataIsInRecords(t *testing.T) {
	const shop = `<html lang=en><title>shop</title><svg><a href=/svg>x</a></svg><main><h1>Lamp</h1><p class=price>19,90 €</p>
		<p>A lamp for the desk, with an arm that reaches far over the paper and a switch that is found in the dark.</p><a href=p/2?utm_source=x>next</a></main>`
	answers := map[string]reply{
		"http://a.test/":    page(shop),
		"http://a.test/p/2": page("<h1>Sold out</h1>"),
		"http://a.test/svg": page(strings.Repeat("<div>", 600) + "<h1>deep</h1>"),
	}
	rules, err := fields.New(fields.Group{Fields: []string{"name=h1", "price=.price | number | required", "next[]=a@href"}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(answers))
		cfg := w.config()
		cfg.Fields, cfg.Text = rules, true
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
			if p.URL.String() == "http://a.test/" && string(p.Record.Fields) == "" {
				t.Error("OnPage sees no fields")
			}
			return nil
		}
		w.crawl(cfg, "http://a.test/")
		whole := w.sink.recordOf(t, "http://a.test/")
		const want = `{"name":"Lamp","price":19.90,"next":["http://a.test/svg","http://a.test/p/2?utm_source=x"]}`
		if string(whole.Fields) != want || whole.Incomplete != nil || whole.Lang != "en" || whole.LinksFound != 2 ||
			!strings.HasPrefix(whole.Text, "Lamp\n19,90 €\nA lamp for") {
			t.Errorf("record %+v\nfields %s, want %s", whole, whole.Fields, want)
		}
		if part := w.sink.recordOf(t, "http://a.test/p/2"); string(part.Fields) != `{"name":"Sold out"}` || !slices.Equal(part.Incomplete, []string{"price"}) {
			t.Errorf("record %+v, fields %s, want the name, and the price as incomplete", part, part.Fields)
		}
		deep := w.sink.recordOf(t, "http://a.test/svg")
		if deep.Fields != nil || !slices.Equal(deep.Incomplete, []string{"price"}) || !strings.Contains(deep.Error, "more than 512 elements are open at once") {
			t.Errorf("record %+v, fields %s, want none, and the error that the page is too deep", deep, deep.Fields)
		}
	})
	synctest.Test(t, func(t *testing.T) { // without fields, the page needs no document
		w := newWorld(t, pages(answers))
		cfg := w.config()
		w.crawl(cfg, "http://a.test/")
		if bare := w.sink.recordOf(t, "http://a.test/"); bare.Fields != nil || bare.Text != "" || bare.LinksFound != 2 {
			t.Errorf("crawl without field rules: record %+v, want 2 links and no data", bare)
		}
		if deep := w.sink.recordOf(t, "http://a.test/svg"); deep.Error != "" {
			t.Errorf("crawl without field rules: the record of a deep page has an error: %+v", deep)
		}
	})
}

// dataHosts returns seeds of n hosts whose pages have the same heading and link, and the pages.
func dataHosts(n int, body string) (seeds []string, answers map[string]reply) {
	answers = map[string]reply{}
	for i := range n {
		seed := fmt.Sprintf("http://%d.test/", i)
		seeds, answers[seed] = append(seeds, seed), page("<h1>x</h1><a href=/next>x</a>"+body)
	}
	return seeds, answers
}

func headings(t *testing.T) *fields.Rules {
	t.Helper()
	rules, err := fields.New(fields.Group{Fields: []string{"name=h1 | required"}})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// TestDataWaitsForMemory: a page whose document does not fit into memory waits, however long,
// until another page is completed.
func TestDataWaitsForMemory(t *testing.T) {
	rules := headings(t)
	synctest.Test(t, func(t *testing.T) {
		seeds, answers := dataHosts(8, strings.Repeat("<p>text</p>", 20_000))
		w := newWorld(t, pages(answers))
		cfg := w.config()
		cfg.Fields, cfg.Concurrency = rules, len(seeds)
		cfg.Memory = fetcher.LeastMemory(cfg.Client) + 2<<20      // room for all bodies and one document
		cfg.OnPage = func(context.Context, *fetcher.Page) error { // holds the document
			time.Sleep(time.Minute)
			return nil
		}
		w.crawl(cfg, seeds...)
		for _, url := range seeds {
			if r := w.sink.recordOf(t, url); string(r.Fields) != `{"name":"x"}` || r.NotTaken != "" {
				t.Errorf("%s: fields %s, not taken %q, error %q", url, r.Fields, r.NotTaken, r.Error)
			}
		}
	})
}

// TestDataWaitsForItsTurn: the time that a page waits for its turn to be parsed does not count
// towards the time of its document.
func TestDataWaitsForItsTurn(t *testing.T) {
	rules := headings(t)
	synctest.Test(t, func(t *testing.T) {
		seeds, answers := dataHosts(8, "")
		w := newWorld(t, pages(answers))
		cfg := w.config()
		cfg.Fields, cfg.Text, cfg.Concurrency = rules, true, len(seeds)
		c := w.worker(cfg)
		release := c.OccupyParsers()
		time.AfterFunc(time.Minute, release)
		w.crawlWith(c, fetcher.Empty, seeds...)
		for _, url := range seeds {
			if r := w.sink.recordOf(t, url); string(r.Fields) != `{"name":"x"}` || r.Text == "" {
				t.Errorf("%s: fields %s, text %q, error %q", url, r.Fields, r.Text, r.Error)
			}
		}
	})
}

// TestDataNotTaken: a page whose data takes too much work has failed after one attempt, and one
// that has no document is done. Both have a mark that is counted, and their links are followed.
// After Retry the data of the slow page is taken.
func TestDataNotTaken(t *testing.T) {
	rules := headings(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://slow.test/": page("<h1>x</h1><a href=/next>x</a>"), "http://slow.test/next": status(404),
			"http://deep.test/": page(strings.Repeat("<div>", 600) + "<a href=/next>x</a>"), "http://deep.test/next": status(404),
		}))
		cfg := w.config()
		cfg.Fields = rules
		slow := w.worker(cfg)
		slow.SetDocumentTime(-1) // the time is over when it begins
		w.crawlWith(slow, fetcher.Empty, "http://slow.test/")
		w.crawlWith(w.worker(cfg), fetcher.Empty, "http://deep.test/")
		for _, c := range []struct {
			url, mark string
			outcome   frontier.Outcome
		}{{"http://slow.test/", "too_slow", frontier.Handler}, {"http://deep.test/", "too_deep", frontier.OK}} {
			if r := w.sink.recordOf(t, c.url); r.NotTaken != c.mark || r.Outcome != string(c.outcome) || r.Error == "" ||
				r.Attempts != 1 || r.LinksAdded != 1 || !slices.Equal(r.Incomplete, []string{"name"}) {
				t.Errorf("record %+v, want outcome %s after one attempt, with the mark %s and a link", r, c.outcome, c.mark)
			}
		}
		slow.Hosts(func(counts fetcher.HostCounts) {
			if n := counts.NotTaken; n.Count("too_slow") != 1 || n.Total() != 1 {
				t.Errorf("%d pages are counted as too slow, %d in all, want 1 and 1", n.Count("too_slow"), n.Total())
			}
		})
		if n, err := w.store.Retry(t.Context(), frontier.Failures{}); n != 1 || err != nil {
			t.Fatalf("Retry: %d, %v, want the page that was too slow", n, err)
		}
		if end, err := w.worker(cfg).Run(t.Context()); end != fetcher.Empty || err != nil {
			t.Fatalf("Run after Retry ended with %q, %v", end, err)
		}
		if r := w.sink.records[len(w.sink.records)-1]; string(r.Fields) != `{"name":"x"}` || r.NotTaken != "" || r.Outcome != string(frontier.OK) {
			t.Errorf("after Retry: record %+v, want fields and outcome ok", r)
		}
	})
}
