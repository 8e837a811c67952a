package fpr

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/bloomstore/redisbits"
)

// Memory is package membits. Hosts do not matter to it: it spreads keys by
// fingerprint.
func Memory() Subject {
	return Subject{
		Name: "membits", Add: 250 * time.Nanosecond, Probe: 100 * time.Nanosecond, Probes: 20_000_000,
		Open: func(_ context.Context, c Case) (Set, error) {
			config := membits.Config{Capacity: c.Capacity, FPR: c.FPR}
			if !c.Growth {
				config.Growth = membits.GrowthOff
			}
			filter, err := membits.New(config)
			if err != nil {
				return nil, err
			}
			return memorySet{filter}, nil
		},
		Theory: memoryTheory,
	}
}

type memorySet struct{ *membits.Filter }

// Close implements Set.
func (memorySet) Close(context.Context) error { return nil }

// partitions of a filter in Redis whose keys are spread by fingerprint.
const partitions = 16

// Redis is package redisbits in the server that client asks.
func Redis(client redis.UniversalClient) Subject {
	return Subject{
		Name: "redisbits", Add: 40 * time.Microsecond, Probe: 3 * time.Microsecond, Probes: 2_000_000, Hosts: true,
		Open: func(ctx context.Context, c Case) (Set, error) {
			config := redisbits.Config{
				Name: "bench-" + strconv.FormatUint(rand.Uint64(), 36), Capacity: c.Capacity, FPR: c.FPR, Partitions: partitionsOf(c),
			}
			if !c.Growth {
				config.Growth = redisbits.GrowthOff
			}
			filter, err := redisbits.Open(ctx, client, config)
			if err != nil {
				return nil, err
			}
			return redisSet{filter, client, config.Name}, nil
		},
		Theory: func(c Case, loads []uint64) Theory {
			c.Partitions = partitionsOf(c)
			return redisTheory(c, loads)
		},
	}
}

func partitionsOf(c Case) int {
	if c.Partitions > 0 {
		return c.Partitions
	}
	return partitions
}

type redisSet struct {
	*redisbits.Filter
	client redis.UniversalClient
	name   string
}

// Close implements Set.
func (s redisSet) Close(ctx context.Context) error { return redisbits.Delete(ctx, s.client, s.name) }
