package fetcher_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

func text(body string) reply { return reply{contents: "text/plain", body: body} }

// TestRobotsBeforePages: the worker requests the robots.txt of each origin
// once, before any page of that origin. The delay applies to this request too.
// Disallowed pages are recorded and not requested.
func TestRobotsBeforePages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt":      text("User-agent: *\nDisallow: /private"),
			"https://a.test/robots.txt":     text("User-agent: crawler\nDisallow: /\nAllow: /$"),
			"http://a.test:8080/robots.txt": status(403),
			"http://a.test/":                links("/private/1", "/open", "https://a.test/", "https://a.test/x", "http://a.test:8080/private"),
		}))
		w.crawl(w.config(), "http://a.test/")
		for url, want := range map[string]frontier.Outcome{
			"http://a.test/": frontier.OK, "http://a.test/private/1": frontier.Robots, "http://a.test/open": frontier.OK,
			"https://a.test/": frontier.OK, "https://a.test/x": frontier.Robots, "http://a.test:8080/private": frontier.OK,
		} {
			got := w.sink.recordOf(t, url)
			asked := w.wire.count(url)
			if got.Outcome != string(want) || (asked > 0) != (want == frontier.OK) || got.Attempts != asked {
				t.Errorf("%s: outcome %q, %d attempts, %d requests, want the outcome %q",
					url, got.Outcome, got.Attempts, asked, want)
			}
		}
		if got := w.sink.recordOf(t, "http://a.test/private/1"); got.Error != "robots.txt: Disallow: /private" || got.Status != 0 {
			t.Errorf("a disallowed page has the record %+v", got)
		}
		asked := map[string]bool{}
		for _, url := range w.wire.urls() {
			u, err := canonURL(url)
			if err != nil {
				t.Fatal(err)
			}
			if !asked[u.Origin()] && u.Path() != "/robots.txt" {
				t.Errorf("%s was asked for before the robots.txt of its origin", url)
			}
			if asked[u.Origin()] && u.Path() == "/robots.txt" {
				t.Errorf("%s was asked for again", url)
			}
			asked[u.Origin()] = true
		}
		judgeStarts(t, w.wire.log(), same(calm()))
	})
}

func canonURL(raw string) (canon.URL, error) {
	c, err := canon.New(canon.Options{})
	if err != nil {
		return canon.URL{}, err
	}
	return c.Parse(raw)
}

// TestRobotsOut: no page is fetched while robots.txt is unavailable. The worker
// tries robots.txt as often as a page, then the pages fail.
func TestRobotsOut(t *testing.T) {
	for name, bad := range map[string]reply{
		"500": status(500), "503": status(503), "429": status(429), "broken": {broken: errBroken}, "cut": {body: "User", cut: true},
	} {
		for _, failures := range []int{3, 1000} {
			t.Run(fmt.Sprintf("%s/failures=%d", name, failures), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, &wire{answer: func(_ *http.Request, url string, try int) (reply, bool) {
						return bad, strings.HasSuffix(url, "/robots.txt") && try < failures
					}})
					cfg := w.config()
					w.crawl(cfg, "http://a.test/1", "http://a.test/2", "http://a.test/3")
					judgeStarts(t, w.wire.log(), same(cfg.Politeness))
					urls := w.wire.urls()
					firstPage := slices.IndexFunc(urls, func(url string) bool { return !strings.HasSuffix(url, "/robots.txt") })
					stats := w.stats()
					if failures == 3 {
						if firstPage != 4 || stats.Outcomes[frontier.OK] != 3 {
							t.Errorf("requests %v, outcomes %v, want 3 pages after the fourth robots.txt", urls, stats.Outcomes)
						}
						return
					}
					if firstPage >= 0 || len(urls) != 4 || stats.Outcomes[frontier.Network] != 3 {
						t.Errorf("requests %v, outcomes %v, want four of robots.txt and 3 failures", urls, stats.Outcomes)
					}
					if got := w.sink.recordOf(t, "http://a.test/1"); got.Attempts != 0 || !strings.Contains(got.Error, "robots.txt") {
						t.Errorf("record %+v, want no attempt and an error of robots.txt", got)
					}
				})
			})
		}
	}
}

// TestRobotsOutHoldsUpItsOriginOnly: while the robots.txt of one origin is unavailable, the
// pages of another origin of the host are fetched.
func TestRobotsOutHoldsUpItsOriginOnly(t *testing.T) {
	for name, bad := range map[string]reply{"500": status(500), "503": status(503), "broken": {broken: errBroken}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &wire{answer: func(_ *http.Request, url string, try int) (reply, bool) {
					return bad, url == "https://a.test/robots.txt" && try < 3
				}})
				cfg := w.config()
				var seeds []string
				for i := range 40 { // more than the first items of a lease
					seeds = append(seeds, fmt.Sprintf("https://a.test/%d", i))
				}
				w.crawl(cfg, append(seeds, "http://a.test/1", "http://a.test/2")...)
				judgeStarts(t, w.wire.log(), same(cfg.Politeness))
				if done := w.stats().Outcomes[frontier.OK]; done != 42 {
					t.Fatalf("%d pages are done, want 42", done)
				}
				urls := w.wire.urls()
				retried := slices.Index(urls, "https://a.test/robots.txt")
				retried += 1 + slices.Index(urls[retried+1:], "https://a.test/robots.txt")
				if at := slices.Index(urls, "http://a.test/1"); at > retried {
					t.Errorf("http://a.test/1 is request %d (from 0), want it before the second for https://a.test/robots.txt: %v",
						at, urls[:at+1])
				}
			})
		})
	}
}

// TestRobotsRedirects: the worker follows up to five redirects, each after the delay. If
// there are more redirects, everything is allowed. The redirects are not requested again
// if the delay is longer than the lease of the host.
func TestRobotsRedirects(t *testing.T) {
	for _, delay := range []time.Duration{time.Second, 90 * time.Second} {
		for hops := range 8 {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
					if !strings.HasSuffix(url, "robots.txt") {
						return reply{}, false
					}
					var hop int
					_, _ = fmt.Sscanf(url, "http://a.test/%d/robots.txt", &hop)
					if hop < hops {
						return redirect(fmt.Sprintf("/%d/robots.txt", hop+1)), true
					}
					return text("User-agent: *\nDisallow: /page"), true
				}})
				cfg := w.config()
				cfg.Politeness.Delay = delay
				w.crawl(cfg, "http://a.test/page")
				judgeStarts(t, w.wire.log(), same(cfg.Politeness))
				want, requests := frontier.Robots, hops+1
				if hops > 5 {
					want, requests = frontier.OK, 7 // robots.txt, five redirects, the page
				}
				if got := w.sink.recordOf(t, "http://a.test/page"); got.Outcome != string(want) {
					t.Errorf("%d redirects: outcome %q, want %q", hops, got.Outcome, want)
				}
				if got := len(w.wire.log()); got != requests {
					t.Errorf("%d redirects: %d requests, want %d: %v", hops, got, requests, w.wire.urls())
				}
			})
		}
	}
}

// TestRobotsRedirectsAbroad: many hosts redirect their robots.txt to one host
// that also has pages. That host's delay is kept.
func TestRobotsRedirectsAbroad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
			switch {
			case strings.HasPrefix(url, "http://www.test/"):
				return reply{}, false
			case strings.HasSuffix(url, "/robots.txt"):
				return redirect("http://www.test/robots.txt"), true
			}
			return reply{}, true
		}})
		cfg := w.config()
		var rows []policy.Override
		for i := range 13 {
			host := "www.test"
			if i > 0 {
				host = fmt.Sprintf("h%d.test", i-1)
			}
			rows = append(rows, policy.Override{Pattern: host, Header: map[string][]string{"X-Secret": {host}}})
		}
		cfg.Hosts = policy.NewHosts(rows...)
		answer := w.wire.answer
		w.wire.answer = func(r *http.Request, url string, try int) (reply, bool) {
			if got := r.Header.Get("X-Secret"); got != r.URL.Host {
				t.Errorf("%s was sent the header of %q", url, got)
			}
			return answer(r, url, try)
		}
		seeds := []string{}
		for i := range 12 {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i), fmt.Sprintf("http://www.test/%d", i))
		}
		w.crawl(cfg, seeds...)
		judgeStarts(t, w.wire.log(), same(cfg.Politeness))
		if got := w.wire.count("http://www.test/robots.txt"); got != 13 {
			t.Errorf("%d requests for http://www.test/robots.txt, want 13", got)
		}
		if done := w.stats().Outcomes[frontier.OK]; done != 24 {
			t.Errorf("outcomes %v, want 24 pages", w.stats().Outcomes)
		}
	})
}

// TestRobotsAbroadBetweenLeases: if a robots.txt redirects to another host, the worker
// requests the target without a lease of that host. The delay of the host is kept between
// this request and the next lease, and between a lease and a later request of this kind.
func TestRobotsAbroadBetweenLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			toWWW := strings.HasSuffix(url, "/robots.txt") && !strings.HasPrefix(url, "http://www.test/")
			return redirect("http://www.test/robots.txt"), toWWW
		}})
		cfg := w.config()
		cfg.Politeness.Delay = 5 * time.Second
		c := w.worker(cfg)
		release := c.Hold()
		var feeding sync.WaitGroup
		feeding.Go(func() {
			defer release()
			w.seed(c, "http://a.test/") // www.test gets a request at once
			time.Sleep(2 * time.Second)
			w.seed(c, "http://www.test/1") // www.test gets a request for robots.txt at 5 s and one for the page at 10 s
			time.Sleep(10 * time.Second)
			w.seed(c, "http://b.test/") // www.test gets another request at 15 s
			w.seed(c, "http://c.test/") // and another at 20 s
		})
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		feeding.Wait()
		w.balanced()
		judgeStarts(t, w.wire.log(), same(cfg.Politeness))
	})
}

// TestRobotsKept: an answer is valid for 24 hours, also in later leases. Then robots.txt is
// requested again. While that fails, the old answer stays valid.
func TestRobotsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, try int) (reply, bool) {
			switch {
			case url == "http://a.test/robots.txt" && try == 0:
				return text("User-agent: *\nDisallow: /private"), true
			case url == "http://a.test/robots.txt":
				return status(500), true
			}
			return reply{}, true
		}})
		cfg := w.config()
		w.crawl(cfg, "http://a.test/1")
		for day, want := range []int{1, 2} {
			time.Sleep(23*time.Hour + 30*time.Minute)
			w.crawl(cfg, fmt.Sprintf("http://a.test/day%d", day), fmt.Sprintf("http://a.test/private/%d", day))
			if got := w.wire.count("http://a.test/robots.txt"); got != want {
				t.Errorf("%d requests for robots.txt after %d days, want %d", got, day+1, want)
			}
			if got := w.sink.recordOf(t, fmt.Sprintf("http://a.test/private/%d", day)); got.Outcome != string(frontier.Robots) {
				t.Errorf("day %d: a disallowed page has outcome %q", day, got.Outcome)
			}
		}
	})
}

// TestCrawlDelayOfSeveralOrigins: a host key has one delay, the longest of its
// origins.
func TestCrawlDelayOfSeveralOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt":      crawlDelay("8"),
			"https://a.test/robots.txt":     crawlDelay("3"),
			"http://a.test:8080/robots.txt": status(404),
		}))
		cfg := w.config()
		var seeds []string
		for i := range 6 {
			seeds = append(seeds, fmt.Sprintf("http://a.test/%d", i), fmt.Sprintf("https://a.test/%d", i), fmt.Sprintf("http://a.test:8080/%d", i))
		}
		w.crawl(cfg, seeds...)
		calls := w.wire.log()
		judgeStarts(t, calls, same(cfg.Politeness))
		if gap := calls[20].start.Sub(calls[19].start); gap != 8*time.Second {
			t.Errorf("the last starts are %v apart, want the longest crawl-delay, 8s", gap)
		}
	})
}

// TestCrawlDelaySurvivesCrash: if a worker dies right after it read robots.txt,
// the next worker still waits for the crawl-delay.
func TestCrawlDelaySurvivesCrash(t *testing.T) {
	for _, c := range []struct {
		delay string
		ttl   time.Duration
	}{
		{"50", 30 * time.Second}, // the worker gives the lease back for the long delay, and dies then
		{"19", 22 * time.Second}, // the worker dies when it completes a page whose request started late in the lease
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, pages(map[string]reply{"http://a.test/robots.txt": crawlDelay(c.delay)}), frontiertest.MemoryConfig{Delay: time.Second, LeaseTTL: c.ttl})
			cfg := w.config()
			cfg.Store = &mortal{Memory: w.store}
			dying := w.worker(cfg)
			w.seed(dying, "http://a.test/1", "http://a.test/2")
			if _, err := dying.Run(t.Context()); err == nil {
				t.Fatal("Run of the worker that dies returned no error")
			}
			cfg.Store = w.store
			if end, err := w.worker(cfg).Run(t.Context()); err != nil || end != fetcher.Empty {
				t.Fatalf("Run ended with %q, %v", end, err)
			}
			w.balanced()
			judgeStarts(t, w.wire.log(), same(cfg.Politeness))
			if n := w.wire.count("http://a.test/robots.txt"); n != 1 {
				t.Errorf("%d requests for robots.txt, want 1", n)
			}
		})
	}
}

// mortal is the store of a worker that dies when it first completes an item or
// gives a lease back: nothing reaches the store from then on.
type mortal struct {
	*frontiertest.Memory
	dead atomic.Bool
}

var errDied = errors.New("the worker died")

func (m *mortal) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	if m.dead.Load() {
		return frontier.Grant{}, errDied
	}
	return m.Memory.Lease(ctx, request)
}

func (m *mortal) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	if m.dead.Load() {
		return frontier.Extension{}, errDied
	}
	return m.Memory.Extend(ctx, id, topUp)
}

func (m *mortal) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, host frontier.HostUpdate) error {
	if len(done) > 0 || host.End {
		m.dead.Store(true)
	}
	if m.dead.Load() {
		return errDied
	}
	return m.Memory.Complete(ctx, id, done, host)
}

// TestStaleRobotsFails: if the server closes a kept connection during a request for
// robots.txt, the request counts as failed, so that the file is not requested for ever.
func TestStaleRobotsFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, try int) (reply, bool) {
			return reply{broken: get.ErrStale}, strings.HasSuffix(url, "/robots.txt") && try < 50
		}})
		w.crawl(w.config(), "http://a.test/")
		if n := w.wire.count("http://a.test/robots.txt"); n != 4 {
			t.Errorf("%d requests for robots.txt, want 4", n)
		}
		if got := w.sink.recordOf(t, "http://a.test/"); got.Outcome != string(frontier.Network) {
			t.Errorf("outcome %q, want %q", got.Outcome, frontier.Network)
		}
	})
}

// TestDamagedRobotsFails: a robots.txt that could not be unpacked completely counts as
// failed, because rules may be missing. Plain text is accepted under each content coding.
func TestDamagedRobotsFails(t *testing.T) {
	const rules = "User-agent: *\nDisallow: /private\n"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, rules)
	_ = z.Close()
	for name, c := range map[string]struct {
		coding, body string
		want         frontier.Outcome
	}{
		"gzip":          {"gzip", packed.String(), frontier.Robots},
		"gzip, cut":     {"gzip", packed.String()[:packed.Len()/2], frontier.Network},
		"br, plain":     {"br", rules, frontier.Robots},
		"deflate":       {"deflate", "\x78\x9c\x0b\x2d\x4e\x2d\xd2\x4d", frontier.Network},
		"unknown, text": {"utf-8", rules, frontier.Robots},
		"unknown, NUL":  {"none", "\x00" + rules, frontier.Network},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(map[string]reply{"http://a.test/robots.txt": {
					contents: "text/plain", body: c.body, header: map[string]string{"Content-Encoding": c.coding}}}))
				w.crawl(w.config(), "http://a.test/private")
				if got := w.sink.recordOf(t, "http://a.test/private"); got.Outcome != string(c.want) {
					t.Errorf("outcome %q, error %q, want the outcome %q", got.Outcome, got.Error, c.want)
				}
			})
		})
	}
}

// TestRobotsOutLaterPages: after the robots.txt of an origin has failed, a later page fails
// without a request, unless the next request for the file is due.
func TestRobotsOutLaterPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			return status(500), url == "http://a.test/robots.txt"
		}})
		cfg := w.config()
		w.crawl(cfg, "http://a.test/1") // the fourth request fails after 70 s, the next is due after another 80 s
		for _, c := range []struct {
			page     string
			after    time.Duration
			requests int
		}{{"http://a.test/2", 5 * time.Second, 4}, {"http://a.test/3", 80 * time.Second, 5}} {
			time.Sleep(c.after)
			w.crawl(cfg, c.page)
			if n := w.wire.count("http://a.test/robots.txt"); n != c.requests {
				t.Errorf("%d requests for robots.txt after %s, want %d", n, c.page, c.requests)
			}
			if got := w.sink.recordOf(t, c.page); got.Outcome != string(frontier.Network) {
				t.Errorf("%s: outcome %q, want %q", c.page, got.Outcome, frontier.Network)
			}
		}
	})
}

// TestIgnoreRobots: robots.txt is not requested from a host whose rules ignore
// it.
func TestIgnoreRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://a.test/robots.txt": text("User-agent: *\nDisallow: /")}))
		cfg := w.config()
		cfg.IgnoreRobots = true
		w.crawl(cfg, "http://a.test/")
		if urls := w.wire.urls(); len(urls) != 1 || urls[0] != "http://a.test/" {
			t.Errorf("requests %v, want the page alone", urls)
		}
	})
}

// TestAddressIsFinal: pages of a host with a forbidden address are finished at
// once, without a delay for each.
func TestAddressIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := reply{broken: &get.AddressError{}}
		w := newWorld(t, &wire{answer: func(*http.Request, string, int) (reply, bool) { return refused, true }})
		begun := time.Now()
		seeds := make([]string, 100)
		for i := range seeds {
			seeds[i] = fmt.Sprintf("http://a.test/%d", i)
		}
		w.crawl(w.config(), seeds...)
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("the crawl took %v, want at most 10 s", took)
		}
		if n := w.stats().Outcomes[frontier.Address]; n != 100 {
			t.Errorf("outcomes %v, want 100 times address", w.stats().Outcomes)
		}
	})
}

// TestHostileOrigins: the crawl of a host with many ports ends, whether or not the
// robots.txt of each port can be fetched.
func TestHostileOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
			bad := strings.HasSuffix(r.URL.Port(), "1")
			return status(500), bad && strings.HasSuffix(url, "/robots.txt")
		}})
		var seeds []string
		for port := range 100 {
			seeds = append(seeds, fmt.Sprintf("http://a.test:%d/", 9000+port))
		}
		cfg := w.config()
		w.crawl(cfg, seeds...)
		judgeStarts(t, w.wire.log(), same(cfg.Politeness))
		if o := w.stats().Outcomes; o[frontier.OK] != 90 || o[frontier.Network] != 10 {
			t.Errorf("outcomes %v, want 90 ok and 10 network", o)
		}
	})
}

// TestOneUserAgent: the robots.txt rules that apply are those for the user agent of the
// requests, whichever setting sets it.
func TestOneUserAgent(t *testing.T) {
	const rules = "User-agent: OurBot\nDisallow: /ours\n\nUser-agent: crawler\nDisallow: /crawlers\n\nUser-agent: *\nDisallow: /\n"
	inHeader := http.Header{"user-agent": {"OurBot/2.0"}}
	for name, c := range map[string]struct {
		client get.Config
		host   map[string][]string
		agent  string
		closed string
	}{
		"default":        {get.Config{}, nil, "crawler", "/crawlers"},
		"client":         {get.Config{UserAgent: "OurBot/1.0 (+http://a.test/)"}, nil, "OurBot/1.0 (+http://a.test/)", "/ours"},
		"client, header": {get.Config{UserAgent: "crawler/1", Headers: inHeader}, nil, "OurBot/2.0", "/ours"},
		"host":           {get.Config{UserAgent: "crawler/1"}, inHeader, "OurBot/2.0", "/ours"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				agents := map[string]bool{}
				w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
					mu.Lock()
					defer mu.Unlock()
					agents[r.Header.Get("User-Agent")] = true
					switch url {
					case "http://a.test/robots.txt":
						return reply{contents: "text/plain", body: rules}, true
					case "http://a.test/public":
						return links("/ours", "/crawlers"), true
					}
					return reply{}, false
				}})
				cfg := w.config()
				c.client.Transport = w.wire
				cfg.Client = clientOf(t, c.client)
				cfg.Hosts = policy.NewHosts(policy.Override{Pattern: "*", Header: c.host})
				w.crawl(cfg, "http://a.test/public")
				if len(agents) != 1 || !agents[c.agent] {
					t.Errorf("requests have the user agents %v, want %q", agents, c.agent)
				}
				for _, path := range []string{"/ours", "/crawlers"} {
					if got := w.wire.count("http://a.test" + path); (got == 0) != (path == c.closed) {
						t.Errorf("%s was requested %d times; only %s is disallowed", path, got, c.closed)
					}
				}
			})
		})
	}
}
