package redisstore

import (
	"encoding/binary"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// seenCache caches fingerprints for which the store answered Seen. It is a table of sets of
// eight words, and each set is one cache line. It can drop entries. The probability that it
// claims to contain a fingerprint that was not added is below 10⁻¹⁸. It is safe for concurrent
// use, without locks: if callers write to one set at the same time, an entry can be lost.
type seenCache struct {
	words  []atomic.Uint64 // 0 means empty
	sets   uint64
	victim atomic.Uint32 // rotates over the words of a set

	changing sync.Mutex
	gen      atomic.Uint64 // generation: words of earlier generations match nothing; odd during a change
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

// generation returns the current generation, which changes with each call of change. A caller
// reads the generation before it asks a server. If the answer is Seen, the caller passes that
// generation to add.
func (c *seenCache) generation() uint64 {
	if c == nil {
		return 0
	}
	return c.gen.Load()
}

// change calls startEpoch, after which the cached entries can be wrong, and empties the cache.
// Other goroutines see both changes at once.
func (c *seenCache) change(startEpoch func()) {
	if c == nil {
		startEpoch()
		return
	}
	c.changing.Lock()
	defer c.changing.Unlock()
	c.gen.Add(1)
	startEpoch()
	c.gen.Add(1)
}

// find returns the set that the first half of a fingerprint selects. It also returns the word
// that stands for the fingerprint in that set. The word is computed from the second half.
func (c *seenCache) find(fp bloomstore.Fingerprint, generation uint64) (set []atomic.Uint64, word uint64) {
	const golden = 0x9e3779b97f4a7c15
	index, _ := bits.Mul64(binary.LittleEndian.Uint64(fp[:8]), c.sets)
	word = binary.LittleEndian.Uint64(fp[8:]) ^ generation*golden
	return c.words[index*seenWays:][:seenWays], max(word, 1)
}

// has reports whether fp is cached. It moves fp halfway to the start of its set, away from the
// second half, where add replaces entries.
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

// add caches fp, unless the generation in which the store answered Seen is over. It replaces an
// entry in the second half of fp's set.
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
