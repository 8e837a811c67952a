// Package delivery passes one delivery of an event to an inbox, and returns the outcome
// that is reported to the broker. The adapters for NATS, Kafka and webhooks share this
// package.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// Outcome is the outcome of a delivery.
type Outcome int

const (
	Handled     Outcome = iota + 1 // the event was handled or stored, now or before, so the broker can drop it
	Failed                         // the handler failed, and a later attempt might succeed
	Final                          // the event is a dead letter now
	Unavailable                    // the inbox failed before the handler ran, or could not store the event
)

// Target handles or stores the events of deliveries.
type Target struct {
	Inbox    *inbox.Inbox
	Handle   inbox.Handler // nil means that events are stored
	Timeout  time.Duration // the timeout of one attempt
	Attempts int           // the number of attempts of an event; 0 means no limit
}

// Deliver makes an attempt with an event. The event becomes a dead letter in three cases:
// its last attempt has failed, no further attempt can succeed, or unreadable is not nil.
// The argument unreadable says why the message is not a valid event. The argument messageID
// becomes the id of the dead letter if the event has no valid id. The error is nil if the
// outcome is Handled.
func (t Target) Deliver(ctx context.Context, e inbox.Event, unreadable error, messageID string, attempt int) (Outcome, error) {
	outcome, err := Final, unreadable
	switch limited := t.Attempts > 0; {
	case unreadable != nil:
	case limited && attempt > t.Attempts: // the last attempt has no known result, for example because the process ended
		err = fmt.Errorf("inbox: the last of %d attempts has no known result", t.Attempts)
	default:
		if outcome, err = t.try(ctx, e); outcome == Failed && limited && attempt == t.Attempts {
			outcome = Final
		}
	}
	if outcome == Final {
		e.Attempt = attempt
		if lost := t.bury(ctx, e, messageID, err); lost != nil {
			return Unavailable, fmt.Errorf("%w; it could not become a dead letter: %w", err, lost)
		}
	}
	return outcome, err
}

// try makes one attempt.
func (t Target) try(ctx context.Context, e inbox.Event) (Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	ran := false
	var err error
	if t.Handle == nil {
		_, err = t.Inbox.Store(ctx, e)
	} else {
		_, err = t.Inbox.OnceEvent(ctx, e, func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
			ran = true
			return t.Handle(ctx, tx, e)
		})
	}
	switch {
	case err == nil:
		return Handled, nil
	case errors.Is(err, inbox.ErrPermanent), errors.Is(err, inbox.ErrInvalid):
		return Final, err
	case ran:
		return Failed, err
	}
	return Unavailable, err
}

// bury makes a dead letter from an event, or from a message that is not a valid event.
func (t Target) bury(ctx context.Context, e inbox.Event, messageID string, reason error) error {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	_, err := t.Inbox.Bury(ctx, e, reason)
	if errors.Is(err, inbox.ErrInvalid) {
		_, err = t.Inbox.Bury(ctx, inbox.Event{ID: messageID, Type: "invalid", Data: e.Data, Attempt: e.Attempt}, reason)
	}
	return err
}

// Check checks the settings that all adapters have. The error names all faults.
func Check(box *inbox.Inbox, numbers map[string]int64) error {
	var errs []error
	if box == nil {
		errs = append(errs, errors.New("inbox: Config.Inbox is nil"))
	}
	for name, number := range numbers {
		if number < 0 {
			errs = append(errs, fmt.Errorf("inbox: Config.%s is negative, want 0 or more", name))
		}
	}
	return errors.Join(errs...)
}

// Backoff returns the pause after an attempt. The argument pause is the pause after the first
// attempt. It doubles with each further attempt, up to a minute. A pause that is already
// longer than a minute does not grow.
func Backoff(pause time.Duration, attempt int) time.Duration {
	longest := max(pause, time.Minute)
	for ; attempt > 1 && pause < longest; attempt-- {
		pause *= 2
	}
	return min(pause, longest)
}

// Sleep returns after d, or when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
