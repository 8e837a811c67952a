package redisbits_test

import (
	"errors"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/redisbits"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestFilterOfOtherPrograms uses a filter as another program would. The other tests of
// filters in Redis are in package internal/redisbits.
func TestFilterOfOtherPrograms(t *testing.T) {
	client := servers.Redis(t, servers.RedisOptions{}).Client()
	config := redisbits.Config{Name: "seen", Capacity: 1000, FPR: 1e-3, Growth: redisbits.GrowthOff, BlockBits: 512, Partitions: 2}
	filter, err := redisbits.Open(t.Context(), client, config)
	if err != nil {
		t.Fatal(err)
	}
	prints := []bloomstore.Fingerprint{{1}, {2}, {1}}
	if added, err := filter.AddIfAbsent(t.Context(), prints); err != nil || !added[0] || !added[1] || added[2] {
		t.Errorf("AddIfAbsent = %v, %v; want only the first two added", added, err)
	}
	prints[2] = bloomstore.Fingerprint{3}
	if known, err := filter.Contains(t.Context(), prints); err != nil || !known[0] || !known[1] || known[2] {
		t.Errorf("Contains = %v, %v; want only the first two known", known, err)
	}
	if stats, err := filter.Stats(t.Context()); err != nil || stats.Keys != 2 || len(stats.Layers) != 1 || stats.Layers[0].Chains != 2 {
		t.Errorf("Stats = %+v, %v; want 2 keys, and one layer in 2 chains", stats, err)
	}
	for _, change := range []func(*redisbits.Config){
		func(c *redisbits.Config) { c.Capacity *= 2 },
		func(c *redisbits.Config) { c.FPR /= 2 },
		func(c *redisbits.Config) { c.Growth = redisbits.GrowthOn },
		func(c *redisbits.Config) { c.BlockBits *= 2 },
		func(c *redisbits.Config) { c.Partitions++ },
	} {
		other := config
		change(&other)
		if _, err := redisbits.Open(t.Context(), client, other); !errors.Is(err, bloomstore.ErrParamsMismatch) {
			t.Errorf("Open with %+v: %v, want ErrParamsMismatch", other, err)
		}
	}
	if err := redisbits.Delete(t.Context(), client, config.Name); err != nil {
		t.Error(err)
	}
	if keys, err := client.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("keys after Delete: %q, %v; want none", keys, err)
	}
}
