package speed

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/internal/bench/sets"
)

// timer makes a call and records its duration.
type timer func(call func() error) error

// work makes call number n, or several calls that belong together, and returns the
// number of processed items.
type work func(ctx context.Context, n uint64, timed timer) (items uint64, err error)

// measured is the result of a workload.
type measured struct {
	items, calls uint64 // numbers of processed items and of calls of work
	took         time.Duration
	server       sets.Used
	waits        []time.Duration
	err          error
}

func (m *measured) rate() float64 { return float64(m.items) / max(m.took.Seconds(), 1e-9) }

// quantile returns the time in ms that the given share of the calls did not exceed.
func (m *measured) quantile(share float64) float64 {
	if len(m.waits) == 0 {
		return 0
	}
	at := min(int(share*float64(len(m.waits))), len(m.waits)-1)
	return float64(m.waits[at].Nanoseconds()) / 1e6
}

// warmCalls is the number of calls that each caller makes before the measurement.
// Afterwards, pools have open connections, and servers know the statements and scripts.
const warmCalls = 3

// measure starts n callers. Each caller first calls the function warm a few times. Then
// the callers call the function job repeatedly. They stop after maxCalls calls in total,
// or when nine tenths of the time span are over. The last tenth is for set-up and
// removal. Each call gets a different number. Even if span is 0, job is called at least
// once, so that there is a result.
func measure(ctx context.Context, set *sets.Set, n int, maxCalls uint64, span time.Duration, warm func(ctx context.Context, call uint64) error, job work) *measured {
	m := new(measured)
	for round := range warmCalls { // all callers call at once, so that each opens a connection
		if err := together(ctx, n, func(ctx context.Context, i int) error { return warm(ctx, uint64(round*n+i)) }); err != nil {
			return &measured{err: err}
		}
	}
	before, err := usedBy(ctx, set)
	if err != nil {
		return &measured{err: err}
	}
	waits := make([][]time.Duration, n)
	var next, items atomic.Uint64
	began := time.Now()
	m.err = together(ctx, n, func(ctx context.Context, i int) error {
		timed := func(call func() error) error {
			start := time.Now()
			err := call()
			waits[i] = append(waits[i], time.Since(start))
			return err
		}
		// The first caller makes at least one call, even if span is 0.
		for first := true; first && i == 0 || time.Since(began) < span-span/10; first = false {
			call := next.Add(1) - 1
			if call >= maxCalls {
				return nil
			}
			done, err := job(ctx, call, timed)
			if err != nil {
				return err
			}
			items.Add(done)
		}
		return nil
	})
	m.took = time.Since(began)
	m.items, m.calls = items.Load(), min(next.Load(), maxCalls)
	m.waits = slices.Concat(waits...)
	slices.Sort(m.waits)
	after, err := usedBy(ctx, set)
	m.err = errors.Join(m.err, err)
	// If the log was rewritten meanwhile, it can be shorter than before.
	m.server = sets.Used{CPU: after.CPU - before.CPU, Wire: after.Wire - before.Wire, Log: max(after.Log-before.Log, 0)}
	return m
}

func together(ctx context.Context, n int, call func(ctx context.Context, i int) error) error {
	group, within := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() error { return call(within, i) })
	}
	return group.Wait()
}

func usedBy(ctx context.Context, set *sets.Set) (sets.Used, error) {
	if set.Used == nil {
		return sets.Used{}, nil
	}
	return set.Used(ctx)
}
