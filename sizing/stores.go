package sizing

import (
	"fmt"
	"math"
	"math/bits"
)

// StoreCost is what one way to remember keys takes.
type StoreCost struct {
	Name        string  `json:"name"`
	BytesPerKey float64 `json:"bytes_per_key"`
	FPR         float64 `json:"fpr"`     // that a new key is taken for a known one; 0: exact
	OnDisk      bool    `json:"on_disk"` // else in memory
}

// ExactStores returns what n URLs of urlBytes each (the mean) take in our exact
// tier and in the exact stores that people use for them, from how those lay out
// their data. The formulas agree within 2 % with Go 1.26 and Redis 7.0.15 where
// those were measured (10⁵ to 10⁶ keys). It panics if n or urlBytes is 0.
func ExactStores(n uint64, urlBytes int) []StoreCost {
	if n == 0 || urlBytes < 1 {
		panic(fmt.Sprintf("sizing: %d URLs of %d bytes", n, urlBytes))
	}
	const collides64 = 0x1p-64 // the chance for each key already there
	return []StoreCost{
		{Name: "Go map of URLs", BytesPerKey: goMap(n, 27264) + float64(goSizeClass(urlBytes))},
		{Name: "Go map of 16-byte fingerprints", BytesPerKey: goMap(n, 18432)},
		{Name: "Redis SET of URLs", BytesPerKey: redisSet(n, urlBytes)},
		{Name: "Redis SET of 8-byte hashes", BytesPerKey: redisSet(n, 8), FPR: float64(n) * collides64},
		{Name: "exact tier in Postgres, finished", BytesPerKey: float64(TierFinished(n)) / float64(n), OnDisk: true},
	}
}

// goMap returns the bytes per key of a Go map, without what keys point to. Its
// tables of 1024 slots take tableBytes each and split at 7/8 full; hashing fills
// them alike, so all split at about the same time.
func goMap(n uint64, tableBytes float64) float64 {
	const slots, load = 1024, 7.0 / 8
	tables := math.Exp2(math.Ceil(math.Log2(float64(n) / (slots * load))))
	return tables * tableBytes / float64(n) // a fraction of a table where n is small
}

// goSizeClass returns what Go's allocator gives for a string of size bytes.
func goSizeClass(size int) uint64 {
	switch s := uint64(size); {
	case s <= 8:
		return 8
	case s <= 32:
		return (s + 7) / 8 * 8
	case s <= 256:
		return (s + 15) / 16 * 16
	default:
		step := uint64(1) << (bits.Len64(s-1) - 4)
		return (s + step - 1) / step * step
	}
}

// redisSet returns the bytes per member of a Redis SET: an entry of 32, the
// string with its header and final zero, and the slots of a table that doubles.
func redisSet(n uint64, memberBytes int) float64 {
	header := 4
	switch {
	case memberBytes < 32:
		header = 2
	case memberBytes >= 256:
		header = 6
	}
	slots := math.Exp2(math.Ceil(math.Log2(float64(n))))
	return 32 + float64(sizeClass(uint64(memberBytes+header))) + 8*slots/float64(n)
}
