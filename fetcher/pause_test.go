package fetcher_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
)

// TestPauseStopsRequests: during a pause no request starts. After the pause the crawl
// continues, and keeps the delay of each host.
func TestPauseStopsRequests(t *testing.T) {
	for _, rate := range []float64{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			answers := map[string]reply{}
			var seeds []string
			for h := range 8 {
				var refs []string
				for i := range 30 {
					refs = append(refs, fmt.Sprintf("/%d", i))
				}
				root := fmt.Sprintf("http://h%d.test/", h)
				answers[root] = links(refs...)
				seeds = append(seeds, root)
			}
			w := newWorld(t, pages(answers))
			cfg := w.config()
			cfg.Rate, cfg.Concurrency = rate, 4
			c := w.worker(cfg)
			w.seed(c, seeds...)

			var pausing sync.WaitGroup
			var from, to time.Time
			pausing.Go(func() {
				time.Sleep(10 * time.Second)
				c.Pause(true)
				c.Pause(true)
				synctest.Wait()
				from = time.Now()
				time.Sleep(time.Hour)
				if p := c.Progress(); p.Asking > 0 || p.Held == 0 {
					t.Errorf("during the pause: %d hosts asked, want 0; %d hosts held, want some", p.Asking, p.Held)
				}
				to = time.Now()
				c.Pause(false)
			})
			if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
				t.Fatalf("Run ended with %q, %v", end, err)
			}
			pausing.Wait()
			w.balanced()
			before, after := 0, 0
			for _, call := range w.wire.log() {
				switch {
				case call.start.After(from) && call.start.Before(to):
					t.Errorf("%s started %v after the pause began", call.url, call.start.Sub(from))
				case call.start.After(from):
					after++
				default:
					before++
				}
			}
			if before == 0 || after < 100 {
				t.Errorf("%d requests before the pause, want some; %d after it, want at least 100", before, after)
			}
			for i, calls := 3, w.wire.log(); rate > 0 && i < len(calls); i++ {
				if over := calls[i].start.Sub(calls[i-3].start); over < time.Second-time.Millisecond {
					t.Errorf("4 requests within %v, want at most 3 a second", over)
				}
			}
			judgeStarts(t, w.wire.log(), same(cfg.Politeness))
		})
	}
}

// TestStopWhilePaused: a pause does not keep a worker from ending.
func TestStopWhilePaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{"http://a.test/": links("/1", "/2")}))
		c := w.worker(w.config())
		w.seed(c, "http://a.test/")
		c.Pause(true)
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if end, err := c.Run(stop); err != nil || end != fetcher.Stopped {
			t.Fatalf("Run ended with %q, %v", end, err)
		}
		w.balanced()
		if calls := w.wire.log(); len(calls) > 0 {
			t.Errorf("during the pause the worker requested %q", w.wire.urls())
		}
	})
}
