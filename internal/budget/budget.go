// Package budget shares a number of bytes among the bodies and documents that a
// process holds at once.
//
// It owns who may take how much and who waits. It allocates nothing: what a
// share stands for, how large a document will be, and what to do without one is
// its holder's business.
package budget

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Budget is a number of bytes. It is safe for concurrent use.
//
// Shares grow while others wait for them to end, so plain counting would come to
// a stop: two bodies, each half read, with nothing left for either. Therefore
// the oldest share draws on a part that is set aside for it, as large as any
// share may become. It never waits, ends at some time, and then the next one is
// the oldest. No more than the budget is ever taken.
type Budget struct {
	largest int64
	common  int64 // for all shares but the oldest

	mu     sync.Mutex
	shares []*Share // that hold or wait for bytes, the oldest first
	taken  int64    // by all of them
}

// Share is what one holder has of a Budget. One goroutine at a time may use it.
type Share struct {
	budget *Budget
	size   int64         // bytes taken; budget.mu
	wanted int64         // more; 0: it does not wait; budget.mu
	given  chan struct{} // takes one when what it waits for was given
}

// New returns a budget of total bytes whose shares have up to largest each. It
// panics unless 0 < largest ≤ total. When both are equal there is one share at a
// time.
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

// Take returns a share of size bytes, once there are so many or its turn has
// come. It must be released. The error is ctx's. It panics if size is negative
// or larger than a share may be.
func (b *Budget) Take(ctx context.Context, size int64) (*Share, error) {
	s := &Share{budget: b, given: make(chan struct{}, 1)}
	s.check(size)
	b.mu.Lock()
	b.shares = append(b.shares, s)
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

// Grow takes more bytes, once there are so many or the share is the oldest. On
// error, ctx's, the share is as it was. It panics if more is negative or the
// share would be larger than it may be.
func (s *Share) Grow(ctx context.Context, more int64) error {
	if s.TryGrow(more) {
		return nil
	}
	b := s.budget
	b.mu.Lock()
	s.wanted = more
	b.serve() // a release may have come between
	b.mu.Unlock()
	select {
	case <-s.given:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.wanted == 0 { // given at the last moment
		<-s.given
		return nil
	}
	s.wanted = 0
	return context.Cause(ctx)
}

// TryGrow takes more bytes if they are to be had without waiting, and reports
// whether it did. It panics as Grow does.
func (s *Share) TryGrow(more int64) (grown bool) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.check(more)
	return b.grant(s, more)
}

func (s *Share) check(more int64) {
	if more < 0 || more > s.budget.largest-s.size {
		panic(fmt.Sprintf("budget: a share of %d bytes wants %d more, the limit is %d", s.size, more, s.budget.largest))
	}
}

// Shrink gives back all but size bytes. It panics if the share has fewer.
func (s *Share) Shrink(size int64) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if size < 0 || size > s.size {
		panic(fmt.Sprintf("budget: a share of %d bytes cannot shrink to %d", s.size, size))
	}
	b.taken -= s.size - size
	s.size = size
	b.serve()
}

// Release gives everything back. The share must not be used afterwards, except
// to release it again, which does nothing.
func (s *Share) Release() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.shares, s)
	if i < 0 {
		return
	}
	b.shares = slices.Delete(b.shares, i, i+1)
	b.taken -= s.size
	s.size = 0
	b.serve()
}

// grant gives s more bytes if it is the oldest, or all that are not have room;
// mu is held.
func (b *Budget) grant(s *Share, more int64) bool {
	oldest := b.shares[0]
	if s != oldest && b.taken-oldest.size+more > b.common {
		return false
	}
	s.size += more
	b.taken += more
	return true
}

// serve gives to those who wait, older ones first, what there is; mu is held. A
// small wish is not kept back behind a large one that has to wait longer: that
// one will be the oldest's at last.
func (b *Budget) serve() {
	for _, s := range b.shares {
		if s.wanted > 0 && b.grant(s, s.wanted) {
			s.wanted = 0
			s.given <- struct{}{}
		}
	}
}
