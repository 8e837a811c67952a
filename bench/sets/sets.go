// Package sets opens what benchmarks offer links to: our filters and stores, and
// what people use instead of them. Each set is fresh and empty.
//
// It owns the links and how each set is asked about them. What is measured is in
// packages fpr, memory and speed.
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
	Name    string
	Queue   bool     // Set.Store is not nil
	Batches []uint64 // links in a call that are worth measuring; nil means 4 and 100
	Open    func(ctx context.Context, plan Plan) (*Set, error)
}

// Plan says what a set is made for. Exact sets ignore it.
type Plan struct {
	Keys       uint64  // 0 means the set's own default, as with FPR and Partitions
	FPR        float64 // of new links
	NoGrowth   bool
	Partitions int // of a set in Redis
}

// Set is an open set of links.
type Set struct {
	// Add adds links and reports, index for index, which were not there before.
	Add func(ctx context.Context, links Links) (added []bool, err error)
	// Contains reports which links the set claims to know; nil: it is not asked.
	Contains func(ctx context.Context, links Links) (known []bool, err error)
	Store    frontier.Store                          // nil: it has no queue
	Used     func(ctx context.Context) (Used, error) // nil: there is no server
	Close    func() error                            // ends its connections
	Remove   func(ctx context.Context) error         // takes away what it left, after Close
}

// End closes the set and removes what it left.
func (s *Set) End(ctx context.Context) error {
	return errors.Join(s.Close(), s.Remove(context.WithoutCancel(ctx)))
}

func newName() string                   { return "bench-" + strconv.FormatUint(rand.Uint64(), 36) }
func nothing() error                    { return nil }
func nothingLeft(context.Context) error { return nil }

// membits returns the plan as package membits has it.
func (p Plan) membits() membits.Config {
	config := membits.Config{Capacity: p.Keys, FPR: p.FPR}
	if p.NoGrowth {
		config.Growth = membits.GrowthOff
	}
	return config
}

// Memory is package membits.
func Memory() Kind {
	return Kind{Name: "membits", Open: func(_ context.Context, plan Plan) (*Set, error) {
		filter, err := membits.New(plan.membits())
		if err != nil {
			return nil, err
		}
		return ofFilter(filter), nil
	}}
}

// Local is package localstore, in a folder of its own below dir.
func Local(dir string) Kind {
	return Kind{Name: "localstore", Queue: true, Open: func(_ context.Context, plan Plan) (*Set, error) {
		dir, err := os.MkdirTemp(dir, "set-")
		if err != nil {
			return nil, err
		}
		store, err := localstore.Open(localstore.Config{Dir: dir, Delay: localstore.NoDelay, Filter: plan.membits()})
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		set := ofStore(store)
		set.Remove = func(context.Context) error { return os.RemoveAll(dir) }
		return set, nil
	}}
}

// ofFilter returns the set that a filter is.
func ofFilter(filter bloomstore.Filter) *Set {
	return &Set{
		Add: func(ctx context.Context, links Links) ([]bool, error) {
			return filter.AddIfAbsent(ctx, printsOf(links))
		},
		Contains: func(ctx context.Context, links Links) ([]bool, error) { return filter.Contains(ctx, printsOf(links)) },
		Close:    nothing, Remove: nothingLeft,
	}
}

// store is the part of a store that is asked.
type store interface {
	frontier.Store
	frontier.Inspector
	Close() error
}

// ofStore returns the set of what a store has queued. Nothing is fetched from
// it, so what was added stays there: any other state than queued is what the
// store makes of its filter's claim.
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
