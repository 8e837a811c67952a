// Package recent remembers recently used keys in bounded memory.
//
// It owns which keys are dropped and when. The meaning of a key is up to the
// callers: localstore and redisstore avoid look-ups with it.
package recent

import (
	"hash/maphash"
	"sync"
)

// Keys is a set of keys that drops those that were not added or asked for in a long
// time. It holds at least the latest most of them, and at most twice as many.
//
// A key is stored as its hash of 64 bits under a random seed, so that it takes 10
// to 20 bytes and no work of the garbage collector. Has may claim a key that was
// never added, with a probability below 2·most/2⁶⁴, which a site cannot raise
// because it does not know the seed.
//
// It is safe for concurrent use.
type Keys struct {
	most int
	seed maphash.Seed

	mu    sync.RWMutex
	young map[uint64]struct{} // at most most; then they are the old ones
	old   map[uint64]struct{}
}

// New returns an empty set that holds the latest most keys, at least one.
func New(most int) *Keys {
	return &Keys{most: max(most, 1), seed: maphash.MakeSeed(), young: make(map[uint64]struct{})}
}

// Has reports whether key is there, and keeps it there if so.
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
	if len(k.young) >= k.most {
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
