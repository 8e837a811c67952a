package fetcher_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/fields"
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

// TestDataWaitsForMemory: a page whose document does not fit into memory waits
// until another page is completed.
func TestDataWaitsForMemory(t *testing.T) {
	rules, err := fields.New(fields.Group{Fields: []string{"name=h1 | required"}})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		big := page("<h1>x</h1>" + strings.Repeat("<p>text</p>", 20_000))
		answers := map[string]reply{}
		var seeds []string
		for _, host := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			answers["http://"+host+".test/"] = big
			seeds = append(seeds, "http://"+host+".test/")
		}
		w := newWorld(t, pages(answers))
		cfg := w.config()
		cfg.Fields, cfg.Concurrency = rules, 8
		cfg.Memory = fetcher.LeastMemory(cfg.Client) + 2<<20 // room for all bodies and one document
		w.crawl(cfg, seeds...)
		for _, url := range seeds {
			if r := w.sink.recordOf(t, url); string(r.Fields) != `{"name":"x"}` {
				t.Errorf("%s: fields %s, error %q", url, r.Fields, r.Error)
			}
		}
	})
}
