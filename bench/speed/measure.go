package speed

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// timer makes a call and notes how long it took.
type timer func(call func() error) error

// work makes the n-th call, or calls that belong together, and returns how many
// items were done.
type work func(ctx context.Context, n uint64, timed timer) (items uint64, err error)

// measured is what a workload took.
type measured struct {
	items, calls uint64 // that work was called
	took         time.Duration
	own          time.Duration // processor time
	server       *Server       // nil: there is none
	waits        []time.Duration
	err          error
}

func (m *measured) rate() float64 { return float64(m.items) / max(m.took.Seconds(), 1e-9) }

// quantile returns what that share of the calls did not exceed, in ms.
func (m *measured) quantile(share float64) float64 {
	if len(m.waits) == 0 {
		return 0
	}
	at := min(int(share*float64(len(m.waits))), len(m.waits)-1)
	return float64(m.waits[at].Nanoseconds()) / 1e6
}

// measure has n callers do work until it was called most times or the time is
// over: nine tenths of span, so that the rest is left for what stands around it.
// What it returns is complete even then.
func (o *Opened) measure(ctx context.Context, n int, most uint64, span time.Duration, do work) *measured {
	m := new(measured)
	span -= span / 10
	before, err := o.usedNow(ctx)
	if err != nil {
		return &measured{err: err}
	}
	waits := make([][]time.Duration, n)
	var next, items atomic.Uint64
	own, began := ownCPU(), time.Now()
	group, within := errgroup.WithContext(ctx)
	for i := range n {
		group.Go(func() error {
			timed := func(call func() error) error {
				start := time.Now()
				err := call()
				waits[i] = append(waits[i], time.Since(start))
				return err
			}
			// Whatever the time, one call is made: a share of the budget may be nothing.
			for first := true; first && i == 0 || time.Since(began) < span; first = false {
				call := next.Add(1) - 1
				if call >= most {
					return nil
				}
				done, err := do(within, call, timed)
				if err != nil {
					return err
				}
				items.Add(done)
			}
			return nil
		})
	}
	m.err = group.Wait()
	m.took, m.own = time.Since(began), ownCPU()-own
	m.items, m.calls = items.Load(), min(next.Load(), most)
	m.waits = slices.Concat(waits...)
	slices.Sort(m.waits)
	if after, err := o.usedNow(ctx); err != nil {
		m.err = err
	} else if o.Used != nil {
		// A log that was rewritten meanwhile is shorter.
		m.server = &Server{after.CPU - before.CPU, after.Wire - before.Wire, max(after.Log, before.Log) - before.Log}
	}
	return m
}

func (o *Opened) usedNow(ctx context.Context) (Server, error) {
	if o.Used == nil {
		return Server{}, nil
	}
	return o.Used(ctx)
}
