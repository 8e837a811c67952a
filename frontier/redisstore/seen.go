package redisstore

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// seenCache caches fingerprints that the store answered as seen: a table of sets of eight words,
// each set one cache line. It may drop entries, and claims another fingerprint with a probability
// below 10⁻¹⁸. It is safe for concurrent use without locks: callers that write one set at once
// may lose an entry.
type seenCache struct {
	words  []atomic.Uint64 // 0 means empty
	sets   uint64
	victim atomic.Uint32 // rotates over the words of a set

	changing sync.Mutex
	gen      atomic.Uint64 // words of earlier generations match nothing; odd during a change
}

// seenWays is the number of words in a set.
const seenWays = 8

// newSeenCache returns a cache of at least size fingerprints, or nil for 0. A nil cache contains
// nothing.
func newSeenCache(size int) *seenCache {
	if size <= 0 {
		return nil
	}
	sets := uint64(size+seenWays-1) / seenWays
	return &seenCache{words: make([]atomic.Uint64, sets*seenWays), sets: sets}
}

// generation returns the number of calls of change. A result belongs to the generation in which it
// was asked for.
func (c *seenCache) generation() uint64 {
	if c == nil {
		return 0
	}
	return c.gen.Load()
}

// change empties the cache and calls happen, after which the old entries are wrong. The two are
// atomic for other goroutines.
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

// find returns the set of a fingerprint, selected by its first half, and its word there, made
// from the second half.
func (c *seenCache) find(fp bloomstore.Fingerprint, generation uint64) (set []atomic.Uint64, word uint64) {
	const golden = 0x9e3779b97f4a7c15
	at, _ := bits.Mul64(binary.LittleEndian.Uint64(fp[:8]), c.sets)
	word = binary.LittleEndian.Uint64(fp[8:]) ^ generation*golden
	return c.words[at*seenWays:][:seenWays], max(word, 1)
}

// has reports whether fp is cached. It moves fp halfway to the first word of its set, away from the
// end where entries are replaced.
func (c *seenCache) has(fp bloomstore.Fingerprint) bool {
	if c == nil {
		return false
	}
	generation := c.gen.Load()
	if generation%2 == 1 {
		return false
	}
	set, word := c.find(fp, generation)
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

// add caches fp, which the store answered as seen in a generation. It replaces an entry in the
// second half of its set.
func (c *seenCache) add(fp bloomstore.Fingerprint, generation uint64) {
	if c == nil || generation%2 == 1 {
		return
	}
	set, word := c.find(fp, generation)
	for i := range set {
		if set[i].Load() == word {
			return
		}
	}
	set[seenWays/2+c.victim.Add(1)%(seenWays/2)].Store(word)
}
