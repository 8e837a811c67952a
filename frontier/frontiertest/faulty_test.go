package frontiertest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

func TestFaultyFollowsTheScript(t *testing.T) {
	ctx := t.Context()
	full, lost := Fault{Err: frontier.ErrFull}, Fault{Err: frontier.ErrFilterLost}
	faulty := NewFaulty(NewMemory(MemoryConfig{}), Script(map[Op][]Fault{
		OpAdd:      {full, {}, {Err: frontier.ErrUnavailable, Late: true}, lost},
		OpLease:    {{Err: frontier.ErrUnavailable, Late: true}},
		OpExtend:   {{}, {Err: frontier.ErrLeaseLost}},
		OpComplete: {{Err: frontier.ErrUnavailable}, {Err: frontier.ErrUnavailable, Late: true}},
	}))
	wantAdded := func(want uint64) {
		t.Helper()
		if stats, err := faulty.Stats(ctx); err != nil || stats.Added != want {
			t.Fatalf("%d items added (%v), want %d", stats.Added, err, want)
		}
	}
	for i, want := range []struct {
		err   error
		added uint64
	}{{frontier.ErrFull, 0}, {nil, 1}, {frontier.ErrUnavailable, 2}, {frontier.ErrFilterLost, 2}, {nil, 3}} {
		if _, err := faulty.Add(ctx, pages("a.test", i, i+1)); !errors.Is(err, want.err) {
			t.Fatalf("Add, call %d = %v, want %v", i, err, want.err)
		}
		wantAdded(want.added)
	}
	request := frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}}
	if _, err := faulty.Lease(ctx, request); !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatalf("Lease = %v, want ErrUnavailable", err)
	}
	grant, err := faulty.Lease(ctx, request) // returns the lease that was in the lost reply
	if err != nil || len(grant.Leases) != 1 || len(grant.Leases[0].Items) != 3 {
		t.Fatalf("repeated Lease = %+v, %v, want a lease of 3 items", grant, err)
	}
	for _, want := range []error{nil, frontier.ErrLeaseLost, nil} {
		if _, err := faulty.Extend(ctx, request.IDs[0], frontier.TopUp{}); !errors.Is(err, want) {
			t.Fatalf("Extend = %v, want %v", err, want)
		}
	}
	for i, want := range []error{frontier.ErrUnavailable, frontier.ErrUnavailable, nil} {
		done := all(grant.Leases[0].Items, finished)
		if err := faulty.Complete(ctx, request.IDs[0], done, frontier.HostUpdate{End: true}); !errors.Is(err, want) {
			t.Fatalf("Complete = %v, want %v", err, want)
		}
		if stats, err := faulty.Stats(ctx); err != nil || (stats.Done == 3) != (i > 0) {
			t.Fatalf("after Complete, call %d: %d items are done (%v), want 0 after call 0 and then 3", i, stats.Done, err)
		}
	}
	if got := faulty.Faults(); got != 7 {
		t.Errorf("%d faults, want 7", got)
	}
}

func TestFaultyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := NewFaulty(NewMemory(MemoryConfig{}), func(Op, int) Fault { return Fault{Delay: time.Hour} })
		start := time.Now()
		if _, err := faulty.Add(t.Context(), pages("a.test", 0, 1)); err != nil || time.Since(start) != time.Hour {
			t.Errorf("Add returned after %v with error %v, want 1h and none", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := faulty.Add(ctx, pages("a.test", 1, 2)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Add with a deadline = %v, want DeadlineExceeded", err)
		}
		if stats, err := faulty.Stats(ctx); err != nil || stats.Added != 1 {
			t.Errorf("%d items added (%v), want 1", stats.Added, err)
		}
	})
}

// TestRandomFaults: a worker that repeats failed calls crawls everything once.
func TestRandomFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		memory := NewMemory(MemoryConfig{LeaseTTL: time.Minute})
		faulty := NewFaulty(memory, Random(1, 0.3, 100*time.Millisecond))
		until := func(call func() error) error {
			for {
				if err := call(); !errors.Is(err, frontier.ErrUnavailable) && !errors.Is(err, frontier.ErrFull) {
					return err
				}
			}
		}
		const size = 500
		if err := until(func() error { _, err := faulty.Add(ctx, pages("a.test", 0, size)); return err }); err != nil {
			t.Fatal(err)
		}
		for id := uint64(1); ; id++ {
			request := frontier.LeaseRequest{IDs: []frontier.LeaseID{{byte(id), byte(id >> 8)}}}
			var grant frontier.Grant
			if err := until(func() (err error) { grant, err = faulty.Lease(ctx, request); return err }); err != nil {
				t.Fatal(err)
			}
			if grant.Empty {
				break
			}
			if len(grant.Leases) == 0 { // a lease was lost and must expire first
				time.Sleep(grant.Wait)
			}
			for _, l := range grant.Leases {
				err := until(func() error {
					return faulty.Complete(ctx, l.ID, all(l.Items, finished), frontier.HostUpdate{End: true})
				})
				if err != nil && !errors.Is(err, frontier.ErrLeaseLost) {
					t.Fatal(err)
				}
			}
		}
		stats, err := memory.Stats(ctx)
		if err != nil || stats.Done != size || stats.Pages != size {
			t.Errorf("%d done, %d pages (%v), want %d of both", stats.Done, stats.Pages, err, size)
		}
		if faulty.Faults() < 10 {
			t.Errorf("only %d faults, want at least 10", faulty.Faults())
		}
	})
}
