package sizing

import (
	"fmt"
	"math"
)

// StoreCost is what one way to remember keys takes.
type StoreCost struct {
	Name        string  `json:"name"`
	BytesPerKey float64 `json:"bytes_per_key"`
	FPR         float64 `json:"fpr"`     // that a new key is taken for a known one; 0: exact
	OnDisk      bool    `json:"on_disk"` // else in memory
}

// ExactStores returns what n URLs of urlBytes each (the mean) take in our exact
// tier and in the exact stores that people use for them. The coefficients are
// measured with Go 1.26, Redis 7.0.15 and Postgres 15: the results are within
// 10 % for 10⁵ to 10⁷ keys, but where the table of a map or set is just being
// doubled. It panics if n or urlBytes is 0.
func ExactStores(n uint64, urlBytes int) []StoreCost {
	if n == 0 || urlBytes < 1 {
		panic(fmt.Sprintf("sizing: %d URLs of %d bytes", n, urlBytes))
	}
	const collides64 = 0x1p-64                          // the chance for each key already there
	url := float64(urlBytes)                            // of which allocators round up some bytes
	goSlots, redisSlots := slots(n, 7.0/8), slots(n, 1) // for each key
	return []StoreCost{
		{Name: "Go map of URLs", BytesPerKey: 27*goSlots + 4 + url},
		{Name: "Go map of 16-byte fingerprints", BytesPerKey: 18 * goSlots},
		{Name: "Redis SET of URLs", BytesPerKey: 8*redisSlots + 48 + url},
		{Name: "Redis SET of 8-byte hashes", BytesPerKey: 8*redisSlots + 48, FPR: float64(n) * collides64},
		{Name: "exact tier in Postgres, finished", BytesPerKey: float64(TierFinished(n)) / float64(n), OnDisk: true},
	}
}

// slots returns how many slots for each of n keys a hash table has that doubles
// when the given share of them is used.
func slots(n uint64, load float64) float64 {
	return math.Exp2(math.Ceil(math.Log2(float64(n)/load))) / float64(n)
}
