package exact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Breaker is a Set that remembers when the one behind it cannot be asked, and
// spares callers the time that finding out takes: it answers ErrUnavailable at
// once then. Now and then one call goes through to find out. Sweep, Lookup and
// Stats are passed on unchanged. It is safe for concurrent use.
type Breaker struct {
	Set
	pause time.Duration

	mu   sync.Mutex
	away bool
	next time.Time // when a call goes through, while away
}

// NewBreaker returns a Breaker in front of set that lets a call through every
// pause while the set is away; 0 means 2 s.
func NewBreaker(set Set, pause time.Duration) *Breaker {
	return &Breaker{Set: set, pause: cmp.Or(pause, 2*time.Second)}
}

var errAway = fmt.Errorf("exact: the set did not answer a moment ago: %w", frontier.ErrUnavailable)

// Away reports whether the last call that went through found that the set cannot
// be asked.
func (b *Breaker) Away() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.away
}

// try makes a call, unless it is known to fail.
func (b *Breaker) try(call func() error) error {
	if !b.enter() {
		return errAway
	}
	err := call()
	away := errors.Is(err, frontier.ErrUnavailable)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case away:
		b.away, b.next = true, time.Now().Add(b.pause)
	case err == nil:
		b.away = false
	}
	return err
}

// enter reports whether a call may go through.
func (b *Breaker) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.away {
		return true
	}
	now := time.Now()
	if now.Before(b.next) {
		return false
	}
	b.next = now.Add(b.pause)
	return true
}

// Decide implements Set.
func (b *Breaker) Decide(ctx context.Context, keys []Key) (answers []Answer, err error) {
	err = b.try(func() error {
		answers, err = b.Set.Decide(ctx, keys)
		return err
	})
	return answers, err
}

// Queued implements Set.
func (b *Breaker) Queued(ctx context.Context, keys []Ref) error {
	return b.try(func() error { return b.Set.Queued(ctx, keys) })
}

// Withdraw implements Set.
func (b *Breaker) Withdraw(ctx context.Context, keys []Ref) error {
	return b.try(func() error { return b.Set.Withdraw(ctx, keys) })
}

// Finish implements Set.
func (b *Breaker) Finish(ctx context.Context, finished []Finished, records []Row) error {
	return b.try(func() error { return b.Set.Finish(ctx, finished, records) })
}

// Stale implements Set.
func (b *Breaker) Stale(ctx context.Context, age time.Duration, n int) (entries []Entry, err error) {
	err = b.try(func() error {
		entries, err = b.Set.Stale(ctx, age, n)
		return err
	})
	return entries, err
}

// Waiting implements Set.
func (b *Breaker) Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) (entries []Entry, err error) {
	err = b.try(func() error {
		entries, err = b.Set.Waiting(ctx, after, n)
		return err
	})
	return entries, err
}
