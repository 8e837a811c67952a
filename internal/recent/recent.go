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
// time. It holds at least the n most recently used keys, and at most 2n keys, where n is
// the argument of New.
//
// A key is stored as its hash of 64 bits under a random seed. So it takes only 10 to 20
// bytes, and the garbage collector does not scan it. Has can report a key that was never
// added, with a probability below 2n/2⁶⁴. A site cannot raise that probability, because
// it does not know the seed.
//
// Keys is safe for concurrent use.
type Keys struct {
	limit int // the largest length of young
	seed  maphash.Seed

	mu    sync.RWMutex
	young map[uint64]struct{} // recently used keys; replaces old when it is full
	old   map[uint64]struct{} // keys that are dropped next
}

// New returns an empty set for the n most recently used keys. An n below 1 counts as 1.
func New(n int) *Keys {
	return &Keys{limit: max(n, 1), seed: maphash.MakeSeed(), young: make(map[uint64]struct{})}
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
	if len(k.young) >= k.limit {
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

// Clear takes all keys out of the set.
func (k *Keys) Clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.young, k.old = make(map[uint64]struct{}), nil
}
