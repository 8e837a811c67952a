package exacttest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

var raceCases = []testCase{
	{"RacersGetOneNew", exact.Windows{}, func(d *driver) {
		d.wantOneWinner(d.offerShuffled(keys(0, 1), 1), 0, keys(0, 1))
		many := keys(1, 500)
		d.wantOneWinner(d.offerShuffled(many, 50), 0, many)
		d.wantStats(500, 0, 0, 0)
	}},
	{"RacersRenewOnce", hundred(), func(d *driver) {
		many := keys(0, 300)
		d.queue(0, many...)
		d.finish(0, many...)
		d.passWindow()
		d.wantOneWinner(d.offerShuffled(many, 40), 1, many)
		d.wantStats(300, 0, 0, 0)
	}},
	// This case lets 32 callers, the racers, finish the same keys in one round. For each key,
	// the call of one racer takes effect, and the record of the same racer must be kept.
	{"RacersFinishOnce", exact.Windows{}, func(d *driver) {
		many := keys(0, 40)
		d.queue(0, many...)
		d.Race(racers, func(i int) error {
			var ends []exact.Finished
			var rows []exact.Row
			rng := rand.New(rand.NewPCG(8, uint64(i)))
			for _, n := range rng.Perm(len(many)) {
				ends = append(ends, finished(many[n], 0, frontier.OK, 200+i))
				row := d.rowOf(many[n], 0, fmt.Sprint(i))
				row.Status = 200 + i
				rows = append(rows, row)
			}
			return d.share().Finish(d.Ctx, ends, rows)
		})
		rows, err := d.Records(d.Ctx)
		d.Must(err, "Records")
		d.Require(len(rows) == len(many), "there are %d records, want one for each of %d keys", len(rows), len(many))
		statusOf := map[bloomstore.Fingerprint]int{}
		for _, row := range rows {
			statusOf[row.Fingerprint] = row.Status
		}
		for _, key := range many {
			s := d.status(key)
			d.Require(s.State == exact.Done && s.HTTP == statusOf[key.Fingerprint],
				"%q is %+v, and its record has status %d", key.URL, s, statusOf[key.Fingerprint])
		}
	}},
	// This case lets eight callers renew, finish and sweep the same keys at the same time. In
	// one round, a key must be new to only one of the callers.
	{"SweepersAndDeciders", exact.Windows{frontier.Exact: 10 * time.Second}, func(d *driver) {
		const n, turns = 60, 12
		w := &wins{of: map[exact.Ref]int{}}
		d.Race(8, func(i int) error {
			set := d.share()
			rng := rand.New(rand.NewPCG(9, uint64(i)))
			for range turns {
				asked := keys(0, n)
				rng.Shuffle(n, func(a, b int) { asked[a], asked[b] = asked[b], asked[a] })
				answers, err := set.Decide(d.Ctx, asked)
				if err != nil {
					return err
				}
				w.count(asked, answers)
				var ends []exact.Finished
				for j, a := range answers {
					if a.New {
						ends = append(ends, finished(asked[j], a.Round, frontier.OK, 200))
					}
				}
				if err := set.Finish(d.Ctx, ends, nil); err != nil {
					return err
				}
				d.Clock.Advance(3 * time.Second)
				if _, _, err := set.Sweep(d.Ctx, 10); err != nil {
					return err
				}
			}
			return nil
		})
		for ref, n := range w.of {
			d.Require(n == 1, "key %x was new to %d callers in round %d, want 1", ref.Fingerprint[:4], n, ref.Round)
		}
	}},
}

const racers = 32

// wins counts how often each key was new to a caller, by round.
type wins struct {
	mu sync.Mutex
	of map[exact.Ref]int
}

func (w *wins) count(asked []exact.Key, answers []exact.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, a := range answers {
		if a.New {
			w.of[exact.Ref{Fingerprint: asked[i].Fingerprint, Round: a.Round}]++
		}
	}
}

// offerShuffled lets 32 callers, the racers, decide about the same keys at the same time.
// Each racer asks in batches and in a random order.
func (d *driver) offerShuffled(all []exact.Key, batch int) *wins {
	w := &wins{of: map[exact.Ref]int{}}
	d.Race(racers, func(i int) error {
		set, mine := d.share(), slices.Clone(all)
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		rng.Shuffle(len(mine), func(a, b int) { mine[a], mine[b] = mine[b], mine[a] })
		for asked := range slices.Chunk(mine, batch) {
			answers, err := set.Decide(d.Ctx, asked)
			if err != nil {
				return err
			}
			w.count(asked, answers)
		}
		return nil
	})
	return w
}

func (d *driver) wantOneWinner(w *wins, round uint32, keys []exact.Key) {
	for _, ref := range refs(round, keys...) {
		n := w.of[ref]
		d.Require(n == 1,
			"key %x was new in round %d to %d of %d racers, want 1", ref.Fingerprint[:4], round, n, racers)
	}
	d.Require(len(w.of) == len(keys), "%d pairs of key and round were new, want %d: one for each key", len(w.of), len(keys))
}
