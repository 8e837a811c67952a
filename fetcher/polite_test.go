package fetcher_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// randomWeb is a wire of hosts that are each difficult in their own way. Every
// answer depends on the URL and on how often it was requested.
type randomWeb struct {
	salt  uint64
	hosts int
	pages int // of each host
}

func (w *randomWeb) host(n int) string { return fmt.Sprintf("h%d.test", n) }

// seeds returns one page of each host. The other pages are found through links.
func (w *randomWeb) seeds() (seeds []string) {
	for n := range w.hosts {
		seeds = append(seeds, fmt.Sprintf("http://%s/0", w.host(n)))
	}
	return seeds
}

func (w *randomWeb) answer(_ *http.Request, url string, try int) (reply, bool) {
	var host, n int
	if _, err := fmt.Sscanf(url, "http://h%d.test/%d", &host, &n); err != nil {
		return w.robots(url, try), true
	}
	rng := rand.New(rand.NewPCG(w.salt+uint64(host), uint64(n)))
	own := rand.New(rand.NewPCG(w.salt, uint64(host)))
	speed := []time.Duration{0, 20 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second}[own.IntN(4)]
	answer := w.trouble(rng, try)
	if host == 0 { // this host is dead after the request for its seed
		answer = reply{broken: errBroken}
	}
	answer.wait += time.Duration(float64(speed) * (0.5 + rng.Float64()))
	if answer.status == 0 && answer.broken == nil {
		var refs []string
		for i := range 3 {
			refs = append(refs, fmt.Sprintf("/%d", (3*n+i+1)%w.pages))
		}
		answer.body = links(append(refs, fmt.Sprintf("http://%s/0", w.host(rng.IntN(w.hosts))))...).body
	}
	return answer, true
}

// trouble returns a fault for the first attempts at one page in four.
func (w *randomWeb) trouble(rng *rand.Rand, try int) reply {
	kind, tries := rng.IntN(32), 1+rng.IntN(4)
	if try >= tries {
		return reply{}
	}
	switch kind {
	case 0:
		return reply{status: 429, header: map[string]string{"Retry-After": "7"}}
	case 1:
		until := time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat)
		return reply{status: 503, header: map[string]string{"Retry-After": until}}
	case 2:
		return status(503)
	case 3:
		return status(500)
	case 4:
		return reply{broken: errBroken}
	case 5:
		return reply{body: "half a pa", cut: true}
	case 6:
		return reply{wait: 29 * time.Second}
	case 7:
		return reply{wait: time.Minute} // longer than the time limit
	}
	return reply{}
}

// robots returns the robots.txt of a host.
func (w *randomWeb) robots(url string, try int) reply {
	var host int
	if _, err := fmt.Sscanf(url, "http://h%d.test/", &host); err != nil {
		return status(404)
	}
	switch host % 8 {
	case 1:
		return crawlDelay("2.5")
	case 2:
		return crawlDelay("90") // longer than the largest crawl-delay that is obeyed
	case 3:
		if try < 2 {
			return status(500)
		}
		return crawlDelay("1.5")
	case 4:
		if url == fmt.Sprintf("http://h%d.test/robots.txt", host) {
			return redirect("/moved/robots.txt")
		}
		return crawlDelay("31")
	case 5:
		if try < 1 {
			return reply{broken: errBroken}
		}
	case 6:
		return reply{wait: 10 * time.Second, status: 404}
	}
	return status(404)
}

// TestRequestsStartWhenDue crawls difficult hosts with one or two workers on one store.
// It compares every start with the due time according to package politeness.
func TestRequestsStartWhenDue(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	policy := calm()
	unhurried := policy
	unhurried.Delay = 25 * time.Second // longer than the waits during which a lease is kept
	quick := every(50 * time.Millisecond)
	quick.LatencyFactor = 0
	for _, c := range []struct {
		name            string
		policy          politeness.Policy
		workers, atOnce int
		ttl             time.Duration
	}{
		{"default", policy, 1, 1, 0},
		{"two workers", policy, 2, 1, 0},
		{"four requests at once", quick, 1, 4, 0},
		{"two workers, four requests at once", quick, 2, 4, 0},
		{"long delay", unhurried, 2, 2, 0},
		{"short leases", policy, 2, 1, 5 * time.Second},
	} {
		salt := rng.Uint64()
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				web := &randomWeb{salt: salt, hosts: 16, pages: fewer(32)}
				w := newWorldOf(t, &wire{answer: web.answer}, frontiertest.MemoryConfig{LeaseTTL: c.ttl, Delay: time.Second})
				cfg := w.config()
				cfg.Politeness, cfg.HostConcurrency, cfg.Concurrency, cfg.Rules = c.policy, c.atOnce, 16, anywhere
				w.seed(w.worker(cfg), web.seeds()...)
				var workers sync.WaitGroup
				for range c.workers {
					crawl := w.worker(cfg)
					workers.Go(func() {
						if end, err := crawl.Run(t.Context()); err != nil || end != fetcher.Empty {
							t.Errorf("Run ended with %q, %v", end, err)
						}
						if p := crawl.Progress(); p.LeasesLost > 0 || p.Held != 0 || p.Parked != 0 {
							t.Errorf("progress at the end: %+v, want no lease lost, no host held and nothing waiting", p)
						}
					})
				}
				workers.Wait()
				w.balanced()
				judgeStarts(t, w.wire.log(), same(c.policy))
				if stats := w.stats(); stats.Done < uint64(fewer(250)) || stats.Retries == 0 || stats.Queued != 0 {
					t.Errorf("stats %+v, want at least %d done, some retries and none queued", stats, fewer(250))
				}
			})
		})
	}
}

// TestLatencySpacesRequests: the default policy waits as long as the host takes to
// answer.
func TestLatencySpacesRequests(t *testing.T) {
	for _, c := range []struct {
		factor float64
		want   time.Duration
	}{
		{politeness.DefaultLatencyFactor, 4 * time.Second},
		{2.5, 10 * time.Second},
		{0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
				r := links("/1", "/2", "/3")
				r.wait = 4 * time.Second
				return r, true
			}})
			cfg := w.config()
			cfg.Politeness.LatencyFactor, cfg.HostConcurrency = c.factor, 8
			w.crawl(cfg, "http://slow.test/0")
			calls := w.wire.log()
			if len(calls) != 5 {
				t.Fatalf("%d requests, want 5", len(calls))
			}
			for i := 3; i < len(calls); i++ { // during the first calls, the links are not known yet
				if gap := calls[i].start.Sub(calls[i-1].start); gap != c.want {
					t.Errorf("factor %v: requests start %v apart, want %v", c.factor, gap, c.want)
				}
			}
		})
	}
}

// TestSlowHostsDoNotDelayOthers: a quick host shares three slots (Config.Concurrency) with
// three hosts that are slow or fail. It finishes as early as in a crawl without these hosts.
func TestSlowHostsDoNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
			switch r.URL.Host {
			case "slow.test":
				return reply{wait: 29 * time.Second}, true
			case "dead.test":
				return reply{broken: errBroken}, true
			case "closed.test":
				return status(503), true
			}
			if url == "http://quick.test/robots.txt" {
				return status(404), true
			}
			var n int
			_, _ = fmt.Sscanf(url, "http://quick.test/%d", &n)
			return links(fmt.Sprintf("/%d", min(n+1, 99))), true
		}})
		cfg := w.config()
		cfg.Concurrency, cfg.Rules, cfg.AllowSeries = 3, anywhere, anySeries
		begun := time.Now()
		w.crawl(cfg, "http://slow.test/1", "http://slow.test/2", "http://slow.test/3", "http://dead.test/",
			"http://closed.test/", "http://quick.test/0")
		var quick []call
		for _, c := range w.wire.log() {
			if c.host == "quick.test" {
				quick = append(quick, c)
			}
		}
		if len(quick) != 101 {
			t.Fatalf("%d requests to the quick host, want 101", len(quick))
		}
		// The delays between 101 requests take 100 s. The limit is higher, because a link may be
		// queued a moment after the host's delay is over.
		if took := quick[100].start.Sub(begun); took > 103*time.Second {
			t.Errorf("the quick host took %v, want at most 103 s", took)
		}
		for url, want := range map[string]frontier.Outcome{
			"http://slow.test/1": frontier.OK, "http://dead.test/": frontier.Network, "http://closed.test/": frontier.Network,
		} {
			if got := w.sink.recordOf(t, url); got.Outcome != string(want) {
				t.Errorf("%s: outcome %q, want %q", url, got.Outcome, want)
			}
		}
	})
}

// TestManyHostsFewSlots: a slot that becomes free is used at once: with one slot and no
// delay, 50 hosts take at most a second.
func TestManyHostsFewSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{})
		cfg := w.config()
		cfg.Concurrency = 1
		cfg.Politeness.Delay, cfg.Politeness.LatencyFactor = 0, 0
		var seeds []string
		for i := range 50 {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
		}
		begun := time.Now()
		w.crawl(cfg, seeds...)
		if took := time.Since(begun); took > time.Second {
			t.Errorf("100 requests that are answered at once took %v, want at most 1 s", took)
		}
	})
}

// TestDeadHostIsConcluded: after DefaultDeadAfter failures in a row all items of a host fail
// without a request, and without waiting for a back-off.
func TestDeadHostIsConcluded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			return reply{broken: errBroken}, url != "http://dead.test/robots.txt"
		}})
		cfg := w.config()
		seeds := make([]string, 500)
		for i := range seeds {
			seeds[i] = fmt.Sprintf("http://dead.test/%d", i)
		}
		begun := time.Now()
		w.crawl(cfg, seeds...)
		if n := len(w.wire.log()); n != 1+politeness.DefaultDeadAfter {
			t.Errorf("%d requests, want robots.txt and %d that fail", n, politeness.DefaultDeadAfter)
		}
		// After two failures there is a back-off before each further request: first 10 s, then
		// twice as long each time.
		if took, most := time.Since(begun), 200*time.Second; took > most {
			t.Errorf("the crawl took %v, want at most %v", took, most)
		}
		if stats := w.stats(); stats.Outcomes[frontier.HostDead] == 0 || stats.Failed != 500 {
			t.Errorf("outcomes %v, want 500 failures, some of them HostDead", stats.Outcomes)
		}
	})
}

// TestRateIsKept: any two requests of one worker, also to different hosts, start at least
// as far apart as Rate demands. At low rates, no lease is lost.
func TestRateIsKept(t *testing.T) {
	for _, rate := range []float64{0.25, 3, 40} {
		synctest.Test(t, func(t *testing.T) {
			web := &randomWeb{salt: 7, hosts: 16, pages: 8}
			w := newWorld(t, &wire{answer: web.answer})
			cfg := w.config()
			cfg.Rate, cfg.HostConcurrency, cfg.Rules = rate, 2, anywhere
			crawl := w.worker(cfg)
			w.seed(crawl, web.seeds()...)
			if end, err := crawl.Run(t.Context()); err != nil || end != fetcher.Empty {
				t.Fatalf("Run ended with %q, %v", end, err)
			}
			w.balanced()
			calls := w.wire.log()
			judgeStarts(t, calls, same(cfg.Politeness))
			least := time.Duration(float64(time.Second) / rate)
			for i := 1; i < len(calls); i++ {
				if gap := calls[i].start.Sub(calls[i-1].start); gap < least-time.Microsecond {
					t.Errorf("rate %v: %s started %v after %s, want at least %v",
						rate, calls[i].url, gap, calls[i-1].url, least)
				}
			}
			if lost := crawl.Progress().LeasesLost; lost > 0 {
				t.Errorf("rate %v: %d leases lost, want 0", rate, lost)
			}
		})
	}
}

// TestMaxRetryAfter: MaxRetryAfter bounds how long a host's Retry-After is obeyed. The bound also
// applies to the next attempt of the item.
func TestMaxRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const busy = "http://own.test/"
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, try int) (reply, bool) {
			return reply{status: http.StatusServiceUnavailable, header: map[string]string{"Retry-After": "36000"}}, url == busy && try == 0
		}})
		cfg := w.config()
		cfg.Politeness.MaxRetryAfter = time.Minute
		begun := time.Now()
		w.crawl(cfg, busy)
		if took := time.Since(begun); w.wire.count(busy) != 2 || took < time.Minute || took > 10*time.Minute {
			t.Errorf("%d requests in %v, want 2 in little more than a minute", w.wire.count(busy), took)
		}
	})
}

// TestOwnDelayOfHost: an entry of Policy.Hosts applies to its host alone.
func TestOwnDelayOfHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := &randomWeb{salt: 11, hosts: 8, pages: 8}
		w := newWorld(t, &wire{answer: web.answer})
		cfg := w.config()
		own := every(5 * time.Second)
		cfg.Hosts = policy.NewHosts(policy.Override{Pattern: "h7.test", Delay: own.Delay, Concurrency: 3, Header: map[string][]string{"X-Own": {"1"}}})
		answer := w.wire.answer
		w.wire.answer = func(r *http.Request, url string, try int) (reply, bool) {
			if got := r.Header.Get("X-Own") != ""; got != (r.URL.Host == "h7.test") {
				t.Errorf("%s was requested with the headers %v, want X-Own exactly for h7.test", url, r.Header)
			}
			return answer(r, url, try)
		}
		cfg.Rules = anywhere
		w.crawl(cfg, web.seeds()...)
		judgeStarts(t, w.wire.log(), func(host string) politeness.Policy {
			if host == "h7.test" {
				return own
			}
			return cfg.Politeness
		})
	})
}

// TestUnansweredURLsDoNotKillHost: two URLs that are never answered are not taken for a dead host if
// others of the host are found meanwhile.
func TestUnansweredURLsDoNotKillHost(t *testing.T) {
	for _, atOnce := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			reset := reply{broken: errBroken}
			answers := map[string]reply{"http://h.test/a": reset, "http://h.test/b": reset}
			var refs []string
			for i := range 40 {
				refs = append(refs, fmt.Sprintf("http://h.test/%d", i))
				answers[refs[i]] = page("x")
			}
			late := links(refs...)
			late.wait = 5 * time.Second
			answers["http://other.test/"] = late
			w := newWorld(t, pages(answers))
			cfg := w.config()
			cfg.HostConcurrency, cfg.Rules = atOnce, anywhere
			w.crawl(cfg, "http://h.test/a", "http://h.test/b", "http://other.test/")
			if stats := w.stats(); stats.Outcomes[frontier.OK] != 41 || stats.Outcomes[frontier.Network] != 2 {
				t.Errorf("%d at once: outcomes %v, want 41 ok and 2 network", atOnce, stats.Outcomes)
			}
		})
	}
}
