package bloomtest

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// racersGetAtMostOneTrue lets 16 racers add the same keys, each in a different order
// and in batches of different sizes. No key is new twice, and no key is lost.
func racersGetAtMostOneTrue(t *trial) {
	const racers = 16
	keys := 1 << 13
	if t.proof {
		keys = 1_000_000
	}
	prints := t.prints(keys)
	wins := make([]atomic.Int32, keys)
	seed := t.rng.Uint64()
	t.Race(racers, func(i int) error {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		for order := rng.Perm(keys); len(order) > 0; {
			some := order[:min(1+rng.IntN(256), len(order))]
			order = order[len(some):]
			batch := make([]bloomstore.Fingerprint, len(some))
			for j, key := range some {
				batch[j] = prints[key]
			}
			added, err := call(t.Ctx, t.AddIfAbsent, batch)
			if err != nil {
				return err
			}
			for j, is := range added {
				if is {
					wins[some[j]].Add(1)
				}
			}
		}
		return nil
	})
	never := 0
	for i := range wins {
		n := wins[i].Load()
		t.Require(n <= 1, "%d racers were told that key %d is new, want 1", n, i)
		if n == 0 {
			never++
		}
	}
	t.wantFew("refusals", never, keys)
	t.wantKnown(prints)
}
