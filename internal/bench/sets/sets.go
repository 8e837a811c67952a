// Package sets opens the sets that benchmarks compare: our filters and stores, and
// common alternatives. Each set is new and empty.
//
// The package owns the links, a common interface to all sets, and how the
// servers are asked what they used. The measurements are in packages fpr, memory and speed.
package sets

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
)

// Kind is one way to remember links.
type Kind struct {
	Name string
	Open func(ctx context.Context, plan Plan) (*Set, error)
}

// Plan is the configuration of a filter. Exact sets ignore it.
type Plan struct {
	Capacity   uint64  // 0 means the default of the set, also for FPR and Partitions
	FPR        float64 // false-positive rate
	Growth     bloomstore.Growth
	Partitions int // number of partitions of a set in Redis
}

// Set is an open set of links.
type Set struct {
	// Add adds links and reports for each index whether the link is new.
	Add func(ctx context.Context, links Links) (added []bool, err error)
	// Contains reports which links the set claims to contain. It is nil if this kind of
	// set does not implement it.
	Contains func(ctx context.Context, links Links) (known []bool, err error)
	Store    frontier.Store                          // nil if the set has no queue
	Used     func(ctx context.Context) (Used, error) // nil if the set has no server
	Close    func() error                            // closes its connections
	Remove   func(ctx context.Context) error         // removes its data; called after Close
}

// End closes the set and removes its data.
func (s *Set) End(ctx context.Context) error {
	return errors.Join(s.Close(), s.Remove(context.WithoutCancel(ctx)))
}

func newName() string                   { return "bench-" + strconv.FormatUint(rand.Uint64(), 36) }
func nothing() error                    { return nil }
func nothingLeft(context.Context) error { return nil }

// membits makes a configuration of package membits from the plan.
func (p Plan) membits() membits.Config {
	return membits.Config{Capacity: p.Capacity, FPR: p.FPR, Growth: p.Growth}
}

// Memory returns the Kind for the filter of package membits.
func Memory() Kind {
	return Kind{Name: "membits", Open: func(_ context.Context, plan Plan) (*Set, error) {
		filter, err := membits.New(plan.membits())
		if err != nil {
			return nil, err
		}
		return ofFilter(filter), nil
	}}
}

// Local returns the Kind for the store of package localstore. Each store has its own folder
// below dir.
func Local(dir string) Kind {
	return Kind{Name: "localstore", Open: func(_ context.Context, plan Plan) (*Set, error) {
		dir, err := os.MkdirTemp(dir, "set-")
		if err != nil {
			return nil, err
		}
		store, err := localstore.Open(localstore.Config{Dir: dir, Filter: plan.membits()})
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		set := ofStore(store)
		set.Remove = func(context.Context) error { return os.RemoveAll(dir) }
		return set, nil
	}}
}

func ofFilter(filter bloomstore.Filter) *Set {
	return &Set{
		Add: func(ctx context.Context, links Links) ([]bool, error) {
			return filter.AddIfAbsent(ctx, printsOf(links))
		},
		Contains: func(ctx context.Context, links Links) ([]bool, error) { return filter.Contains(ctx, printsOf(links)) },
		Close:    nothing, Remove: nothingLeft,
	}
}

// store has the methods of a store that a Set uses.
type store interface {
	frontier.Store
	frontier.Inspector
	Close() error
}

// ofStore returns a Set that uses a store. The Set contains the queued items of the store.
// No item is leased, so an added item stays queued. If Add reports that a link is not new,
// but the link is not queued, then this is a false positive.
func ofStore(s store) *Set {
	return &Set{
		Add: func(ctx context.Context, links Links) ([]bool, error) {
			verdicts, err := s.Add(ctx, offersOf(links))
			added := make([]bool, len(verdicts))
			for i, verdict := range verdicts {
				added[i] = verdict.Answer == frontier.Added
			}
			return added, err
		},
		Contains: func(ctx context.Context, links Links) ([]bool, error) {
			known := make([]bool, links.Len())
			for i, offer := range offersOf(links) {
				status, err := s.Lookup(ctx, offer.Host, offer.URL)
				if err != nil {
					return nil, err
				}
				known[i] = status.State == frontier.Queued
			}
			return known, nil
		},
		Store: s, Close: s.Close, Remove: nothingLeft,
	}
}
