package fetcher_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// hostileWeb has good and hostile hosts. The good ones, g0.test and so on, answer at once
// with new links. The hostile ones, h0.test and so on, do not answer, answer late, or end
// the connection late. Some do so for robots.txt, others only for pages.
func hostileWeb() *wire {
	return &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
		var n int
		isRobots := strings.HasSuffix(url, "/robots.txt")
		if _, err := fmt.Sscanf(r.URL.Host, "h%d.test", &n); err != nil {
			if isRobots {
				return reply{}, false
			}
			_, _ = fmt.Sscanf(r.URL.Opaque, "/%d", &n)
			return links(fmt.Sprintf("/%d", 2*n+1), fmt.Sprintf("/%d", 2*n+2)), true
		}
		if isRobots && n%2 == 0 {
			return reply{}, false
		}
		hostile := links("/a", "/b", "/c")
		switch n / 2 % 4 {
		case 0:
			hostile.wait = time.Hour
		case 1:
			hostile.wait = 25 * time.Second
		case 2:
			hostile.wait, hostile.broken = 19*time.Second, errBroken
		case 3:
			hostile.wait = 3 * time.Second
		}
		return hostile, true
	}}
}

// goodPages crawls good and hostile hosts together for a time and returns when, after the start, the
// good hosts got their requests.
func goodPages(t *testing.T, rng *rand.Rand, good, hostile, concurrency int, long time.Duration) (requests []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, hostileWeb())
		var seeds []string
		for i := range good {
			seeds = append(seeds, fmt.Sprintf("http://g%d.test/", i))
		}
		for i := range hostile {
			seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
		}
		rng.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
		cfg := w.config()
		cfg.Concurrency, cfg.Grace, cfg.AllowSeries = concurrency, 5*time.Second, anySeries
		c := w.worker(cfg)
		w.seed(c, seeds...)
		stop, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		begun := time.Now()
		if end, err := c.Run(stop); err != nil || end != fetcher.Stopped {
			t.Fatalf("Run ended with %q, %v, want %q", end, err, fetcher.Stopped)
		}
		if took := time.Since(begun); took > long+cfg.Grace {
			t.Errorf("Run took %v, want at most %v plus a grace of %v", took, long, cfg.Grace)
		}
		for _, c := range w.wire.log() {
			if c.start.Sub(begun) > long {
				t.Errorf("%s was requested %v after the start, want no request after %v", c.url, c.start.Sub(begun), long)
			}
			if strings.HasPrefix(c.host, "g") {
				requests = append(requests, c.start.Sub(begun))
			}
		}
		judgeStarts(t, w.wire.log(), same(cfg.Politeness))
		if stats := w.stats(); stats.Leased > 0 {
			t.Errorf("%d items are leased after a stop, want 0", stats.Leased)
		}
		w.balanced()
	})
	return requests
}

// TestHostileHostsDoNotStarveOthers: beside hostile hosts, good hosts get nearly as many
// requests as in a crawl without hostile hosts. If there are thirty times as many hostile
// hosts as slots (Config.Concurrency), good hosts still get at least a quarter as many
// requests as in a crawl without hostile hosts.
func TestHostileHostsDoNotStarveOthers(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	good, few := 20, 8
	if testing.Short() {
		good, few = 8, 4
	}
	type share struct {
		long  time.Duration
		least float64 // part of the requests that good hosts would get without hostile hosts
	}
	for _, c := range []struct {
		hostile, concurrency int
		shares               []share // the last one is that of the whole crawl
	}{
		{250, 64, []share{{40 * time.Second, 0.85}, {3 * time.Minute, 0.95}}},
		{30 * few, few, []share{{5 * time.Minute, 0.25}}}, // hostile hosts occupy slots until each has been late once
	} {
		long := c.shares[len(c.shares)-1].long
		alone := goodPages(t, rng, good, 0, c.concurrency, long)
		beside := goodPages(t, rng, good, c.hostile, c.concurrency, long)
		for _, share := range c.shares {
			within := func(requests []time.Duration) (n int) {
				for _, at := range requests {
					if at <= share.long {
						n++
					}
				}
				return n
			}
			part := float64(within(beside)) / float64(within(alone))
			t.Logf("%d slots, %v: good hosts get %d requests alone, %d beside %d hostile hosts: share %.2f",
				c.concurrency, share.long, within(alone), within(beside), c.hostile, part)
			if part < share.least {
				t.Errorf("beside hostile hosts, good hosts get %.2f of the requests that they get alone, want at least %.2f",
					part, share.least)
			}
		}
	}
}

// TestHungStoreDoesNotHoldUpTheEnd: if the store does not answer after a stop or an
// abort, Run ends two seconds after the last request.
func TestHungStoreDoesNotHoldUpTheEnd(t *testing.T) {
	for _, grace := range []time.Duration{10 * time.Second, 0} {
		synctest.Test(t, func(t *testing.T) {
			w, cfg, seeds := stoppable(t, 3*time.Second)
			stop, cancel := context.WithCancel(t.Context())
			cfg.Grace, cfg.Store = grace, &hung{w.store, stop}
			c := w.worker(cfg)
			w.seed(c, seeds...)
			time.AfterFunc(5*time.Second, cancel)
			begun := time.Now()
			if end, err := c.Run(stop); err != nil || end != fetcher.Stopped {
				t.Fatalf("Run ended with %q, %v, want %q", end, err, fetcher.Stopped)
			}
			if took, most := time.Since(begun), 7*time.Second+max(grace, 0); took > most {
				t.Errorf("Run took %v, want %v at most", took, most)
			}
		})
	}
}

// hung is a store whose Complete blocks after Run was stopped.
type hung struct {
	*frontiertest.Memory
	stop context.Context
}

func (h *hung) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	if h.stop.Err() != nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.Memory.Complete(ctx, id, done, update)
}
