package fpr

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// What the filters beside exact keys are made for: a hundredth of the keys, at
// the worst rate that one can ask for. They soon claim every new URL, so that a
// store which believed its filter would lose nearly all.
const (
	exactOverload = 100
	exactFPR      = 0.5
)

// Local is the exact class of package localstore, in a folder below dir.
func Local(dir string) Subject {
	return Subject{
		Name: "localstore, exact keys", Add: 20 * time.Microsecond, Exact: true,
		Open: func(_ context.Context, c Case) (Set, error) {
			dir, err := os.MkdirTemp(dir, "exact-")
			if err != nil {
				return nil, err
			}
			store, err := localstore.Open(localstore.Config{Dir: dir, Filter: membits.Config{
				Capacity: max(c.Keys/exactOverload, 1), FPR: exactFPR, Growth: membits.GrowthOff, Shards: 1,
			}})
			if err != nil {
				return nil, errors.Join(err, os.RemoveAll(dir))
			}
			return &storeSet{store, func(context.Context) error { return os.RemoveAll(dir) }}, nil
		},
	}
}

// Shared is the exact class of package redisstore.
func Shared(server *redis.UniversalOptions) Subject {
	return Subject{
		Name: "redisstore, exact keys", Add: 60 * time.Microsecond, Exact: true,
		Open: func(ctx context.Context, c Case) (Set, error) {
			config := redisstore.Config{
				Redis: server, Name: "bench-" + strconv.FormatUint(rand.Uint64(), 36), Partitions: partitions,
				FilterKeys: max(c.Keys/exactOverload, 1), FPR: exactFPR, NoGrowth: true, SeenCache: redisstore.NoSeenCache,
			}
			store, err := redisstore.Open(ctx, config)
			if err != nil {
				return nil, err
			}
			return &storeSet{store, func(ctx context.Context) error {
				_, err := redisstore.Delete(ctx, config)
				return err
			}}, nil
		},
	}
}

// queue is the part of a store that is asked.
type queue interface {
	frontier.Store
	frontier.Inspector
	Close() error
}

// storeSet makes a set of a store: each fingerprint stands for a URL of the
// exact class.
type storeSet struct {
	queue
	remove func(ctx context.Context) error
}

// exactHosts is what the URLs are spread over.
const exactHosts = 1000

// item returns the URL that fp stands for.
func item(fp bloomstore.Fingerprint) frontier.Item {
	host := "h" + strconv.Itoa((int(fp[0])<<8|int(fp[1]))%exactHosts) + ".test"
	return frontier.Item{
		URL: "https://" + host + "/" + hex.EncodeToString(fp[:]), Host: host,
		Class: frontier.Exact, Priority: frontier.PriorityPage,
	}
}

// AddIfAbsent implements bloomstore.Filter.
func (s *storeSet) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	items := make([]frontier.Item, len(prints))
	for i, fp := range prints {
		items[i] = item(fp)
	}
	verdicts, err := s.Add(ctx, items)
	if err != nil {
		return nil, err
	}
	added := make([]bool, len(prints))
	for i, verdict := range verdicts {
		if verdict.Answer == frontier.Refused {
			return nil, fmt.Errorf("%q is refused: %s", items[i].URL, verdict.Reason)
		}
		added[i] = verdict.Answer == frontier.Added
	}
	return added, nil
}

// Contains implements bloomstore.Filter. Nothing is fetched here, so what was
// added is queued. Any other state is what a store makes of its filter's claim.
func (s *storeSet) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known := make([]bool, len(prints))
	for i, fp := range prints {
		it := item(fp)
		status, err := s.Lookup(ctx, it.Host, it.URL)
		if err != nil {
			return nil, err
		}
		known[i] = status.State == frontier.Queued
	}
	return known, nil
}

// Close implements Set.
func (s *storeSet) Close(ctx context.Context) error {
	return errors.Join(s.queue.Close(), s.remove(ctx))
}
