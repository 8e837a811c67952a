package redisstore

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

var seed = flag.Int64("seed", 0, "replay a random test; 0 takes a new seed")

// newRand returns a source of random numbers that -seed replays.
func newRand(t testing.TB) *rand.Rand {
	n := *seed
	if n == 0 {
		n = time.Now().UnixNano()
	}
	t.Logf("replay with -seed=%d", n)
	return rand.New(rand.NewPCG(uint64(n), 0))
}

func randomPrint(rng *rand.Rand) (fp bloomstore.Fingerprint) {
	for i := range fp {
		fp[i] = byte(rng.Uint32())
	}
	return fp
}

// TestSeenCacheOfAnEpoch: the cache has nothing while an epoch begins, and nothing of an earlier
// epoch afterwards, even if an answer of that epoch is added late.
func TestSeenCacheOfAnEpoch(t *testing.T) {
	s := &Store{cfg: Config{SeenCache: 1000}}
	s.forgetKeys()
	print := randomPrint(newRand(t))
	key := string(print[:])
	before := s.seen.Load()
	before.Add(key)
	if !s.isSeen(print) {
		t.Error("the cache has no fingerprint that was just added")
	}
	s.changeEpoch(func() {
		if s.isSeen(print) || s.seen.Load() != nil {
			t.Error("there is a cache while an epoch begins")
		}
	})
	before.Add(key)
	if s.isSeen(print) {
		t.Error("the cache has a fingerprint of an earlier epoch")
	}
	s.seen.Load().Add(key)
	if !s.isSeen(print) {
		t.Error("the cache of the new epoch has no fingerprint that was added")
	}
	none := &Store{}
	none.changeEpoch(func() {})
	if none.isSeen(print) {
		t.Error("a Store without a cache has a fingerprint")
	}
}
