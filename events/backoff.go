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

// patient calls do until it succeeds, ctx ends, or it fails with an error that does not
// wrap frontier.ErrUnavailable. It pauses between the calls.
func patient[T any](ctx context.Context, r *relay, do func() (T, error)) (answer T, err error) {
	for {
		answer, err = do()
		if err == nil {
			r.back()
			return answer, nil
		}
		if !errors.Is(err, frontier.ErrUnavailable) {
			return answer, err
		}
		if err := sleep(ctx, r.awayFrom(err)); err != nil {
			return answer, err
		}
	}
}

// sleep waits for d. It returns the error of ctx if that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
