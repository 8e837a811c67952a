package redisstore

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// seenCache remembers fingerprints that the store said it knows: a table of
// sets of eight words, each set one cache line. It forgets, and claims one that
// it was not told with a probability below 10⁻¹⁸. It is safe for concurrent use
// without locks: callers that write one set at once may lose an entry.
type seenCache struct {
	words  []atomic.Uint64 // 0: empty
	sets   uint64
	victim atomic.Uint32 // turns around the places of a set

	changing sync.Mutex
	gen      atomic.Uint64 // words of an earlier one match nothing; odd while it changes
}

// seenWays is the number of words in a set.
const seenWays = 8

// newSeenCache returns a cache of at least so many fingerprints; nil for none,
// which has and keeps nothing.
func newSeenCache(size int) *seenCache {
	if size <= 0 {
		return nil
	}
	sets := uint64(size+seenWays-1) / seenWays
	return &seenCache{words: make([]atomic.Uint64, sets*seenWays), sets: sets}
}

// generation numbers the time between two calls of change. What is learnt from
// an answer belongs to the generation in which it was asked for.
func (c *seenCache) generation() uint64 {
	if c == nil {
		return 0
	}
	return c.gen.Load()
}

// change empties the cache, and makes something happen that ends the truth of
// what was in it: nobody sees the one without the other.
func (c *seenCache) change(happen func()) {
	if c == nil {
		happen()
		return
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	c.gen.Add(1)
	happen()
	c.gen.Add(1)
}

// place returns the set of a fingerprint, by its first half, and the word that
// stands for it there, by the second.
func (c *seenCache) place(fp bloomstore.Fingerprint, generation uint64) (set []atomic.Uint64, word uint64) {
	const golden = 0x9e3779b97f4a7c15
	at, _ := bits.Mul64(binary.LittleEndian.Uint64(fp[:8]), c.sets)
	word = binary.LittleEndian.Uint64(fp[8:]) ^ generation*golden
	return c.words[at*seenWays:][:seenWays], max(word, 1)
}

// has reports whether fp is there, and moves it forward, halfway to the first
// place, away from where others are replaced.
func (c *seenCache) has(fp bloomstore.Fingerprint) bool {
	if c == nil {
		return false
	}
	generation := c.gen.Load()
	if generation%2 == 1 {
		return false
	}
	set, word := c.place(fp, generation)
	for i := range set {
		if set[i].Load() != word {
			continue
		}
		if i > 0 {
			set[i].Store(set[i/2].Swap(word))
		}
		return true
	}
	return false
}

// add remembers fp, which the store knew in a generation. It takes the place of
// one in the hindmost half of its set.
func (c *seenCache) add(fp bloomstore.Fingerprint, generation uint64) {
	if c == nil || generation%2 == 1 {
		return
	}
	set, word := c.place(fp, generation)
	for i := range set {
		if set[i].Load() == word {
			return
		}
	}
	set[seenWays/2+c.victim.Add(1)%(seenWays/2)].Store(word)
}
