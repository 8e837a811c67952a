package events

import (
	"context"
	"fmt"
	"time"
)

// Sink delivers events to one place. It is safe for concurrent use, so that a
// relay can have several calls of Send under way.
type Sink interface {
	// Send delivers events and returns when each is acknowledged or not. The
	// errors answer them index for index; nil means that all were acknowledged. A
	// *RefusedError is final: the event becomes a dead letter. Every other error
	// means that the sink is away: the relay waits and sends the event again. An
	// *AwayError can say for how long. No two events of one call, and of all calls
	// under way, have the same host.
	Send(ctx context.Context, events []Event) []error
	// Close releases what the sink holds. No Send is under way then.
	Close() error
}

// TransactionalSink commits events and the relay's cursor in one transaction. A
// relay begins at the cursor that the sink has, and not at that of its Progress.
// Several relays may use one sink at the same time, with a key each.
type TransactionalSink interface {
	Sink
	// Committed returns the cursor of the last transaction with a key; known is
	// false if there was none.
	Committed(ctx context.Context, key string) (cursor Cursor, known bool, err error)
	// Commit delivers events, in order, and the cursor of key, or nothing of it. A
	// *RefusedError is final, as for Send: one of events will never be accepted.
	Commit(ctx context.Context, key string, events []Event, cursor Cursor) error
}

// RefusedError reports an event that a sink will never accept.
type RefusedError struct {
	Reason string
}

// Error implements error.
func (e *RefusedError) Error() string { return "refused: " + e.Reason }

// AwayError reports a sink that cannot accept events now.
type AwayError struct {
	After time.Duration // how long the sink asks to be left alone; 0 if it does not say
	Err   error         // why
}

// Error implements error.
func (e *AwayError) Error() string {
	if e.After > 0 {
		return fmt.Sprintf("%v (asks for a pause of %v)", e.Err, e.After)
	}
	return e.Err.Error()
}

// Unwrap returns the cause.
func (e *AwayError) Unwrap() error { return e.Err }
