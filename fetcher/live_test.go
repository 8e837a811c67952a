package fetcher_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// changing runs a crawl from seeds under a policy that each element of changes replaces, one after
// the other, at the given times after the start. It returns the times of the changes.
func (w *world) changing(want fetcher.End, cfg config, seeds []string, at []time.Duration, changes ...func(*policy.Policy)) []time.Time {
	w.t.Helper()
	live := policy.NewLive(&cfg.Policy)
	cfg.Config.Policy = live.Load
	c := w.worker(cfg)
	w.seed(c, seeds...)
	var times []time.Time
	var changer sync.WaitGroup
	changer.Go(func() {
		begun := time.Now()
		for i, change := range changes {
			time.Sleep(at[i] - time.Since(begun))
			next := *live.Load()
			next.Version++
			change(&next)
			live.Store(&next)
			times = append(times, time.Now())
		}
	})
	end, err := c.Run(w.t.Context())
	changer.Wait()
	if err != nil || end != want {
		w.t.Fatalf("Run ended with %q, %v, want %q", end, err, want)
	}
	w.balanced()
	return times
}

// numbered returns n URLs of a host.
func numbered(host string, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("http://%s/%d", host, i))
	}
	return urls
}

func setDelay(delay time.Duration) func(*policy.Policy) {
	return func(p *policy.Policy) { p.Politeness.Delay = delay }
}

// TestLiveDelay: the next request of a lease keeps a new delay, which is shorter or longer than the one
// before. For hosts that are not leased see frontiertest.RunPolicies.
func TestLiveDelay(t *testing.T) {
	for _, first := range []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, &wire{})
			cfg := w.config()
			cfg.Politeness.Delay = first
			second, third := 5*first, first/2
			changed := w.changing(fetcher.Empty, cfg, numbered("a.test", 20),
				[]time.Duration{5*first + first/2, 40*first + first/2}, setDelay(second), setDelay(third))
			calls := w.wire.log()
			var seen [3]int
			for i, call := range calls[1:] {
				gap, want, phase := call.start.Sub(calls[i].start), first, 0
				switch {
				case call.start.After(changed[1]):
					want, phase = third, 2
				case call.start.After(changed[0]):
					want, phase = second, 1
				}
				if gap < want {
					t.Errorf("%s starts %v after the request before, want at least %v", call.url, gap, want)
				}
				if seen[phase]++; seen[phase] > 2 && gap > want+time.Second { // a wait that had begun may end as before
					t.Errorf("%s starts %v after the request before, want %v", call.url, gap, want)
				}
			}
			if seen[0] < 3 || seen[1] < 3 || seen[2] < 3 {
				t.Errorf("%v requests under the three policies, want some under each", seen)
			}
		})
	}
}

// endless answers each page with a link to the next one, and with one to another page.
func endless(r *http.Request, url string, _ int) (reply, bool) {
	var n int
	if _, err := fmt.Sscanf(url, "http://a.test/%d", &n); err != nil {
		return reply{}, false
	}
	return links(fmt.Sprintf("/%d", n+1), fmt.Sprintf("/side/%d", n+1)), true
}

// TestLiveRules: links of pages that are answered after a change are judged by the new rules.
func TestLiveRules(t *testing.T) {
	for name, change := range map[string]func(*policy.Policy){
		"exclude": func(p *policy.Policy) { p.Rules.Exclude = []*regexp.Regexp{regexp.MustCompile("test/[0-9]|side")} },
		"depth":   func(p *policy.Policy) { p.Rules.MaxDepth = 0 },
		"trap":    func(p *policy.Policy) { p.Rules.Trap.MaxURL = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, &wire{answer: endless})
				changed := w.changing(fetcher.Empty, w.config(), []string{"http://a.test/0"}, []time.Duration{20*time.Second + 1}, change)[0]
				before := 0
				for _, call := range w.wire.log() {
					if call.end.Before(changed) && !call.robots() && !strings.Contains(call.url, "side") {
						before++
					}
				}
				// The last page before the change has queued one page more, which is dropped.
				waiting := fmt.Sprintf("http://a.test/%d", before)
				if before < 5 || w.wire.count(waiting) != 0 {
					t.Errorf("%d pages before the change, and %s was requested %d times after it", before, waiting, w.wire.count(waiting))
				}
				if r := w.sink.recordOf(t, waiting); r.Outcome != "dropped" || r.Status != 0 || !strings.Contains(r.Error, "version 1 of the policy") {
					t.Errorf("the record of the page that waited is %+v, want the outcome dropped", r)
				}
				if n := w.stats().Outcomes[frontier.Dropped]; n < 1 || w.stats().RefusedTotal() != 0 {
					t.Errorf("%d URLs dropped and %d links refused, want some dropped and no link refused", n, w.stats().RefusedTotal())
				}
			})
		})
	}
}

// TestLiveDropped: a policy that changed drops neither seeds nor what its rules admit.
func TestLiveDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: endless})
		w.changing(fetcher.Empty, w.config(), numbered("b.test", 20), []time.Duration{5*time.Second + 1}, func(p *policy.Policy) {
			p.Rules.Exclude, p.MaxPages = []*regexp.Regexp{regexp.MustCompile("b.test/[0-9]"), regexp.MustCompile("nothing")}, 20
		})
		if n := w.stats().Outcomes[frontier.Dropped]; n != 0 || w.stats().Pages != 20 {
			t.Errorf("%d URLs dropped and %d pages, want 20 pages of seeds", n, w.stats().Pages)
		}
	})
}

// TestUnconfirmed: no request is written while the policy is not confirmed. What waits is requested afterwards.
func TestUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &wire{answer: func(*http.Request, string, int) (reply, bool) { return reply{}, true }}
		w := newWorld(t, slow)
		cfg := w.config()
		var mu sync.Mutex
		var shut chan struct{}
		cfg.Config.Unconfirmed = func() <-chan struct{} {
			mu.Lock()
			defer mu.Unlock()
			return shut
		}
		c := w.worker(cfg)
		w.seed(c, append(numbered("a.test", 20), numbered("b.test", 20)...)...)
		var from, to time.Time
		go func() {
			time.Sleep(10*time.Second + 1)
			mu.Lock()
			shut, from = make(chan struct{}), time.Now()
			mu.Unlock()
			time.Sleep(100 * time.Second)
			mu.Lock()
			close(shut)
			shut, to = nil, time.Now()
			mu.Unlock()
		}()
		if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		for _, call := range w.wire.log() {
			if call.start.After(from) && call.start.Before(to) {
				t.Errorf("%s was requested %v after the policy was not confirmed any more", call.url, call.start.Sub(from))
			}
		}
		if w.stats().Pages != 40 || to.IsZero() {
			t.Errorf("%d pages, want 40", w.stats().Pages)
		}
	})
}

// TestLiveMaxPages: a crawl without a limit ends at a limit that is set while it runs.
func TestLiveMaxPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: endless})
		w.changing(fetcher.Limit, w.config(), []string{"http://a.test/0"}, []time.Duration{20 * time.Second}, func(p *policy.Policy) { p.MaxPages = 30 })
		if pages := w.stats().Pages; pages != 30 {
			t.Errorf("%d pages, want 30", pages)
		}
	})
}

// TestLiveRetries: the number of retries at the end of an attempt counts.
func TestLiveRetries(t *testing.T) {
	for _, retries := range []int{0, 1, 5} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(map[string]reply{"http://a.test/": status(500)}))
			cfg := w.config()
			cfg.Politeness.RetryBase = time.Minute
			w.changing(fetcher.Empty, cfg, []string{"http://a.test/"}, []time.Duration{30 * time.Second}, func(p *policy.Policy) { p.Retries = retries })
			want := max(retries+1, 2) // the first attempt failed before the change
			if got := w.sink.recordOf(t, "http://a.test/").Attempts; got != want || w.wire.count("http://a.test/") != want {
				t.Errorf("%d retries: %d attempts in the record and %d requests, want %d", retries, got, w.wire.count("http://a.test/"), want)
			}
		})
	}
}

// TestLiveHostConcurrency: the number of requests at once follows the policy up and down.
func TestLiveHostConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: func(*http.Request, string, int) (reply, bool) { return reply{wait: 10 * time.Second}, true }})
		cfg := w.config()
		cfg.IgnoreRobots, cfg.Politeness.Delay, cfg.Politeness.LatencyFactor = true, 0, 0
		set := func(n int) func(*policy.Policy) { return func(p *policy.Policy) { p.HostConcurrency = n } }
		changed := w.changing(fetcher.Empty, cfg, numbered("a.test", 60), []time.Duration{31 * time.Second, 91 * time.Second}, set(4), set(2))
		most := [3]int{}
		calls := w.wire.log()
		for _, call := range calls {
			phase := 0
			switch {
			case call.start.After(changed[1].Add(10 * time.Second)): // after the requests that were under way
				phase = 2
			case call.start.After(changed[1]):
				continue
			case call.start.After(changed[0]):
				phase = 1
			}
			n := 0
			for _, other := range calls {
				if !other.start.After(call.start) && other.end.After(call.start) {
					n++
				}
			}
			most[phase] = max(most[phase], n)
		}
		if most != [3]int{1, 4, 2} {
			t.Errorf("at most %v requests at once under the three policies, want 1, 4 and 2", most)
		}
	})
}

// TestLiveHosts: a new row of the table of hosts counts for its host, and for no other: its delay, its
// header and its robots.txt. So does a new header of the policy.
func TestLiveHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		own, all := map[string]bool{}, map[string]bool{}
		w := newWorld(t, &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
			mu.Lock()
			defer mu.Unlock()
			own[url], all[url] = r.Header.Get("X-Own") != "", r.Header.Get("X-All") != ""
			return reply{}, false
		}})
		changed := w.changing(fetcher.Empty, w.config(), append(numbered("a.test", 20), numbered("b.test", 20)...), []time.Duration{10*time.Second + 1},
			func(p *policy.Policy) {
				p.Header = map[string][]string{"X-All": {"1"}}
				p.Hosts = policy.NewHosts(policy.Override{Pattern: "b.*", Delay: 7 * time.Second, Header: map[string][]string{"X-Own": {"1"}}})
			})[0]
		last := map[string]time.Time{}
		for _, call := range w.wire.log() {
			after := call.start.After(changed)
			if own[call.url] != (after && call.host == "b.test") || all[call.url] != after {
				t.Errorf("%s, after the change %t: X-Own sent %t, X-All sent %t", call.url, after, own[call.url], all[call.url])
			}
			want := time.Second
			if after && call.host == "b.test" {
				want = 7 * time.Second
			}
			if gap := call.start.Sub(last[call.host]); gap < want || after && gap > want+time.Second {
				t.Errorf("%s starts %v after the request before, want %v", call.url, gap, want)
			}
			last[call.host] = call.start
		}
	})
}

// TestLiveRobots: when a policy begins to obey robots.txt, it is requested, and what it forbids of the
// queue is not requested.
func TestLiveRobots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://a.test/robots.txt": {contents: "text/plain", body: "User-agent: *\nDisallow: /\n"}}))
		cfg := w.config()
		cfg.IgnoreRobots = true
		w.changing(fetcher.Empty, cfg, numbered("a.test", 20), []time.Duration{10 * time.Second}, func(p *policy.Policy) { p.IgnoreRobots = false })
		outcomes := w.stats().Outcomes
		if ok, forbidden := outcomes[frontier.OK], outcomes[frontier.Robots]; ok < 8 || ok > 12 || ok+forbidden != 20 {
			t.Errorf("outcomes %v, want about 10 pages, and the others forbidden", outcomes)
		}
	})
}

// TestPoliciesStoredAllTheTime: a worker under a policy that changes every few milliseconds loses nothing.
// The race detector watches.
func TestPoliciesStoredAllTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := &randomWeb{salt: 5, hosts: 8, pages: fewer(32)}
		w := newWorld(t, &wire{answer: web.answer})
		cfg := w.config()
		cfg.Rules, cfg.Concurrency = anywhere, 8
		first := cfg.Policy
		live := policy.NewLive(&first)
		cfg.Config.Policy = live.Load
		stop, changer := make(chan struct{}), sync.WaitGroup{}
		changer.Go(func() {
			for n := 1; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(n%50) * time.Millisecond):
				}
				next := first
				next.Version, next.HostConcurrency, next.Politeness.Delay = uint64(n), 1+n%4, time.Duration(n%3)*time.Second
				next.Hosts = policy.NewHosts(policy.Override{Pattern: "h1*", Concurrency: 1 + n%3})
				live.Store(&next)
			}
		})
		w.crawl(cfg, web.seeds()...)
		close(stop)
		changer.Wait()
		if stats := w.stats(); stats.Queued != 0 || stats.Done < 20 {
			t.Errorf("stats %+v, want all URLs done", stats)
		}
	})
}
