package events

import (
	"context"
	"errors"
	"time"
)

// Cursor is a position in one outbox, as printable text without spaces. Only the
// outbox that made it can read it. The empty Cursor is the beginning.
type Cursor string

// Outbox reads the events of a crawl in the order in which they were committed.
// Reading deletes nothing. An Outbox is safe for concurrent use. An error that
// wraps frontier.ErrUnavailable passes; a relay waits and tries again.
type Outbox interface {
	// Read returns at most limit events behind after, in order, and the cursor to
	// go on from. It does not wait: without new events it returns none, and a
	// cursor that may have moved past lines that are no events. A range of the
	// outbox that is missing is a *GoneError.
	Read(ctx context.Context, after Cursor, limit int) (events []Event, next Cursor, err error)
	// Find returns the cursor behind the last event that was committed before t.
	// The zero time means now: the end of the outbox.
	Find(ctx context.Context, t time.Time) (Cursor, error)
	// Lag returns how much of the outbox is behind after.
	Lag(ctx context.Context, after Cursor) (Lag, error)
}

// Lag is how far a relay is behind its crawl.
type Lag struct {
	Events uint64    `json:"events"`
	Bytes  uint64    `json:"bytes"`  // of their records
	Oldest time.Time `json:"oldest"` // Time of the first of them; zero if there is none
	// More says that there are more events than Events: the outbox has not counted
	// all. The next call goes on counting.
	More bool `json:"more,omitempty"`
}

// Waiter is an Outbox that can be told that there may be new events. A relay then
// reads sooner than Config.Poll says.
type Waiter interface {
	// Wait returns when there may be new events, or when ctx ends, never sooner.
	Wait(ctx context.Context)
}

// GoneError reports events that the outbox had and does not have any more.
type GoneError struct {
	Range string // what is missing, such as `pages-000002.jsonl, bytes 0 to 1048576`
}

// Error implements error.
func (e *GoneError) Error() string {
	return "events: " + e.Range + " is missing: bring it back, or begin a relay of another name behind it"
}

// Progress keeps the cursors and the dead letters of named relays, durably. It is
// safe for concurrent use, also by several processes.
type Progress interface {
	// Lock makes the caller the only one that runs the relay of a name, until
	// unlock. It returns ErrLocked while another caller has the lock. The end of
	// a process, also by a kill, ends its locks.
	Lock(ctx context.Context, name string) (unlock func() error, err error)
	// Names returns the names of registered relays, sorted.
	Names(ctx context.Context) ([]string, error)
	// Load returns what is saved of a relay; known is false for a new name.
	Load(ctx context.Context, name string) (saved Saved, known bool, err error)
	// Save moves the cursor of a relay, which it registers if the name is new, and
	// adds letters to its dead letters, in one step.
	Save(ctx context.Context, name string, cursor Cursor, letters []DeadLetter) error
	// Dead returns the dead letters of a relay, oldest first.
	Dead(ctx context.Context, name string) ([]DeadLetter, error)
	// Revise replaces the reasons and times of dead letters, by the ids of their
	// events. It leaves out those that were discarded.
	Revise(ctx context.Context, name string, letters []DeadLetter) error
	// Discard removes dead letters by the ids of their events; none means all. It
	// returns how many it removed. The caller needs no lock.
	Discard(ctx context.Context, name string, ids ...string) (removed int, err error)
}

// ErrLocked reports that another process runs the relay of a name.
var ErrLocked = errors.New("events: another process runs this relay: end it, or choose another name")

// Saved is what a Progress has of a relay.
type Saved struct {
	Cursor Cursor
	Dead   uint64    // dead letters
	At     time.Time // when Cursor was saved, UTC
}

// DeadLetter is an event that a sink refused for good.
type DeadLetter struct {
	Event  Event     `json:"event"`
	Reason string    `json:"reason"` // what the sink said
	At     time.Time `json:"at"`     // when it was refused, UTC
}
