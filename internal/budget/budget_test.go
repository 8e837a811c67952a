package budget

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var seed = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of random tests")

// mustTake takes a share that must be available at once.
func mustTake(t *testing.T, b *Budget, size int64) *Share {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s, err := b.Take(ctx, size)
	if err != nil {
		t.Fatalf("Take(%d) with %d taken: %v", size, b.Taken(), err)
	}
	return s
}

func TestOldestNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 40)
		first, second, third := mustTake(t, b, 10), mustTake(t, b, 30), mustTake(t, b, 30)
		if second.TryGrow(1) || third.TryGrow(1) {
			t.Error("a share that is not the oldest grew into the oldest's part")
		}
		if !first.TryGrow(30) || b.Taken() != 100 {
			t.Errorf("the oldest could not grow, or %d bytes are taken, want 100", b.Taken())
		}
		grown := make(chan string, 3)
		go func() { _ = third.Grow(t.Context(), 5); grown <- "third" }()
		synctest.Wait()
		go func() { _ = second.Grow(t.Context(), 10); grown <- "second" }()
		synctest.Wait()
		if len(grown) > 0 {
			t.Errorf("the %s share grew while all bytes were taken", <-grown)
		}
		first.Release() // second is the oldest now
		synctest.Wait()
		if got := <-grown + " " + <-grown; got != "second third" && got != "third second" {
			t.Errorf("shares that grew: %q, want second and third", got)
		}
		if b.Taken() != 75 || second.Size() != 40 || third.Size() != 35 {
			t.Errorf("%d bytes taken, second has %d, third has %d, want 75, 40 and 35",
				b.Taken(), second.Size(), third.Size())
		}
		second.Release()
		third.Release()
		third.Release()
		if b.Taken() != 0 {
			t.Errorf("%d bytes taken after all were released, want 0", b.Taken())
		}
	})
}

// TestReleaseServesWaitingShares: bytes that a share gives back go to the shares that wait,
// whether the share is released or continues.
func TestReleaseServesWaitingShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(100, 50)
		first, second, small, large := mustTake(t, b, 1), mustTake(t, b, 30), mustTake(t, b, 1), mustTake(t, b, 19)
		done := make(chan *Share)
		go func() { s, _ := b.Take(t.Context(), 20); done <- s }()
		synctest.Wait()
		large.Release()
		synctest.Wait()
		select {
		case <-done:
			t.Error("20 bytes were taken while only 19 were free")
		default:
		}
		if !small.TryGrow(-1) {
			t.Error("a share could not give a byte back")
		}
		third := <-done
		small.Release()
		for _, s := range []*Share{third, first, second} {
			s.Release()
		}
		if b.Taken() != 0 {
			t.Errorf("%d bytes taken after all were released, want 0", b.Taken())
		}
	})
}

func TestWaitEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(10, 10)
		first := mustTake(t, b, 1)
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		if _, err := b.Take(ctx, 1); !errors.Is(err, cause) {
			t.Errorf("Take: %v, want %v", err, cause)
		}
		if b.Taken() != 1 || b.shares.Len() != 1 {
			t.Errorf("%d bytes taken by %d shares, want 1 by 1", b.Taken(), b.shares.Len())
		}
		first.Release()
		mustTake(t, b, 10).Release()
	})
}

func TestMisusePanics(t *testing.T) {
	b := New(10, 4)
	s := mustTake(t, b, 2)
	for name, wrong := range map[string]func(){
		"largest beyond total": func() { New(1, 2) },
		"no largest":           func() { New(1, 0) },
		"too large":            func() { _, _ = b.Take(t.Context(), 5) },
		"less than nothing":    func() { s.TryGrow(-3) },
		"grown too large":      func() { _ = s.Grow(t.Context(), 3) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			wrong()
		}()
	}
	s.Release()
	if b.Taken() != 0 || b.shares.Len() != 0 {
		t.Errorf("after the panics: %d bytes taken by %d shares, want 0 by 0", b.Taken(), b.shares.Len())
	}
}

// TestManyHolders lets many bodies grow in random steps to random sizes and then take
// memory for a document, with contexts that end. All of them must finish, and the budget
// must not be exceeded.
func TestManyHolders(t *testing.T) {
	t.Logf("replay with -seed=%d", *seed)
	synctest.Test(t, func(t *testing.T) { // fails if all holders wait for each other
		const total, largest = 1000, 300
		b := New(total, largest)
		var all sync.WaitGroup
		for holder := range 64 {
			dice := rand.New(rand.NewPCG(*seed, uint64(holder)))
			all.Go(func() {
				for range 100 {
					simulateBody(t, b, dice)
					if taken := b.Taken(); taken < 0 || taken > total {
						t.Errorf("%d bytes taken, want 0 to %d", taken, total)
					}
				}
			})
		}
		all.Wait()
		if b.Taken() != 0 || b.shares.Len() != 0 {
			t.Errorf("at the end: %d bytes taken by %d shares, want 0 by 0", b.Taken(), b.shares.Len())
		}
	})
}

// simulateBody simulates one body, from its first byte to its document.
func simulateBody(t *testing.T, b *Budget, dice *rand.Rand) {
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if dice.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(dice.IntN(50))*time.Millisecond)
	}
	defer cancel()
	s, err := b.Take(ctx, 1+dice.Int64N(20))
	if err != nil {
		return
	}
	defer s.Release()
	for range dice.IntN(5) {
		time.Sleep(time.Duration(dice.IntN(10)) * time.Millisecond)
		if s.Grow(ctx, dice.Int64N(b.Largest()-s.Size()+1)/2) != nil {
			return
		}
	}
	if rest := b.Largest() - s.Size(); s.TryGrow(rest) {
		time.Sleep(time.Millisecond)
	} else {
		_ = s.Grow(ctx, rest)
	}
}

// BenchmarkManyShares takes and releases a share while 10,000 others have bytes.
func BenchmarkManyShares(b *testing.B) {
	budget := New(256<<20, 40<<20)
	for range 10_000 {
		_, _ = budget.Take(b.Context(), 1<<10)
	}
	for b.Loop() {
		s, _ := budget.Take(b.Context(), 32<<10)
		s.TryGrow(-16 << 10)
		s.Release()
	}
}

func BenchmarkBudget(b *testing.B) {
	budget := New(256<<20, 40<<20)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s, _ := budget.Take(b.Context(), 32<<10)
			s.TryGrow(256 << 10)
			s.Release()
		}
	})
}

// TestGrowAfterTheEnd lets a share stop waiting. What is released later must not count as an answer to it.
func TestGrowAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(30, 10)
		var shares []*Share
		for range 3 { // the first one is the oldest
			s, err := b.Take(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			shares = append(shares, s)
		}
		late, err := b.Take(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			ended, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := late.Grow(ended, 10); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("Grow without free bytes = %v, want a time-out", err)
			}
			cancel()
			shares[2].TryGrow(-1)
			if got := late.Size(); got != 0 {
				t.Fatalf("a share that waits no more has %d bytes, want 0", got)
			}
		}
		shares[2].Release()
		if err := late.Grow(t.Context(), 10); err != nil || late.Size() != 10 {
			t.Fatalf("Grow = %v, and the share has %d bytes; want 10", err, late.Size())
		}
	})
}
