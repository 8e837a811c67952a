package events

import (
	"context"
	"fmt"
	"time"
)

// Sink delivers events to one receiver. It is safe for concurrent use, so that a relay can
// have several calls of Send under way.
type Sink interface {
	// Send delivers events. It returns when each event was acknowledged or has failed. The
	// result has one error for each event, in the same order. A nil error means that the
	// event was acknowledged. A *RefusedError is final, and the event becomes a dead
	// letter. Every other error means that the sink is away: it cannot accept events now.
	// The relay waits and then sends the event again. An *AwayError can set the length of
	// the pause. If ctx ends, the error of each event that was not acknowledged is an
	// *AwayError. A relay never sends two events of one host at the same time, in one call
	// or in several, except for dead letters that it sends again.
	Send(ctx context.Context, events []Event) []error
	// Close releases the resources of the sink. It is not called during a Send.
	Close() error
}

// DuplicatesSink is a Sink whose receiver says which of the acknowledged events it had stored before, by their ids, and so
// did not store again.
type DuplicatesSink interface {
	Sink
	// Duplicates returns the number of these events since the sink was opened. It is safe for concurrent use.
	Duplicates() uint64
}

// WarningSink is a Sink that knows settings of its receiver with which a delivered event can be lost, or be stored twice.
type WarningSink interface {
	Sink
	// Warnings returns a sentence for each of these settings. The argument is the age of the oldest event that is not
	// delivered, if the relay could send events again that it has sent before, and otherwise 0. Warnings is safe for
	// concurrent use, and does not ask the receiver.
	Warnings(behind time.Duration) []string
}

// TransactionalSink commits events and the relay's cursor in one transaction. A relay
// begins at the cursor of the sink, and not at the cursor of its Progress. Several relays
// can use one sink at the same time, each with its own key.
type TransactionalSink interface {
	Sink
	// Committed returns the cursor of the last transaction with the given key. The second
	// result is false if there was no such transaction.
	Committed(ctx context.Context, key string) (cursor Cursor, known bool, err error)
	// Commit delivers events, in order, and stores cursor under key, in one transaction. If
	// it returns an error, the transaction was committed completely or not at all. A
	// *RefusedError is final, as for Send. It means that at least one of the events will
	// never be accepted.
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
	After time.Duration // the pause that the sink asks for; 0 if it asks for none
	Err   error         // the cause
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
