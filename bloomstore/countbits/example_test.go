package countbits_test

import (
	"context"
	"fmt"
	"log"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/countbits"
)

// A program that processes jobs can forget a job when it is done.
func Example() {
	filter, err := countbits.New(countbits.Config{Capacity: 1_000_000, FPR: 1e-6})
	if err != nil {
		log.Fatal(err)
	}
	hasher := bloomstore.NewHasher(bloomstore.NewKey()) // a random key, so that no other program can make keys that collide
	ctx, job := context.Background(), []bloomstore.Fingerprint{hasher.Fingerprint("job 7")}

	added, _ := filter.AddIfAbsent(ctx, job)
	again, _ := filter.AddIfAbsent(ctx, job)
	deleted, _ := filter.Delete(ctx, job) // only because AddIfAbsent has returned true for it
	later, _ := filter.AddIfAbsent(ctx, job)
	fmt.Println(added, again, deleted, later)
	// Output:
	// [true] [false] [true] [true]
}
