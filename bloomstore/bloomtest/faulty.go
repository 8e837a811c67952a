package bloomtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Fault is what happens to one call. The zero Fault is none.
type Fault struct {
	Delay time.Duration // the call takes so much longer, or until its context is over
	Err   error         // the call fails with it, wrapped
	// Recorded is, for an AddIfAbsent that fails, how many of its first
	// fingerprints are recorded all the same; as many as there are or more: only
	// the answer is lost.
	Recorded int
}

// Faulty returns filter with the faults that plan gives. plan gets the number of
// the call, from 0, and is called by whoever calls the filter: for concurrent
// callers it must be safe for concurrent use.
func Faulty(filter bloomstore.Filter, plan func(call int) Fault) bloomstore.Filter {
	return &faulty{Filter: filter, plan: plan}
}

type faulty struct {
	bloomstore.Filter
	plan  func(call int) Fault
	calls atomic.Int64
}

func (f *faulty) AddIfAbsent(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	fault, err := f.next(ctx)
	if err == nil {
		return f.Filter.AddIfAbsent(ctx, prints)
	}
	if n := min(fault.Recorded, len(prints)); n > 0 {
		if _, err := f.Filter.AddIfAbsent(ctx, prints[:n]); err != nil {
			return nil, err
		}
	}
	return nil, err
}

func (f *faulty) Contains(ctx context.Context, prints []bloomstore.Fingerprint) ([]bool, error) {
	if _, err := f.next(ctx); err != nil {
		return nil, err
	}
	return f.Filter.Contains(ctx, prints)
}

// next waits for the delay of the next fault and returns its error.
func (f *faulty) next(ctx context.Context) (Fault, error) {
	call := int(f.calls.Add(1) - 1)
	fault := f.plan(call)
	if fault.Delay > 0 {
		timer := time.NewTimer(fault.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return Fault{}, ctx.Err()
		}
	}
	if fault.Err != nil {
		return fault, fmt.Errorf("call %d of a faulty filter: %w", call, fault.Err)
	}
	return fault, nil
}
