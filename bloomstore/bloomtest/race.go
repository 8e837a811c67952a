package bloomtest

import (
	"context"
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
	seeds := make([]uint64, racers)
	for i := range seeds {
		seeds[i] = t.rng.Uint64()
	}
	t.Race(racers, func(i int) error {
		r := racer{prints: prints, wins: wins, rng: rand.New(rand.NewPCG(seeds[i], 0))}
		return r.run(t.Ctx, t.Filter)
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

type racer struct {
	prints []bloomstore.Fingerprint
	wins   []atomic.Int32 // how often each of prints was new to a racer
	rng    *rand.Rand
}

// run adds all keys in steps of a random stride. That is cheaper than a permutation
// for each racer, and racers often add the same key at the same time.
func (r racer) run(ctx context.Context, filter bloomstore.Filter) error {
	n := len(r.prints)
	at, stride := r.rng.IntN(n), coprime(r.rng, n)
	batch, index := make([]bloomstore.Fingerprint, 0, 256), make([]int, 0, 256)
	for done := 0; done < n; {
		batch, index = batch[:0], index[:0]
		for range min(1+r.rng.IntN(256), n-done) {
			batch, index = append(batch, r.prints[at]), append(index, at)
			at = (at + stride) % n
		}
		added, err := call(ctx, filter.AddIfAbsent, batch)
		if err != nil {
			return err
		}
		for i, is := range added {
			if is {
				r.wins[index[i]].Add(1)
			}
		}
		done += len(batch)
	}
	return nil
}

// coprime returns a number below n that has no divisor except 1 in common with n.
func coprime(rng *rand.Rand, n int) int {
	for {
		a, b := 1+rng.IntN(n-1), n
		stride := a
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return stride
		}
	}
}
