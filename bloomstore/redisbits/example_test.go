package redisbits_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/redisbits"
)

// Any number of processes share one filter by its name.
func Example() {
	ctx := context.Background()
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs:                    []string{"localhost:6379"}, // several addresses mean a cluster
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close()
	filter, err := redisbits.Open(ctx, client, redisbits.Config{Name: "seen", Capacity: 100_000_000, FPR: 1e-6})
	if err != nil {
		log.Fatal(err)
	}
	hasher := bloomstore.NewHasher(bloomstore.Key{}) // the zero key is not secret: share one from NewKey among all processes
	added, err := filter.AddIfAbsent(ctx, []bloomstore.Fingerprint{
		hasher.Fingerprint("https://example.org/"),
		hasher.Fingerprint("https://example.org/"),
	})
	fmt.Println(added, err)
}
