package fetcher_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// counting counts the calls of a store.
type counting struct {
	frontier.Store
	completed, attempts atomic.Int64
}

func (c *counting) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	c.completed.Add(1)
	for i := range done {
		if done[i].Disposition == frontier.Retry {
			c.attempts.Add(1)
		}
	}
	return c.Store.Complete(ctx, id, done, update)
}

// TestPause: while a host or a pattern is paused, what it selects gets no request, uses no attempt, and holds up
// nothing else. The crawl waits for it without a stream of leases.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(*http.Request, string, int) (reply, bool) { return reply{}, true }
		live := policy.NewLive(nil)
		w := newWorldOf(t, &wire{answer: answer}, frontiertest.MemoryConfig{Policy: func() *policy.Policy { return live.Load() }})
		store := &counting{Store: w.store}
		cfg := w.config()
		cfg.Store = store
		live.Store(&cfg.Policy)
		cfg.Config.Policy = live.Load
		c := w.worker(cfg)
		w.seed(c, append(numbered("a.test", 20), numbered("b.test", 20)...)...)
		at, resumed := time.Duration(0), 1000*time.Second
		var before int64
		var quiet frontier.Stats
		go func() {
			change := func(after time.Duration, targets ...string) {
				time.Sleep(after + 1 - at)
				at = after + 1
				next := *live.Load()
				next.Version, next.Pause = next.Version+1, nil
				for _, text := range targets {
					target, err := policy.ParseTarget(text)
					if err != nil {
						t.Error(err)
					}
					next.Pause = append(next.Pause, target)
				}
				live.Store(&next)
				c.Wake()
			}
			change(5*time.Second, "host=a.test", "match=b.test/1[0-9]$")
			time.Sleep(100 * time.Second)
			before, quiet = store.completed.Load(), w.stats()
			time.Sleep(800 * time.Second)
			before = store.completed.Load() - before
			at += 900 * time.Second
			change(resumed)
		}()
		end, err := c.Run(t.Context())
		if err != nil || end != fetcher.Empty {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		w.balanced()
		begun := w.wire.log()[0].start
		for _, call := range w.wire.log() {
			after := call.start.Sub(begun)
			selected := strings.Contains(call.url, "a.test") || strings.Contains(call.url, "b.test/1") && !strings.HasSuffix(call.url, "b.test/1")
			if selected && after > 5*time.Second+1 && after < resumed {
				t.Errorf("%s is requested after %v, while it is paused", call.url, after)
			}
			if !selected && after > 30*time.Second {
				t.Errorf("%s, which is not paused, is requested after %v", call.url, after)
			}
		}
		if before > 5 {
			t.Errorf("%d calls of Complete while all that waits is paused", before)
		}
		if quiet.Queued < 20 || quiet.Leased != 0 || w.stats().Pages != 40 || store.attempts.Load() != 0 {
			t.Errorf("paused: %d queued and %d leased; in the end %d pages and %d more attempts", quiet.Queued, quiet.Leased, w.stats().Pages, store.attempts.Load())
		}
	})
}

// TestDropRule: a drop rule ends what waits, seeds too, and refuses what is found and offered later.
func TestDropRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, &wire{answer: endless})
		side, err := policy.ParseTarget("host=a.test match=side")
		if err != nil {
			t.Fatal(err)
		}
		seeds, err := policy.ParseTarget("host=b.test")
		if err != nil {
			t.Fatal(err)
		}
		times := w.changing(fetcher.Limit, w.config(), append(numbered("b.test", 20), "http://a.test/0"), []time.Duration{10*time.Second + 1},
			func(p *policy.Policy) { p.Drop, p.MaxPages = []policy.Target{side, seeds}, 40 })
		late := 0
		for _, call := range w.wire.log() {
			if call.start.After(times[0]) && (strings.Contains(call.url, "side") || strings.Contains(call.url, "b.test")) {
				late++
			}
		}
		stats := w.stats()
		if late > 0 || stats.Outcomes[frontier.Dropped] < 9 || stats.Refused[frontier.ReasonDropRule] < 5 {
			t.Errorf("%d late requests, %d dropped, refused %v", late, stats.Outcomes[frontier.Dropped], stats.Refused)
		}
		if r := w.sink.recordOf(t, "http://b.test/19"); r.Outcome != "dropped" || r.Error != "version 1 of the policy drops it: host=b.test" {
			t.Errorf("the record of a dropped seed is %+v", r)
		}
	})
}
