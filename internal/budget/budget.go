// Package budget divides a number of bytes among the bodies and documents that a process
// holds at once.
//
// It owns the sizes of the shares and the order in which they are served. It allocates no
// memory. The holder of a share decides what the bytes are for, how large a document
// becomes, and what to do without a share.
package budget

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
)

// Budget is a number of bytes. It is safe for concurrent use.
//
// Shares grow after they were taken, so a simple counter could deadlock: two bodies could
// each be half read, with no bytes left for either. Therefore a part of the budget, as large
// as the largest share, is reserved for the oldest share. That share never waits, so it is
// released at some time. After that, the next share is the oldest. The budget is never exceeded.
type Budget struct {
	largest int64
	common  int64 // for all shares except the oldest

	mu      sync.Mutex
	shares  list.List // of *Share, the oldest first
	waiting []*Share  // the shares that wait for bytes, the oldest first
	made    uint64    // number of shares that were made
	taken   int64     // bytes that all shares have
}

// Share is the part of a Budget that one holder has. It is not safe for concurrent use.
type Share struct {
	budget *Budget
	number uint64        // an older share has a smaller number
	place  *list.Element // in budget.shares; nil if the share was released; guarded by budget.mu
	size   int64         // bytes taken; guarded by budget.mu
	wanted int64         // bytes that it waits for; 0 means none; guarded by budget.mu
	given  chan struct{} // has a value when the wanted bytes were given
}

// New returns a budget of total bytes. Each share can have at most largest bytes. New
// panics unless 0 < largest ≤ total. If both are equal, only one share at a time can have
// bytes.
func New(total, largest int64) *Budget {
	if largest <= 0 || largest > total {
		panic(fmt.Sprintf("budget: shares of up to %d bytes of %d", largest, total))
	}
	return &Budget{largest: largest, common: total - largest}
}

// Largest returns how large a share may become.
func (b *Budget) Largest() int64 { return b.largest }

// Taken returns how many bytes all shares have.
func (b *Budget) Taken() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// Take waits until size bytes are free or the share is the oldest, and returns a share of
// size bytes. The caller must release it. If ctx ends first, Take returns its cause. It
// panics if size is negative or larger than Largest.
func (b *Budget) Take(ctx context.Context, size int64) (*Share, error) {
	s := &Share{budget: b, given: make(chan struct{}, 1)}
	s.check(size)
	b.mu.Lock()
	b.made++
	s.number, s.place = b.made, b.shares.PushBack(s)
	b.mu.Unlock()
	if err := s.Grow(ctx, size); err != nil {
		s.Release()
		return nil, err
	}
	return s, nil
}

// Size returns how many bytes the share has.
func (s *Share) Size() int64 {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	return s.size
}

// Grow adds n bytes to the share. It waits until these bytes are free or the share is the
// oldest. If ctx ends first, Grow returns its cause, and the share is unchanged. If n is
// negative, Grow gives bytes back and does not wait. It panics if the share would have less
// than 0 bytes or more than Largest.
func (s *Share) Grow(ctx context.Context, n int64) error {
	if s.TryGrow(n) {
		return nil
	}
	b := s.budget
	b.mu.Lock()
	s.wanted = n
	at, _ := slices.BinarySearchFunc(b.waiting, s, byAge)
	b.waiting = slices.Insert(b.waiting, at, s)
	b.serve() // because another share may have been released meanwhile
	b.mu.Unlock()
	select {
	case <-s.given:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.wanted == 0 { // the bytes were given at the moment when ctx ended
		<-s.given
		return nil
	}
	s.wanted = 0
	if at, found := slices.BinarySearchFunc(b.waiting, s, byAge); found {
		b.waiting = slices.Delete(b.waiting, at, at+1)
	}
	return context.Cause(ctx)
}

func byAge(a, b *Share) int { return cmp.Compare(a.number, b.number) }

// TryGrow adds n bytes to the share if Grow would not have to wait, and reports
// whether it added them. It panics as Grow does.
func (s *Share) TryGrow(n int64) (grown bool) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.check(n)
	if !b.grant(s, n) {
		return false
	}
	if n < 0 {
		b.serve()
	}
	return true
}

func (s *Share) check(n int64) {
	if n < -s.size || n > s.budget.largest-s.size {
		panic(fmt.Sprintf("budget: a share of %d bytes wants %d more, the limit is %d", s.size, n, s.budget.largest))
	}
}

// Release gives all bytes back to the budget. The share must not be used afterwards, but
// releasing it again does nothing.
func (s *Share) Release() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.place == nil {
		return
	}
	b.shares.Remove(s.place)
	s.place = nil
	b.taken -= s.size
	s.size = 0
	b.serve()
}

// grant adds n bytes to s in three cases: n is not positive, s is the oldest share, or the part
// of the budget for the other shares has room. It reports whether it has added them. The caller
// must hold mu.
func (b *Budget) grant(s *Share, n int64) bool {
	if n > 0 && s != b.oldest() && n > b.free() {
		return false
	}
	s.size += n
	b.taken += n
	return true
}

func (b *Budget) oldest() *Share { return b.shares.Front().Value.(*Share) }

// free returns how many bytes the shares other than the oldest can still get.
func (b *Budget) free() int64 { return b.common - (b.taken - b.oldest().size) }

// serve gives free bytes to the shares that wait, older ones first. The caller must hold mu.
// A small request may overtake a large one. The large one gets its bytes when its share is
// the oldest, if not before.
func (b *Budget) serve() {
	served := 0
	for _, s := range b.waiting {
		if b.grant(s, s.wanted) {
			s.wanted = 0
			served++
			s.given <- struct{}{}
		} else if b.free() <= 0 {
			break
		}
	}
	if served > 0 {
		b.waiting = slices.DeleteFunc(b.waiting, func(s *Share) bool { return s.wanted == 0 })
	}
}
