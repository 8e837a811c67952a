package membits_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
)

// Any number of goroutines can use a filter at the same time. If several add one key,
// only one of them gets true.
func Example() {
	filter, err := membits.New(membits.Config{Capacity: 1_000_000, FPR: 1e-6})
	if err != nil {
		log.Fatal(err)
	}
	hasher := bloomstore.NewHasher(bloomstore.NewKey()) // a random key, so that no site can make keys that collide

	ctx := context.Background()
	added, err := filter.AddIfAbsent(ctx, []bloomstore.Fingerprint{
		hasher.Fingerprint("http://example.org/"),
		hasher.Fingerprint("http://example.org/b"),
		hasher.Fingerprint("http://example.org/"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(added)

	stats := filter.Stats()
	fmt.Printf("%d of %d keys in %.1f MiB\n", stats.Keys, stats.Capacity, float64(stats.Bytes)/(1<<20))
	// Output:
	// [true true false]
	// 2 of 1000000 keys in 3.5 MiB
}
