package fetcher_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// redirectBy returns a redirect with a status.
func redirectBy(status int, to string) reply {
	return reply{status: status, header: map[string]string{"Location": to}}
}

// TestRedirectToAnotherSpelling: if a URL redirects to a spelling with the same canonical form, the
// same visit requests that spelling. There is one record, and the links of the page are crawled.
func TestRedirectToAnotherSpelling(t *testing.T) {
	for _, c := range []struct{ name, from, location, asked string }{
		{"session id in the query", "/item?id=7", "/item?id=7&PHPSESSID=0123456789abcdef0123456789abcdef", "/item?id=7&PHPSESSID=0123456789abcdef0123456789abcdef"},
		{"session id in the path", "/list", "/list;jsessionid=E460A97852FA769CD9AD.node1", "/list;jsessionid=E460A97852FA769CD9AD.node1"},
		{"tracking parameter", "/news", "/news?utm_source=site", "/news?utm_source=site"},
		{"empty query", "/q", "/q?", "/q?"},
		{"relative to the path", "/dir/a", "a?utm_source=x", "/dir/a?utm_source=x"},
		{"only a query", "/dir/a", "?gclid=1", "/dir/a?gclid=1"},
		{"escapes", "/~user", "/%7euser", "/%7euser"},
		{"fragment and scheme", "/a", "HTTP://H.TEST:80/x/../a?fbclid=1#top", "/a?fbclid=1"},
		{"white space", "/a%20b", " /a b?utm_source=x y ", "/a%20b?utm_source=x%20y"},
		{"not ASCII", "/caf%C3%A9", "/café?utm_source=é", "/caf%C3%A9?utm_source=%C3%A9"},
		{"no UTF-8", "/a", "/a?utm_source=\xe9", "/a?utm_source=%E9"},
	} {
		for _, status := range []int{300, 301, 302, 303, 307, 308} {
			t.Run(fmt.Sprintf("%s/%d", c.name, status), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, pages(map[string]reply{
						"http://h.test" + c.from:  redirectBy(status, c.location),
						"http://h.test" + c.asked: page(`<title>here</title><a href="/below">x</a>`),
					}))
					w.crawl(w.config(), "http://h.test"+c.from)
					want := []string{"http://h.test/robots.txt", "http://h.test" + c.from, "http://h.test" + c.asked, "http://h.test/below"}
					if diff := cmp.Diff(want, w.wire.urls()); diff != "" {
						t.Errorf("requests (-want +got):\n%s", diff)
					}
					r := w.sink.recordOf(t, "http://h.test"+c.from)
					if r.Spelling != "http://h.test"+c.asked || r.Title != "here" || r.Outcome != "ok" || r.RedirectTo != "" || r.Attempts != 1 {
						t.Errorf("record %+v", r)
					}
					judgeStarts(t, w.wire.log(), same(w.config().Politeness))
				})
			})
		}
	}
}

// TestSortedQueryIsAnotherSpelling: with sorted queries, the order of parameters is a matter of
// spelling.
func TestSortedQueryIsAnotherSpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://h.test/?a=2&b=1": redirect("/?b=1&a=2"),
			"http://h.test/?b=1&a=2": page("<title>here</title>"),
		}))
		cfg := w.config()
		var err error
		if cfg.Canon, err = canon.New(canon.Options{SortQuery: true}); err != nil {
			t.Fatal(err)
		}
		w.crawl(cfg, "http://h.test/?a=2&b=1")
		if r := w.sink.recordOf(t, "http://h.test/?a=2&b=1"); r.Title != "here" {
			t.Errorf("record %+v", r)
		}
	})
}

// TestRespellingsEnd: a visit asks for no spelling twice and for at most five further ones, and the
// record says why it ended.
func TestRespellingsEnd(t *testing.T) {
	for _, c := range []struct {
		name    string
		answer  func(n string) reply // the answer to spelling n of /a
		asked   int
		outcome string
		why     string
	}{
		{"to itself", func(string) reply { return redirect("/a") }, 1, "redirect", "requested before"},
		{"to a fragment", func(string) reply { return redirect("#x") }, 1, "redirect", "requested before"},
		{"there and back", func(n string) reply {
			if n == "" {
				return redirect("/a?utm_source=1")
			}
			return redirect("/a")
		}, 2, "redirect", "requested before"},
		{"endless", func(n string) reply { return redirect("/a?utm_source=1" + n) }, 6, "redirect", "more than 5"},
		{"to another URL", func(n string) reply {
			if n == "" {
				return redirect("/a?utm_source=1")
			}
			return redirect("/b")
		}, 2, "redirect", ""},
		{"to an error", func(n string) reply {
			if n == "" {
				return redirect("/a?utm_source=1")
			}
			return status(404)
		}, 2, "client_error", ""},
		{"to a page with a bad type", func(n string) reply {
			if n == "" {
				return redirect("/a?utm_source=1")
			}
			return reply{contents: "image/png"}
		}, 2, "type", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
					rest, is := strings.CutPrefix(url, "http://h.test/a")
					return c.answer(strings.TrimPrefix(rest, "?utm_source=")), is
				}})
				w.crawl(w.config(), "http://h.test/a")
				asked := slices.DeleteFunc(w.wire.urls(), func(url string) bool { return !strings.HasPrefix(url, "http://h.test/a") })
				if len(asked) != c.asked {
					t.Errorf("requests %q, want %d", asked, c.asked)
				}
				r := w.sink.recordOf(t, "http://h.test/a")
				if r.Outcome != c.outcome || !strings.Contains(r.Error, c.why) || c.why == "" && r.Error != "" {
					t.Errorf("outcome %s, error %q, want %s with %q", r.Outcome, r.Error, c.outcome, c.why)
				}
				judgeStarts(t, w.wire.log(), same(w.config().Politeness))
			})
		})
	}
}

// TestRespellingIsRetriedAsAWhole: if the last spelling fails, the item is tried again from its
// canonical URL, and a 429 pauses the host.
func TestRespellingIsRetriedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, try int) (reply, bool) {
			switch {
			case url == "http://h.test/a":
				return redirect("/a?utm_source=1"), true
			case url == "http://h.test/a?utm_source=1" && try == 0:
				return reply{status: 429, header: map[string]string{"Retry-After": "60"}}, true
			case url == "http://h.test/a?utm_source=1" && try == 1:
				return reply{broken: errBroken}, true
			}
			return reply{}, false
		}})
		w.crawl(w.config(), "http://h.test/a")
		if n := w.wire.count("http://h.test/a"); n != 3 {
			t.Errorf("%d requests for /a, want 3", n)
		}
		if r := w.sink.recordOf(t, "http://h.test/a"); r.Outcome != "ok" || r.Attempts != 3 {
			t.Errorf("outcome %s after %d attempts, want ok after 3", r.Outcome, r.Attempts)
		}
		judgeStarts(t, w.wire.log(), same(w.config().Politeness))
	})
}

// TestRobotsForbidASpelling: robots.txt is asked about the exact spelling.
func TestRobotsForbidASpelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://h.test/robots.txt": robotsTxt("User-agent: *\nDisallow: /*PHPSESSID"),
			"http://h.test/a":          redirect("/a?PHPSESSID=1"),
			"http://h.test/b":          redirect("/b?utm_source=1"),
		}))
		w.crawl(w.config(), "http://h.test/a", "http://h.test/b")
		if n := w.wire.count("http://h.test/a?PHPSESSID=1"); n != 0 {
			t.Errorf("%d requests for a forbidden spelling", n)
		}
		if r := w.sink.recordOf(t, "http://h.test/a"); r.Outcome != "robots" || r.Status != 302 || r.Error != "robots.txt: Disallow: /*PHPSESSID" {
			t.Errorf("record %+v", r)
		}
		if r := w.sink.recordOf(t, "http://h.test/b"); r.Outcome != "ok" {
			t.Errorf("record %+v", r)
		}
	})
}

// TestRespellingsAreRequestsLikeOthers: each waits for the host's delay and the rate, is counted,
// and gets the private headers of its origin, also with several requests to the host at once.
func TestRespellingsAreRequestsLikeOthers(t *testing.T) {
	for _, concurrency := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			secret := map[string]int{}
			w := newWorld(t, nil)
			var seeds []string
			for i := range 20 {
				seeds = append(seeds, fmt.Sprintf("http://h.test/%d", i))
			}
			w.wire = &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
				w.wire.mu.Lock()
				secret[r.Header.Get("Authorization")]++
				w.wire.mu.Unlock()
				if strings.Contains(url, "robots.txt") || strings.Contains(url, "?") {
					return reply{}, false
				}
				return redirect(url + "?utm_source=1"), true
			}}
			cfg := w.config()
			var err error
			cfg.Client, err = get.New(get.Config{Transport: w.wire, Headers: http.Header{"Authorization": {"x"}}})
			if err != nil {
				t.Fatal(err)
			}
			cfg.HostConcurrency = concurrency
			cfg.Politeness = every(7 * time.Second)
			cfg.Rate = 0.5
			c := w.worker(cfg)
			w.crawlWith(c, fetcher.Empty, seeds...)
			if secret["x"] != 41 || len(secret) != 1 {
				t.Errorf("requests by private header: %v, want 41 with it", secret)
			}
			if progress := c.Progress(); progress.Requests != 40 {
				t.Errorf("%d requests counted, want 40", progress.Requests)
			}
			judgeStarts(t, w.wire.log(), same(cfg.Politeness))
		})
	}
}

// TestStopDuringRespelling: a stop gives an item back whose other spelling was not requested yet,
// and the next run crawls it.
func TestStopDuringRespelling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://h.test/a":              redirect("/a?utm_source=1"),
			"http://h.test/a?utm_source=1": links("/below"),
		}))
		cfg := w.config()
		cfg.Politeness = every(30 * time.Second)
		c := w.worker(cfg)
		w.seed(c, "http://h.test/a")
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second) // after the answer to /a, before the next request
		defer cancel()
		if end, err := c.Run(ctx); err != nil || end != fetcher.Stopped {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		w.balanced()
		if stats := w.stats(); stats.Done != 0 || stats.Queued != 1 {
			t.Errorf("after the stop: %+v", stats)
		}
		if _, err := w.worker(cfg).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.balanced()
		if r := w.sink.recordOf(t, "http://h.test/a"); r.Spelling != "http://h.test/a?utm_source=1" {
			t.Errorf("record %+v", r)
		}
		judgeStarts(t, w.wire.log(), same(cfg.Politeness))
	})
}
