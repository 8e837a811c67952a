package fetcher_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/PuerkitoBio/goquery"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// TestOnPageError: after an error of OnPage, the page is queued again with one attempt
// used. If OnPage fails each time, the page fails and none of its links are counted.
func TestOnPageError(t *testing.T) {
	for _, c := range []struct {
		failures, retries, calls int
		outcome                  frontier.Outcome
	}{
		{2, 3, 3, frontier.OK},
		{1000, 3, 4, frontier.Handler},
		{1000, 1, 2, frontier.Handler},
		{1000, 0, 1, frontier.Handler},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(map[string]reply{"http://a.test/": links("/1", "/2", "http://b.test/")}))
			cfg := w.config()
			cfg.Retries = c.retries
			calls := 0
			var attempts []uint8
			cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
				if p.URL.String() != "http://a.test/" {
					return nil
				}
				calls++
				attempts = append(attempts, p.Item.Attempts)
				if want := record.EventID(p.Item.Fingerprint, 0); p.EventID() != want {
					t.Errorf("call %d has event id %q, want %q", calls, p.EventID(), want)
				}
				if calls <= c.failures {
					return errors.New("no room for it")
				}
				return nil
			}
			w.crawl(cfg, "http://a.test/")
			got := w.sink.recordOf(t, "http://a.test/")
			if got.Outcome != string(c.outcome) || calls != c.calls || got.Attempts != c.calls || got.Status != 200 {
				t.Errorf("%+v: %d calls of OnPage, record %+v", c, calls, got)
			}
			for i, n := range attempts {
				if int(n) != i {
					t.Errorf("call %d (from 0) of OnPage: the item has %d attempts, want as many as earlier calls", i, n)
				}
			}
			stats := w.stats()
			found := uint64(1 + 3) // the seed and three links
			if c.outcome == frontier.Handler {
				found = 1
				if got.Error != "no room for it" || got.LinksFound != 0 {
					t.Errorf("record %+v, want the error of OnPage and no links", got)
				}
			}
			if stats.Found != found || stats.Retries != uint64(c.calls-1) {
				t.Errorf("%+v: books %+v, %d retries", c, stats.Books, stats.Retries)
			}
		})
	}
}

// TestOnPageEditsLinks: links that OnPage drops and adds are counted, and the
// rules apply to added links.
func TestOnPageEditsLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/": links("/keep", "/drop/1", "/drop/2", "/keep", "mailto:x", "http://b.test/", "/not"),
		}))
		cfg := w.config()
		cfg.Rules.Exclude, cfg.Rules.MaxDepth = []*regexp.Regexp{regexp.MustCompile(`/not$`)}, 1
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
			if p.Item.Depth > 0 {
				if err := p.Add("/deeper"); !errors.Is(err, fetcher.ErrNotOffered) {
					t.Errorf("Add of a link beyond MaxDepth: %v, want ErrNotOffered", err)
				}
				return nil
			}
			p.Drop(func(url string) bool { return url == "http://a.test/drop/1" || url == "http://a.test/drop/2" })
			for ref, refused := range map[string]bool{
				"/added": false, "added#again": false, "http://b.test/": true, "ftp://a.test/": true, "/x/not": true, "http://[": true,
			} {
				if err := p.Add(ref); (err != nil) != refused {
					t.Errorf("Add(%q) = %v", ref, err)
				}
			}
			if got, want := p.Links(), []string{"http://a.test/keep"}; len(got) != 3 || got[0] != want[0] {
				t.Errorf("Links() = %q, want 3, the first of them %s", got, want[0])
			}
			return nil
		}
		w.crawl(cfg, "http://a.test/")
		if got := w.sink.recordOf(t, "http://a.test/"); got.LinksFound != 12 || got.LinksAdded != 2 {
			t.Errorf("record with %d links found, %d added, want 12 and 2", got.LinksFound, got.LinksAdded)
		}
		want := map[frontier.Reason]uint64{
			frontier.ReasonOnPage: 2, frontier.ReasonScheme: 2, frontier.ReasonScope: 2, frontier.ReasonExcluded: 2,
			frontier.ReasonMalformed: 1, frontier.ReasonDepth: 2,
		}
		stats := w.stats()
		for reason, n := range want {
			if stats.Refused[reason] != n {
				t.Errorf("%d links refused for %q, want %d", stats.Refused[reason], reason, n)
			}
		}
		if stats.Added != 3 || stats.Seen != 1 || stats.Found != stats.Added+stats.Seen+stats.RefusedTotal() {
			t.Errorf("books %+v, want 3 added, 1 seen, and the sum of all as found", stats.Books)
		}
	})
}

// TestDocumentIsParsedOnce: all calls of Document return the same document. OnPage is not
// called for a status of 404.
func TestDocumentIsParsedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://a.test/": page("<title>A  title</title><p>text"), "http://a.test/404": status(404)}))
		cfg := w.config()
		var documents []*goquery.Document
		cfg.OnPage = func(_ context.Context, p *fetcher.Page) error {
			documents = append(documents, p.Document(), p.Document())
			if string(p.Response.Body) != "<title>A  title</title><p>text" || p.Record.Title != "A title" {
				t.Errorf("body %q, record %+v", p.Response.Body, p.Record)
			}
			p.Record.Title = "mine"
			return nil
		}
		w.crawl(cfg, "http://a.test/", "http://a.test/404")
		if len(documents) != 2 || documents[0] == nil || documents[0] != documents[1] || documents[0].Find("p").Text() != "text" {
			t.Errorf("documents %v, want one document twice", documents)
		}
		if got := w.sink.recordOf(t, "http://a.test/"); got.Title != "mine" {
			t.Errorf("what OnPage wrote is not in the record: %+v", got)
		}
	})
}

// TestSlowOnPage: OnPage may take longer than a lease lasts. The worker keeps the lease, so
// each page is requested once.
func TestSlowOnPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{LeaseTTL: 10 * time.Second})
		cfg := w.config()
		var mu sync.Mutex
		calls := 0
		cfg.OnPage = func(ctx context.Context, _ *fetcher.Page) error {
			mu.Lock()
			calls++
			mu.Unlock()
			return wait(ctx, 10*time.Minute)
		}
		w.crawl(cfg, "http://a.test/1", "http://a.test/2", "http://a.test/3")
		if calls != 3 || len(w.wire.log()) != 4 {
			t.Errorf("%d calls of OnPage, want 3; requests %v, want 4", calls, w.wire.urls())
		}
	})
}

// TestRulesRefuseLinks checks which links are requested under rules for scope,
// depth and expressions.
func TestRulesRefuseLinks(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(r *follow.Rules)
		want []string // requested URLs, without the seed
	}{
		{"scope", func(*follow.Rules) {}, []string{"/in", "/in/2"}},
		{"subdomains", func(r *follow.Rules) { r.Scope = canon.ScopeSubdomains }, []string{"/in", "/in/2", "http://sub.a.test/"}},
		{"seeds only", func(r *follow.Rules) { r.MaxDepth = 0 }, nil},
		{"depth", func(r *follow.Rules) { r.MaxDepth = 1 }, []string{"/in"}},
		{"include", func(r *follow.Rules) { r.Include = []*regexp.Regexp{regexp.MustCompile("2$")} }, nil},
		{"exclude wins", func(r *follow.Rules) {
			r.Include, r.Exclude = []*regexp.Regexp{regexp.MustCompile("/in")}, []*regexp.Regexp{regexp.MustCompile("2$")}
		}, []string{"/in"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(map[string]reply{
					"http://a.test/":     links("/in", "http://sub.a.test/", "http://b.test/"),
					"http://a.test/in":   links("/in/2"),
					"http://b.test/":     links("http://c.test/"),
					"http://sub.a.test/": page(`<meta name=robots content=nofollow><a href=/hidden>`),
				}))
				cfg := w.config()
				c.set(&cfg.Rules)
				w.crawl(cfg, "http://a.test/")
				var got []string
				for _, call := range w.wire.log() {
					if !call.robots() && call.url != "http://a.test/" {
						got = append(got, call.url)
					}
				}
				var want []string
				for _, url := range c.want {
					if url[0] == '/' {
						url = "http://a.test" + url
					}
					want = append(want, url)
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("requested %q, want %q", got, want)
				}
			})
		})
	}
}

// TestRedirectsAreFollowed: the target of a seed's redirect is a seed and extends
// the scope. This holds for up to five redirects in a row. The target of a page's
// redirect is a link like any other.
func TestRedirectsAreFollowed(t *testing.T) {
	for hops := 1; hops <= 7; hops++ {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
				var hop int
				if n, _ := fmt.Sscanf(url, "http://h%d.test/", &hop); n == 0 || url != fmt.Sprintf("http://h%d.test/", hop) {
					return reply{}, false
				}
				if hop < hops {
					return redirect(fmt.Sprintf("//H%d.test", hop+1)), true
				}
				return links("/page", "http://elsewhere.test/"), true
			}})
			w.crawl(w.config(), "http://h0.test/")
			last := fmt.Sprintf("http://h%d.test/", min(hops, 5))
			first := w.sink.recordOf(t, "http://h0.test/")
			if first.Outcome != "redirect" || first.RedirectTo != "http://h1.test/" || first.LinksFound != 1 || first.LinksAdded != 1 {
				t.Errorf("%d hops: record %+v", hops, first)
			}
			got := w.sink.recordOf(t, last)
			if want := map[bool]string{true: "ok", false: "redirect"}[hops <= 5]; got.Outcome != want || got.Depth != 0 {
				t.Errorf("%d hops: %s has the record %+v", hops, last, got)
			}
			if n := w.stats().Refused[frontier.ReasonHops]; (n == 1) != (hops > 5) {
				t.Errorf("%d hops: %d links refused for ReasonHops, want 1 exactly if there are more than 5 hops", hops, n)
			}
			if hops <= 5 {
				w.sink.recordOf(t, last+"page")
			}
			if w.wire.count("http://elsewhere.test/") != 0 {
				t.Errorf("%d hops: a link out of scope was followed", hops)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // the redirect of a page
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/":      links("/away", "/loop", "/odd", "/none"),
			"http://a.test/away":  redirect("http://b.test/"),
			"http://a.test/loop":  redirect("/loop#again"),
			"http://a.test/odd":   redirect("gopher://a.test/"),
			"http://a.test/none":  status(300),
			"http://a.test/blank": {},
		}))
		w.crawl(w.config(), "http://a.test/")
		if n := w.wire.count("http://b.test/"); n != 0 {
			t.Errorf("the redirect of a page extended the scope: %d requests for http://b.test/, want 0", n)
		}
		stats := w.stats()
		if stats.Refused[frontier.ReasonScope] != 1 || stats.Refused[frontier.ReasonScheme] != 1 || stats.Seen != 1 || stats.Outcomes[frontier.Redirect] != 4 {
			t.Errorf("books %+v, outcomes %v", stats.Books, stats.Outcomes)
		}
	})
}

// TestAttemptsAreUsedUp checks which outcomes are tried again, how often, and after
// what time.
func TestAttemptsAreUsedUp(t *testing.T) {
	for name, c := range map[string]struct {
		bad     reply
		outcome frontier.Outcome
		status  int
		calls   int
	}{
		"500":     {status(500), frontier.ServerError, 500, 4},
		"503":     {status(503), frontier.ServerError, 503, 4},
		"429":     {status(429), frontier.Throttled, 429, 4},
		"408":     {status(408), frontier.Throttled, 408, 4},
		"broken":  {reply{broken: errBroken}, frontier.Network, 0, 4},
		"cut":     {reply{body: "x", cut: true}, frontier.OK, 200, 2}, // what arrived is kept
		"timeout": {reply{wait: time.Hour}, frontier.Network, 0, 4},
		"404":     {status(404), frontier.ClientError, 404, 1},
		"type":    {reply{contents: "image/png"}, frontier.Type, 200, 1},
		"304":     {status(304), frontier.ServerError, 304, 4}, // to a request without conditions
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(map[string]reply{"http://a.test/": c.bad}))
				cfg := w.config()
				w.crawl(cfg, "http://a.test/")
				got := w.sink.recordOf(t, "http://a.test/")
				if got.Outcome != string(c.outcome) || got.Status != c.status || got.Attempts != c.calls || w.wire.count("http://a.test/") != c.calls {
					t.Errorf("record %+v, want %+v", got, c)
				}
				if (got.Error != "") != (c.outcome.State() == frontier.Failed || name == "cut") {
					t.Errorf("the record has the error %q, want one exactly if the URL failed or was cut", got.Error)
				}
				calls := w.wire.log()[1:]
				for i := 1; i < len(calls); i++ { // the waits are 1 s, 4 s and 16 s
					if wait, least := calls[i].start.Sub(calls[i-1].end), time.Second<<(2*(i-1)); wait < least {
						t.Errorf("request %d (from 0) starts %v after the end of the one before, want at least %v",
							i, wait, least)
					}
				}
				if pages := w.stats().Pages; (pages == 1) != (c.status > 0) {
					t.Errorf("%d pages counted for an answer with status %d", pages, c.status)
				}
			})
		})
	}
}

// TestXHTMLAsXML: an XHTML document is a page whatever type of XML it is sent as. Other XML is not.
func TestXHTMLAsXML(t *testing.T) {
	document := func(link string) string {
		return `<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head><body><a href="` + link + `">x</a></body></html>`
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://h.test/text":  {contents: "text/xml; charset=utf-8", body: document("/a")},
			"http://h.test/app":   {contents: "application/xml", body: document("/b")},
			"http://h.test/phone": {contents: "application/vnd.wap.xhtml+xml", body: document("/c")},
			"http://h.test/none":  {contents: "unknown/unknown", body: document("/d")},
			"http://h.test/data":  {contents: "text/xml", body: "<data><html xmlns='http://www.w3.org/1999/xhtml'><a href='/never'/></html></data>"},
			"http://h.test/long":  {contents: "application/xml", body: "<data>" + strings.Repeat("<a/>", 20_000)},
			"http://h.test/plain": {contents: "text/plain", body: document("/never")},
		}))
		w.crawl(w.config(), "http://h.test/text", "http://h.test/app", "http://h.test/phone", "http://h.test/none",
			"http://h.test/data", "http://h.test/long", "http://h.test/plain")
		for path, want := range map[string]string{"text": "ok", "app": "ok", "phone": "ok", "none": "ok", "data": "type", "long": "type", "plain": "type"} {
			if r := w.sink.recordOf(t, "http://h.test/"+path); string(r.Outcome) != want {
				t.Errorf("/%s: outcome %s, want %s", path, r.Outcome, want)
			}
		}
		for _, path := range []string{"a", "b", "c", "d"} {
			if w.wire.count("http://h.test/"+path) != 1 {
				t.Errorf("/%s was not requested", path)
			}
		}
		if w.wire.count("http://h.test/never") != 0 {
			t.Error("a link in other XML was followed")
		}
	})
}
