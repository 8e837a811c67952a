package exact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Breaker is a Set that passes calls on to another Set. While the other Set is
// unavailable, Breaker returns frontier.ErrUnavailable at once instead of waiting. Once in
// each pause it lets a call through, to find out whether the other Set is back. It always
// passes on calls of Sweep, Lookup and Stats. It is safe for concurrent use.
type Breaker struct {
	Set
	pause   time.Duration
	circuit *gobreaker.CircuitBreaker[struct{}]
}

// NewBreaker returns a Breaker in front of set. While this Set is away, the Breaker lets
// one call through in each pause. A pause of 0 means 2 s.
func NewBreaker(set Set, pause time.Duration) *Breaker {
	pause = cmp.Or(pause, 2*time.Second)
	return &Breaker{set, pause, gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     pause,
		ReadyToTrip: func(gobreaker.Counts) bool { return true }, // at the first failure
		IsExcluded:  func(err error) bool { return err != nil && !errors.Is(err, frontier.ErrUnavailable) },
	})}
}

var errAway = fmt.Errorf("exact: the set did not answer a moment ago: %w", frontier.ErrUnavailable)

// Away reports whether the last call that reached the set found it unavailable.
func (b *Breaker) Away() bool { return b.circuit.State() != gobreaker.StateClosed }

// Ready returns nil if the set answers, as far as is known. While the set is away, Ready asks it once in
// each pause, and otherwise returns frontier.ErrUnavailable at once.
func (b *Breaker) Ready(ctx context.Context) error {
	if !b.Away() {
		return nil
	}
	_, err := b.Waiting(ctx, bloomstore.Fingerprint{}, 1)
	return err
}

// try makes a call, or returns errAway if the set is away and the breaker lets no call
// through.
func (b *Breaker) try(call func() error) error {
	_, err := b.circuit.Execute(func() (struct{}, error) { return struct{}{}, call() })
	if errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests) {
		return errAway
	}
	return err
}

// ask does the same as try for a call that returns an answer.
func ask[T any](b *Breaker, call func() (T, error)) (answer T, err error) {
	err = b.try(func() error {
		answer, err = call()
		return err
	})
	return answer, err
}

// Decide implements Set.
func (b *Breaker) Decide(ctx context.Context, keys []Key) ([]Answer, error) {
	return ask(b, func() ([]Answer, error) { return b.Set.Decide(ctx, keys) })
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
func (b *Breaker) Stale(ctx context.Context, age time.Duration, n int) ([]Entry, error) {
	return ask(b, func() ([]Entry, error) { return b.Set.Stale(ctx, age, n) })
}

// Waiting implements Set.
func (b *Breaker) Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) ([]Entry, error) {
	return ask(b, func() ([]Entry, error) { return b.Set.Waiting(ctx, after, n) })
}
