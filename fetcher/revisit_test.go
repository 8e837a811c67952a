package fetcher_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// remembered is a fetcher.Visits that knows one row for all pages.
type remembered struct {
	row           *revisit.Row // nil means that nothing is known
	unconditional bool
}

func (r remembered) Active() bool { return true }

func (r remembered) Known(_ context.Context, items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]fetcher.Known, error) {
	if r.row == nil {
		return nil, nil
	}
	known := make(map[bloomstore.Fingerprint]fetcher.Known)
	for _, item := range items {
		known[item] = fetcher.Known{Row: *r.row, Unconditional: r.unconditional}
	}
	return known, nil
}

func (remembered) Claim([]fetcher.Claim) error { return nil }

// asked are the conditions of a request.
type asked struct{ match, since string }

// visit crawls one page of a server and returns its record and the conditions of all requests for it.
func visit(t *testing.T, known remembered, server func(*http.Request) reply) (r record.Record, requests []asked) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		w := newWorld(t, &wire{answer: func(req *http.Request, url string, _ int) (reply, bool) {
			if strings.HasSuffix(url, "/robots.txt") {
				if req.Header.Get("If-None-Match")+req.Header.Get("If-Modified-Since") != "" {
					t.Error("the request for robots.txt is conditional")
				}
				return status(404), true
			}
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, asked{req.Header.Get("If-None-Match"), req.Header.Get("If-Modified-Since")})
			return server(req), true
		}})
		cfg := w.config()
		cfg.Visits = known
		w.crawl(cfg, "http://a.test/")
		r = w.sink.recordOf(t, "http://a.test/")
	})
	return r, requests
}

const (
	modified = "Tue, 01 Sep 2026 10:00:00 GMT"
	text1    = "<title>1</title>The text"
)

// withTags answers with these validators; in tags, if the condition names the tag, with 304.
func answering(body, tag, lastModified string, heeds ...string) func(*http.Request) reply {
	return func(r *http.Request) reply {
		header := map[string]string{}
		if tag != "" {
			header["Etag"] = tag
		}
		if lastModified != "" {
			header["Last-Modified"] = lastModified
		}
		for _, heeded := range heeds {
			for _, sent := range strings.Split(r.Header.Get("If-None-Match"), ",") {
				if strings.TrimSpace(sent) == heeded {
					return reply{status: 304, header: header}
				}
			}
			if heeded == r.Header.Get("If-Modified-Since") {
				return reply{status: 304, header: header}
			}
		}
		return reply{header: header, body: body}
	}
}

// TestRevisited visits a page twice. The servers keep the rules, ignore them or break them.
func TestRevisited(t *testing.T) {
	always := func(*http.Request) reply { return reply{status: 304} }
	once := func(next func(*http.Request) reply) func(*http.Request) reply { // a first answer 304 or 412 with a foreign tag
		first := true
		return func(r *http.Request) reply {
			if first {
				first = false
				return reply{status: 304, header: map[string]string{"Etag": `"foreign"`}}
			}
			return next(r)
		}
	}
	for _, c := range []struct {
		name          string
		first, second func(*http.Request) reply
		want          []asked
		outcome       string
		change        revisit.Change
	}{
		{"nothing sent", answering(text1, "", ""), answering(text1, "", ""), []asked{{}}, "ok", revisit.Unchanged},
		{"both validators", answering(text1, `"a"`, modified), answering(text1, `"a"`, modified, `"a"`), []asked{{`"a"`, modified}}, "not_modified", revisit.Unchanged},
		{"only a date", answering(text1, "", modified), answering(text1, "", modified, modified), []asked{{"", modified}}, "not_modified", revisit.Unchanged},
		{"a date that is none", answering(text1, "", "yesterday"), answering(text1, "", "yesterday"), []asked{{}}, "ok", revisit.Unchanged},
		{"a weak tag", answering(text1, `W/"a"`, ""), answering(text1, `W/"a"`, "", `W/"a"`), []asked{{`W/"a"`, ""}}, "not_modified", revisit.Unchanged},
		{"304 without validators", answering(text1, `"a"`, ""), always, []asked{{`"a"`, ""}}, "not_modified", revisit.Unchanged},
		{"304 with a weak form of the tag", answering(text1, `"a"`, ""), answering(text1, `W/"a"`, "", `"a"`), []asked{{`"a"`, ""}}, "not_modified", revisit.Unchanged},
		{"a server that adds -gzip and does not know it", answering(text1, `"a-gzip"`, ""), answering(text1, `"a"`, "", `"a"`), []asked{{`"a-gzip", "a"`, ""}}, "not_modified", revisit.Unchanged},
		{"a tag for each packing", answering(text1, `"a--gzip"`, ""), answering(text1, `"a;gzip"`, "", `"a"`), []asked{{`"a--gzip", "a"`, ""}}, "not_modified", revisit.Unchanged},
		{"conditions are ignored", answering(text1, `"a"`, modified), answering(text1, `"a"`, modified), []asked{{`"a"`, modified}}, "ok", revisit.Unchanged},
		{"other bytes, the same text", answering(text1, `"a"`, ""), answering("<title>2</title>The  <b>text</b>", `"b"`, "", `"b"`), []asked{{`"a"`, ""}}, "ok", revisit.Unchanged},
		{"another text", answering(text1, `"a"`, ""), answering("Other", `"b"`, "", `"b"`), []asked{{`"a"`, ""}}, "ok", revisit.Changed},
		{"304 with a tag that was not sent", answering(text1, `"a"`, ""), once(answering("Other", `"b"`, "")), []asked{{`"a"`, ""}, {}}, "ok", revisit.Changed},
		{"304 with a foreign tag for ever", answering(text1, `"a"`, ""), func(*http.Request) reply {
			return reply{status: 304, header: map[string]string{"Etag": `"foreign"`}}
		}, []asked{{`"a"`, ""}, {}, {}, {}, {}}, "server_error", ""},
		{"412", answering(text1, `"a"`, ""), func(r *http.Request) reply {
			if r.Header.Get("If-None-Match") != "" {
				return status(412)
			}
			return page(text1)
		}, []asked{{`"a"`, ""}, {}}, "ok", revisit.Unchanged},
		{"500, then an answer", answering(text1, `"a"`, ""), func(r *http.Request) reply {
			if r.Header.Get("If-None-Match") != "" {
				return status(500)
			}
			return page(text1)
		}, []asked{{`"a"`, ""}, {}}, "ok", revisit.Unchanged},
		{"gone", answering(text1, `"a"`, ""), func(*http.Request) reply { return status(410) }, []asked{{`"a"`, ""}}, "client_error", ""},
		{"a redirect", answering(text1, `"a"`, ""), func(*http.Request) reply { return redirect("ftp://a.test/x") }, []asked{{`"a"`, ""}}, "redirect", revisit.Changed},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, requests := visit(t, remembered{}, c.first)
			if len(requests) != 1 || requests[0] != (asked{}) || first.Change != string(revisit.New) {
				t.Fatalf("the first visit asks %q and finds %q, want no conditions and %q", requests, first.Change, revisit.New)
			}
			row, _ := revisit.Row{}.After(first.Visit(), revisit.Fixed(time.Hour, revisit.Limits{Least: time.Hour, Most: time.Hour}), 1)
			got, requests := visit(t, remembered{row: &row}, c.second)
			if len(requests) != len(c.want) {
				t.Fatalf("the second visit makes the requests %q, want %q", requests, c.want)
			}
			for i, want := range c.want {
				if requests[i] != want {
					t.Errorf("request %d has the conditions %q, want %q", i, requests[i], want)
				}
			}
			if got.Outcome != c.outcome || got.Change != string(c.change) {
				t.Errorf("the second visit ends with %s and %q, want %s and %q", got.Outcome, got.Change, c.outcome, c.change)
			}
		})
	}
	t.Run("not conditional", func(t *testing.T) {
		row := &revisit.Row{Visited: time.Now(), ETag: `"a"`, LastModified: modified}
		got, requests := visit(t, remembered{row, true}, answering(text1, `"a"`, modified, `"a"`))
		if len(requests) != 1 || requests[0] != (asked{}) || got.Outcome != "ok" {
			t.Errorf("requests %q end with %s, want one without conditions", requests, got.Outcome)
		}
	})
	t.Run("304 without a question", func(t *testing.T) {
		got, requests := visit(t, remembered{}, always)
		if got.Outcome != "server_error" || len(requests) != 4 || got.Change != "" {
			t.Errorf("%d requests end with %s and %q, want server_error after 4", len(requests), got.Outcome, got.Change)
		}
	})
}

// TestStale: an item whose round was visited already ends without a request and a record, and is counted.
func TestStale(t *testing.T) {
	for next, want := range map[uint32]frontier.Outcome{0: frontier.OK, 1: frontier.Stale} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
				if want == frontier.Stale && !strings.HasSuffix(url, "/robots.txt") {
					t.Errorf("%s was requested", url)
				}
				return status(404), false
			}})
			cfg := w.config()
			cfg.Visits = reached(next)
			w.crawl(cfg, "http://a.test/")
			stats, err := w.store.Stats(t.Context())
			if err != nil || stats.Outcomes[want] != 1 || stats.Done != 1 || stats.Records != map[bool]uint64{true: 0, false: 1}[want == frontier.Stale] {
				t.Errorf("with rounds up to %d: %+v, %v", next, stats, err)
			}
		})
	}
}

// reached is a fetcher.Visits of pages that were visited before a round.
type reached uint32

func (reached) Active() bool { return true }

func (reached) Claim([]fetcher.Claim) error { return nil }

func (r reached) Known(_ context.Context, items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]fetcher.Known, error) {
	known := make(map[bloomstore.Fingerprint]fetcher.Known)
	for _, item := range items {
		known[item] = fetcher.Known{Next: uint32(r)}
	}
	return known, nil
}

// claimed is a fetcher.Visits that knows nothing, and collects what sitemaps say.
type claimed struct {
	fetcher.Visits
	mu  sync.Mutex
	all []string
}

func (*claimed) Active() bool { return true }

func (*claimed) Known(context.Context, []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]fetcher.Known, error) {
	return nil, nil
}

func (c *claimed) Claim(claims []fetcher.Claim) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range claims {
		c.all = append(c.all, one.URL+" "+one.First.Format(time.DateOnly))
	}
	return nil
}

// TestClaim: what a sitemap says of pages and sitemaps of its own domain is passed on, with canonical URLs, and what it says of others
// is not.
func TestClaim(t *testing.T) {
	entry := func(kind, url, lastmod string) string {
		return "<" + kind + "><loc>" + url + "</loc><lastmod>" + lastmod + "</lastmod></" + kind + ">"
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://h.test/robots.txt": robotsTxt("Sitemap: http://h.test/index.xml"),
			"http://h.test/index.xml":  {body: "<sitemapindex>" + entry("sitemap", "/one.xml", "2026-11-01") + "</sitemapindex>", contents: "text/xml"},
			"http://h.test/one.xml": {body: "<urlset>" + entry("url", "/a#x", "2026-11-02") + entry("url", "http://www.h.test/b", "2026-11-03") +
				entry("url", "http://other.test/c", "2026-11-04") + entry("url", "/d", "soon") + "<url><loc>/e</loc></url></urlset>", contents: "text/xml"},
		}))
		cfg, got := w.config(), new(claimed)
		cfg.Sitemaps, cfg.Visits = true, got
		w.crawl(cfg, "http://h.test/")
		slices.Sort(got.all)
		want := []string{"http://h.test/a 2026-11-02", "http://h.test/one.xml 2026-11-01", "http://www.h.test/b 2026-11-03"}
		if !slices.Equal(got.all, want) {
			t.Errorf("%q, want %q", got.all, want)
		}
	})
}
