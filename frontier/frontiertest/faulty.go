package frontiertest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Op names a method of frontier.Store.
type Op string

// The methods that a Faulty can make fail.
const (
	OpAdd      Op = "add"
	OpLease    Op = "lease"
	OpExtend   Op = "extend"
	OpComplete Op = "complete"
)

// Fault is what happens to one call. The zero Fault does not change the call.
type Fault struct {
	Err error // returned instead of the store's reply; nil means no error
	// Late decides about the effect of a call with Err. If Late is true, the call takes
	// effect, and only its reply is lost. If Late is false, the call has no effect.
	Late  bool
	Delay time.Duration // time to wait first, at most until the caller's context ends
}

// A Plan returns the fault of one call of op. The argument call is the number of earlier
// calls of the same op. A Faulty does not call its plan concurrently.
type Plan func(op Op, call int) Fault

// Script returns a plan that gives the n-th call of an op the n-th fault in the list of
// that op. Later calls have no fault.
func Script(faults map[Op][]Fault) Plan {
	return func(op Op, call int) Fault {
		if call >= len(faults[op]) {
			return Fault{}
		}
		return faults[op][call]
	}
}

// Random returns a plan that makes a random share of all calls fail. share is in [0, 1].
// The errors are those that a worker must tolerate: ErrUnavailable before or after the
// effect, ErrFull from Add, ErrLeaseLost from Extend and Complete. Each call waits up to
// delay. Plans with equal seeds are equal.
func Random(seed uint64, share float64, delay time.Duration) Plan {
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(op Op, _ int) Fault {
		var f Fault
		if delay > 0 {
			f.Delay = time.Duration(rng.Int64N(int64(delay)))
		}
		if rng.Float64() >= share {
			return f
		}
		f.Err = frontier.ErrUnavailable
		switch rng.IntN(3) {
		case 0:
			f.Late = true
		case 1:
			switch op {
			case OpAdd:
				f.Err = frontier.ErrFull
			case OpExtend, OpComplete:
				f.Err = frontier.ErrLeaseLost
			}
		}
		return f
	}
}

// Faulty is a Crawl whose methods Add, Lease, Extend and Complete fail when its Plan says so.
// It passes all other calls on. It is safe for concurrent use.
type Faulty struct {
	Crawl
	plan Plan

	mu     sync.Mutex
	calls  map[Op]int
	faults int
}

// NewFaulty returns a Faulty that passes calls on to crawl, with the faults of plan.
func NewFaulty(crawl Crawl, plan Plan) *Faulty {
	return &Faulty{Crawl: crawl, plan: plan, calls: map[Op]int{}}
}

// Faults returns how many calls had a fault with an error.
func (f *Faulty) Faults() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faults
}

func (f *Faulty) next(op Op) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := f.plan(op, f.calls[op])
	f.calls[op]++
	if fault.Err != nil {
		f.faults++
	}
	return fault
}

// faulty makes one call of op under f's plan.
func faulty[T any](ctx context.Context, f *Faulty, op Op, call func() (T, error)) (T, error) {
	var none T
	fault := f.next(op)
	if fault.Delay > 0 {
		select {
		case <-time.After(fault.Delay):
		case <-ctx.Done():
			return none, context.Cause(ctx)
		}
	}
	if fault.Err != nil && !fault.Late {
		return none, fault.Err
	}
	reply, err := call()
	if err == nil && fault.Err != nil {
		return none, fault.Err
	}
	return reply, err
}

// Add implements frontier.Store.
func (f *Faulty) Add(ctx context.Context, offers []frontier.Offer) ([]frontier.Verdict, error) {
	return faulty(ctx, f, OpAdd, func() ([]frontier.Verdict, error) { return f.Crawl.Add(ctx, offers) })
}

// Lease implements frontier.Store.
func (f *Faulty) Lease(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
	return faulty(ctx, f, OpLease, func() (frontier.Grant, error) { return f.Crawl.Lease(ctx, request) })
}

// Extend implements frontier.Store.
func (f *Faulty) Extend(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
	return faulty(ctx, f, OpExtend, func() (frontier.Extension, error) { return f.Crawl.Extend(ctx, id, topUp) })
}

// Complete implements frontier.Store.
func (f *Faulty) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	_, err := faulty(ctx, f, OpComplete, func() (struct{}, error) {
		return struct{}{}, f.Crawl.Complete(ctx, id, done, update)
	})
	return err
}
