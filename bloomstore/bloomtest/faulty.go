package bloomtest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Fault is a fault of one call. The zero Fault means that there is none.
type Fault struct {
	Delay time.Duration // the call first waits this long, or until its context ends
	Err   error         // the call returns this error, wrapped
	// Recorded is the number of fingerprints that a failing AddIfAbsent adds before it
	// fails. If the batch has no more fingerprints, all of them are added, and only the
	// answer is lost.
	Recorded int
}

// Faulty returns a filter that passes calls on to filter. The function plan returns the
// fault of a call, given the number of the call, counting from 0. It must be safe for
// concurrent use if the filter is used concurrently.
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

// next asks the plan for the fault of the next call, and waits for the delay of the
// fault. It returns the fault and the error of the call.
func (f *faulty) next(ctx context.Context) (Fault, error) {
	call := int(f.calls.Add(1) - 1)
	fault := f.plan(call)
	if err := suite.Sleep(ctx, fault.Delay); err != nil {
		return Fault{}, err
	}
	if fault.Err != nil {
		return fault, fmt.Errorf("call %d of a faulty filter: %w", call, fault.Err)
	}
	return fault, nil
}
