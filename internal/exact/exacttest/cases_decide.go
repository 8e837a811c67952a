package exacttest

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

var decideCases = []testCase{
	{"EqualKeysInOneBatch", exact.Windows{}, func(d *driver) {
		d.fresh(key(9))
		batch := []exact.Key{key(1), key(2), key(1), key(1), key(9), key(2), key(3), key(9)}
		for i, got := range d.decide(batch...) {
			first := i == 0 || i == 1 || i == 6
			want := exact.Answer{New: first, First: first}
			d.Require(got == want, "key %d of the batch: %+v, want %+v", i, got, want)
		}
		d.wantStats(4, 0, 0, 0)
	}},
	{"AnswersAreIndexForIndex", exact.Windows{}, func(d *driver) {
		const n = 700
		rng := rand.New(rand.NewPCG(1, 2))
		known := map[int]bool{}
		for range 3 { // each batch has more known keys
			batch := rng.Perm(n)[:n/2]
			var asked []exact.Key
			for _, i := range batch {
				asked = append(asked, key(i))
			}
			for j, got := range d.decide(asked...) {
				d.Require(got.New != known[batch[j]] && got.New == got.First && got.Round == 0,
					"key %d (known before: %t): answer %+v", batch[j], known[batch[j]], got)
			}
			for _, i := range batch {
				known[i] = true
			}
		}
		d.wantStats(uint64(len(known)), 0, 0, 0)
	}},
	{"KeysAreKept", exact.Windows{}, func(d *driver) {
		all := extremes()
		d.fresh(all...)
		d.wantEntries("Waiting", d.waiting(2), 0, all...)
		d.wantEntries("Stale", d.stale(0, 10), 0, all...)
		d.markQueued(0, all...)
		d.wantEntries("Waiting", d.waiting(2), 0, all...)
		d.wantState(exact.Queued, 0, all...)
	}},
	{"LinesOwnPendingKeys", exact.Windows{frontier.Exact: time.Hour}, func(d *driver) {
		own, other := key(1), key(1)
		own.Line, other.Line = exact.NewLine([32]byte{1}, 7, "k"), exact.NewLine([32]byte{1}, 8, "k")
		ask := func(k exact.Key, want exact.Answer) {
			for i, got := range d.decide(k, k) { // the second is known
				if i == 1 {
					want = exact.Answer{Round: want.Round}
				}
				d.Require(got == want, "the answer is %+v, want %+v", got, want)
			}
		}
		for round := range uint32(2) {
			isNew := exact.Answer{New: true, Round: round, First: round == 0}
			ask(own, isNew)
			ask(own, isNew)
			ask(other, exact.Answer{Round: round})
			ask(key(1), exact.Answer{Round: round})
			for _, e := range append(d.stale(0, 10), d.waiting(1)...) {
				d.Require(e.Line == own.Line, "the line is %q, want %q", e.Line, own.Line)
			}
			d.markQueued(round, key(1))
			ask(own, exact.Answer{Round: round})
			d.finish(round, key(1))
			ask(own, exact.Answer{Round: round})
			d.Clock.Advance(2 * time.Hour)
		}
	}},
	// This case cancels Decide at different moments. Each key of the call must be
	// new to the next caller, or pending so that a forwarder finds it.
	{"InterruptedDecide", exact.Windows{}, func(d *driver) {
		const rounds, n = 60, 20
		for round := range rounds {
			mine := keys(round*n, (round+1)*n)
			ctx, cancel := context.WithCancel(d.Ctx)
			timer := time.AfterFunc(time.Duration(round)*50*time.Microsecond, cancel)
			answers, err := d.Decide(ctx, mine)
			timer.Stop()
			cancel()
			owned := 0
			if err == nil {
				owned = len(answers)
			}
			for _, a := range d.decide(mine...) {
				if a.New {
					owned++
				}
			}
			if owned == n {
				continue
			}
			d.Clock.Advance(5 * time.Second)
			stale := d.stale(2*time.Second, n*rounds)
			found := map[string]bool{}
			for _, e := range stale {
				found[e.URL] = true
			}
			for _, key := range mine {
				d.Require(found[key.URL],
					"Decide ended with %v, and %q is neither new to the next caller nor pending", err, key.URL)
			}
		}
	}},
	// This case makes calls with a context that has already ended.
	{"CancelledCallsDoNothing", exact.Windows{}, func(d *driver) {
		d.fresh(keys(0, 3)...)
		ctx, cancel := context.WithCancel(d.Ctx)
		cancel()
		_, err := d.Decide(ctx, keys(3, 6))
		for what, err := range map[string]error{
			"Decide":   err,
			"Queued":   d.Queued(ctx, refs(0, key(0))),
			"Withdraw": d.Withdraw(ctx, refs(0, key(1))),
			"Finish":   d.Finish(ctx, []exact.Finished{finished(key(2), 0, frontier.OK, 200)}, nil),
		} {
			d.Require(err != nil, "%s with a context that has ended returned no error", what)
		}
		d.wantState(exact.Pending, 0, keys(0, 3)...)
		d.wantStats(3, 0, 0, 0)
	}},
}

// extremes are keys with the largest and the smallest values.
func extremes() []exact.Key {
	long := key(1)
	long.URL = "https://host.test/" + strings.Repeat("x", frontier.MaxURLBytes-len("https://host.test/"))
	long.Class, long.Depth, long.Hops, long.Priority = exact.Classes-1, 1<<16-1, 255, frontier.PriorityAsset
	odd := key(2)
	odd.URL = `https://host.test/'";--%00\{}[]$1,?é`
	odd.Class, odd.Depth, odd.Hops, odd.Priority = frontier.Sitemap, 0, 0, frontier.PrioritySeed
	return []exact.Key{long, odd, key(1<<15 + 1)}
}
