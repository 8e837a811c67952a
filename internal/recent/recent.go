// Package recent remembers recently used keys in bounded memory.
//
// It decides which keys are dropped and when. It does not know what a key means.
// localstore and redisstore use it to avoid look-ups.
package recent

import (
	"hash/maphash"
	"sync"
)

// Keys is a set that drops keys that were not used (added, or found by Has) for a long
// time. It holds at least the n most recently used keys, except those that were removed, and
// at most 2n keys. The number n is the argument of New.
//
// A key is stored as its hash of 64 bits under a random seed. So it takes only 10 to 20
// bytes, and the garbage collector does not scan it. Has can report a key that was never
// added, with a probability below 2n/2⁶⁴. A site cannot raise that probability, because
// it does not know the seed.
//
// Keys is safe for concurrent use.
type Keys struct {
	n    int
	seed maphash.Seed

	mu    sync.RWMutex
	young map[uint64]struct{} // recently used keys; replaces old when it has n keys and another one is added
	old   map[uint64]struct{} // keys that are dropped next
}

// New returns an empty set that holds at least the n most recently used keys. Values of n
// below 1 mean 1.
func New(n int) *Keys {
	return &Keys{n: max(n, 1), seed: maphash.MakeSeed(), young: make(map[uint64]struct{})}
}

// Has reports whether key is in the set. If it is, Has also marks it as recently used.
func (k *Keys) Has(key string) bool {
	hash := maphash.String(k.seed, key)
	k.mu.RLock()
	_, young := k.young[hash]
	_, old := k.old[hash]
	k.mu.RUnlock()
	if young || !old {
		return young
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, old = k.old[hash]; old { // it may have been removed meanwhile
		k.add(hash)
	}
	_, young = k.young[hash]
	return young
}

// Add puts a key into the set.
func (k *Keys) Add(key string) {
	hash := maphash.String(k.seed, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.add(hash)
}

func (k *Keys) add(hash uint64) {
	if _, ok := k.young[hash]; ok {
		return
	}
	if len(k.young) >= k.n {
		k.young, k.old = make(map[uint64]struct{}), k.young
	}
	k.young[hash] = struct{}{}
}

// Remove takes a key out of the set.
func (k *Keys) Remove(key string) {
	hash := maphash.String(k.seed, key)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.young, hash)
	delete(k.old, hash)
}
