package exacttest

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/exact"
)

var forwarderCases = []testCase{
	// This case checks that Stale does not return a key again before age has passed. After
	// that it must return the key, because the first caller might have done nothing.
	{"StaleTaken", exact.Windows{}, func(d *driver) {
		d.fresh(keys(0, 30)...)
		d.Clock.Advance(62 * time.Second)
		first := d.stale(time.Minute, 20)
		d.Require(len(first) == 20, "Stale returned %d keys, want 20", len(first))
		second := d.stale(time.Minute, 20)
		d.wantEntries("two calls of Stale", append(first, second...), 0, keys(0, 30)...)
		d.Clock.Advance(58 * time.Second)
		d.wantEntries("Stale while a forwarder has all keys", d.stale(time.Minute, 100), 0)
		d.Clock.Advance(4 * time.Second)
		d.wantEntries("Stale after the forwarder's time is over", d.stale(time.Minute, 100), 0, keys(0, 30)...)
	}},
	{"StaleTakenBySeveral", exact.Windows{}, func(d *driver) {
		const n = 400
		d.fresh(keys(0, n)...)
		d.Clock.Advance(62 * time.Second)
		var mu sync.Mutex
		var all []exact.Entry
		d.Race(8, func(int) error {
			set := d.share()
			for idle := 0; idle < 3; {
				got, err := set.Stale(d.Ctx, time.Minute, 15)
				if err != nil {
					return err
				}
				if len(got) == 0 {
					idle++ // at this moment other racers might have the remaining keys
				}
				mu.Lock()
				all = append(all, got...)
				mu.Unlock()
			}
			return nil
		})
		all = append(all, d.stale(time.Minute, n)...)
		d.wantEntries("Stale called by eight forwarders", all, 0, keys(0, n)...)
	}},
	// This case scans while another caller makes changes. A key that waits
	// during the whole scan must be in it exactly once.
	{"WaitingIsCompleteUnderChange", exact.Windows{}, func(d *driver) {
		const n = 200
		d.fresh(keys(0, n)...)
		d.markQueued(0, keys(0, n/2)...)
		var stop atomic.Bool
		changing := make(chan error, 1)
		set := d.share()
		go func() {
			var err error
			for i := n; err == nil && !stop.Load(); i++ {
				_, undecided := set.Decide(d.Ctx, keys(i, i+1))
				err = errors.Join(undecided, set.Queued(d.Ctx, refs(0, key(n/2+i%(n/2)))),
					set.Finish(d.Ctx, []exact.Finished{finished(key(i), 0, "ok", 200)}, nil))
			}
			changing <- err
		}()
		scans := make([][]exact.Entry, 5)
		func() {
			defer stop.Store(true)
			for i := range scans {
				scans[i] = d.waiting(11 + i)
			}
		}()
		d.Must(<-changing, "changes")
		constant := map[bloomstore.Fingerprint]bool{}
		for _, key := range keys(0, n) {
			constant[key.Fingerprint] = true
		}
		for _, entries := range scans {
			seen := 0
			for _, e := range entries {
				if constant[e.Fingerprint] {
					seen++
				}
			}
			d.Require(seen == n, "Waiting returned %d of the keys that waited all the time, want all %d", seen, n)
		}
	}},
}
