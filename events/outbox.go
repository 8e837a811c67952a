package events

import (
	"context"
	"time"
)

// Cursor is a position in one outbox, as printable text without spaces. Its form depends on
// the outbox, and no other outbox can read it. The empty Cursor is the beginning.
type Cursor string

// Outbox reads the events of a crawl in the order in which they were committed.
// Reading deletes nothing. An Outbox is safe for concurrent use. An error that wraps
// frontier.ErrUnavailable is temporary. After such an error, a relay waits and tries again.
type Outbox interface {
	// Read returns at most limit events that follow a cursor, in order, and the cursor for
	// the next Read. It does not wait for events. If there are no new events, it returns
	// none. Even then the returned cursor can differ from the given one, because Read moves
	// the cursor past lines that are not events. It returns a *GoneError if a part of the
	// outbox is missing.
	Read(ctx context.Context, after Cursor, limit int) (events []Event, next Cursor, err error)
	// Find returns the cursor after the last event that was committed before t. If t is
	// zero, Find returns the end of the outbox.
	Find(ctx context.Context, t time.Time) (Cursor, error)
	// Lag returns how many events follow a cursor.
	Lag(ctx context.Context, after Cursor) (Lag, error)
}

// Lag is how far a relay is behind its crawl.
type Lag struct {
	Events uint64    `json:"events"`
	Bytes  uint64    `json:"bytes"`  // total size of the records of these events
	Oldest time.Time `json:"oldest"` // Event.Time of the first event; zero if there are none
	// More reports that Events is too low, because the outbox has not counted all events
	// yet. The next call of Lag continues to count.
	More bool `json:"more,omitempty"`
}

// Waiter is an Outbox that can wait for new events, so that a relay reads them before
// Config.Poll is over.
type Waiter interface {
	// Wait waits until there are probably new events, or until ctx ends.
	Wait(ctx context.Context)
}

// GoneError reports that events which the outbox once had are missing.
type GoneError struct {
	Range string // what is missing, such as `pages-000002.jsonl, bytes 0 to 1048576`
}

// Error implements error.
func (e *GoneError) Error() string {
	return "events: " + e.Range + " is missing: bring it back, or begin a relay of another name behind it"
}

// Progress stores the cursors and the dead letters of named relays durably. It is safe for
// concurrent use, also by several processes.
type Progress interface {
	// Acquire gives the caller the right to run a relay, so that only one caller runs it. It
	// returns an error that wraps ErrLocked while another caller has the right. If the process
	// of the other caller was killed, Acquire may wait some seconds before it succeeds.
	Acquire(ctx context.Context, name string) (Hold, error)
	// Names returns the names of registered relays, sorted.
	Names(ctx context.Context) ([]string, error)
	// Load returns the saved state of a relay. The second result is false if the name is
	// new.
	Load(ctx context.Context, name string) (saved Saved, known bool, err error)
	// Dead returns the dead letters of a relay, oldest first.
	Dead(ctx context.Context, name string) ([]DeadLetter, error)
	// Revise changes stored dead letters. Each of them gets the Reason, At and Resend of the given
	// letter with the same event id. Given letters that are no longer stored are ignored.
	Revise(ctx context.Context, name string, letters []DeadLetter) error
	// Discard removes the dead letters of the events with the given ids, or all dead
	// letters if no ids are given. It returns the number of removed letters. The caller
	// needs no lock.
	Discard(ctx context.Context, name string, ids ...string) (removed int, err error)
	// Resend marks the dead letters of the events with the given ids, or all dead letters if no ids are given, so that the
	// relay sends them again: at once if it runs, and otherwise when it runs next. It returns the number of marked letters.
	// Revise changes the mark of a letter. The caller needs no lock.
	Resend(ctx context.Context, name string, ids ...string) (marked int, err error)
}

// Saved is the state of a relay in a Progress.
type Saved struct {
	Cursor Cursor
	Dead   uint64    // dead letters
	Resend uint64    // dead letters that Progress.Resend has marked
	At     time.Time // when Cursor was saved, UTC
}

// DeadLetter is an event that a sink refused for good.
type DeadLetter struct {
	Event  Event     `json:"event"`
	Reason string    `json:"reason"`           // RefusedError.Reason of the sink
	At     time.Time `json:"at"`               // when the event was refused, UTC
	Resend bool      `json:"resend,omitempty"` // see Progress.Resend
}
