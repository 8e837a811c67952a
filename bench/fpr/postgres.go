package fpr

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
	"github.com/bloomfrontier/crawler/frontier/pgstore"
)

// Postgres is package pgstore in the database at dsn, which gets its schema.
func Postgres(dsn string) Subject {
	return Subject{
		Name: "pgstore", Add: 40 * time.Microsecond, Exact: true,
		Open: func(ctx context.Context, _ Case) (Set, error) {
			name := "bench-" + strconv.FormatUint(rand.Uint64(), 36)
			config := pgstore.Config{DSN: dsn, Crawl: name, Identity: name}
			set, err := pgstore.Open(ctx, config)
			if err != nil {
				return nil, err
			}
			return exactSet{set, func(ctx context.Context) error {
				set.Close()
				return pgstore.Delete(ctx, config)
			}}, nil
		},
	}
}

// exactSet makes a set of an exact tier: each fingerprint is that of a key.
type exactSet struct {
	exact.Set
	remove func(ctx context.Context) error
}

// AddIfAbsent implements bloomstore.Filter.
func (s exactSet) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	keys := make([]exact.Key, len(prints))
	for i, fp := range prints {
		keys[i] = exact.Key{Fingerprint: fp, URL: item(fp).URL, Class: frontier.Exact, Priority: frontier.PriorityPage}
	}
	answers, err := s.Decide(ctx, keys)
	if err != nil {
		return nil, err
	}
	added := make([]bool, len(prints))
	for i, answer := range answers {
		added[i] = answer.New
	}
	return added, nil
}

// Contains implements bloomstore.Filter.
func (s exactSet) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	known := make([]bool, len(prints))
	for i, fp := range prints {
		status, err := s.Lookup(ctx, fp)
		if err != nil {
			return nil, err
		}
		known[i] = status.State != exact.Unknown
	}
	return known, nil
}

// Close implements Set.
func (s exactSet) Close(ctx context.Context) error { return s.remove(ctx) }
