package events

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// backoff grows a pause from one failure to the next. The zero value is ready.
type backoff struct{ last time.Duration }

// next returns how long to wait: twice the last time, up to longestPause, less a
// random part of at most a quarter.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstPause), longestPause)
	return b.last - rand.N(b.last/4)
}

// patient calls do, a call of the outbox or the progress, until it succeeds, ctx ends, or it
// fails with an error that does not wrap frontier.ErrUnavailable.
func (r *relay) patient(ctx context.Context, do func() error) error {
	return r.repeat(ctx, func(err error) bool { return !errors.Is(err, frontier.ErrUnavailable) }, do)
}

// repeat calls do until it succeeds, ctx ends, or it fails with an error that is final. It
// pauses between the calls.
func (r *relay) repeat(ctx context.Context, final func(error) bool, do func() error) error {
	for {
		err := do()
		if err == nil {
			r.back()
			return nil
		}
		if final(err) {
			return err
		}
		if ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(r.awayFrom(err)):
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
