package exact

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Set decides about the exact keys of one crawl, and remembers for each where it
// is: pending (decided to be new, not known to be queued yet), queued, and done
// or failed. Implementations are safe for concurrent use by any number of
// processes. Times are those of the set's own clock. An error that is a
// frontier.ErrUnavailable means that it cannot be asked now and that asking
// again is safe.
type Set interface {
	// Decide answers keys index for index. Of any number of callers racing on
	// one key at most one is told that it is new in a round: it owns the key,
	// which is pending until Queued or Withdraw. Equal keys within one call
	// count as asked in order. A known key costs no write.
	Decide(ctx context.Context, keys []Key) ([]Answer, error)
	// Queued marks pending keys as queued. Keys that are not pending in that
	// round any more are passed over.
	Queued(ctx context.Context, keys []Ref) error
	// Withdraw takes back that pending keys were decided to be new, because the
	// queue refused them: they are forgotten or, in a later round, as finished
	// as they were. Keys that are not pending in that round are passed over.
	Withdraw(ctx context.Context, keys []Ref) error
	// Finish stores what became of keys, and records as rows, in one
	// transaction. The first to finish a key in a round decides: whoever comes
	// later, or repeats himself, changes nothing, neither does a second record
	// of one fingerprint and round. A key of an earlier round than what is
	// finished has been retried: it takes that round. A key that the set does
	// not know is passed over.
	Finish(ctx context.Context, finished []Finished, records []Row) error

	// Stale returns at most n keys that have been pending for age or longer,
	// and claims them: no other caller gets them for that long.
	Stale(ctx context.Context, age time.Duration, n int) ([]Entry, error)
	// Waiting returns the pending and queued keys behind after in the order of
	// their fingerprints, at most n; none: that was all.
	Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) ([]Entry, error)
	// Sweep forgets at most n finished keys whose window is over, and returns
	// how many it was and since when the oldest that is left has been over; 0
	// when none is. It never waits for others' locks.
	Sweep(ctx context.Context, n int) (swept int, lag time.Duration, err error)
	// Lookup says where a key is. The zero Status: the set does not know it.
	Lookup(ctx context.Context, key bloomstore.Fingerprint) (Status, error)
	// Stats counts the keys by state. It reads everything.
	Stats(ctx context.Context) (Stats, error)
}

// Ref names a key in one of its rounds.
type Ref struct {
	Fingerprint bloomstore.Fingerprint
	Round       uint32
}

// Key is a URL that is asked about, with what is needed to queue it later.
type Key struct {
	Fingerprint bloomstore.Fingerprint
	URL         string // canonical
	Class       frontier.Class
	Depth       uint16
	Hops        uint8
	Priority    frontier.Priority
}

// Answer says whether a key is new.
type Answer struct {
	New   bool   // the caller owns it, and queues it
	Round uint32 // in which it is new; of a key that is not, the one it is in
	// First, with New: the set never had the key, so that a filter that claims
	// to know it is wrong, unless it knows it as a bulk key. False for a key
	// whose window is over, and where a key that was swept cannot be told from
	// one that never was there.
	First bool
}

// Entry is a key that waits to be fetched, as the set keeps it.
type Entry struct {
	Key
	Round uint32
	State State // Pending or Queued
}

// Finished says what became of a key.
type Finished struct {
	Ref
	Class   frontier.Class // says how long it counts as seen from now on
	Outcome frontier.Outcome
	Status  int // HTTP status, 0 for none
}

// Row is a record on its way into the set's own table of records.
type Row struct {
	Ref
	URL     string
	Fetched time.Time
	Outcome frontier.Outcome
	Status  int
	Record  []byte // as JSON: see package record
}

// State is where a key is.
type State string

const (
	Unknown State = ""
	Pending State = "pending" // decided to be new; whoever decided it, or a relay, queues it
	Queued  State = "queued"
	Done    State = "done"
	Failed  State = "failed"
)

// Status is what the set knows of one key.
type Status struct {
	State   State
	Class   frontier.Class
	Round   uint32
	Outcome frontier.Outcome
	HTTP    int           // status of the answer, 0 for none
	SeenFor time.Duration // of a finished key: so long it still counts as seen; 0: its window is over
	Forever bool          // it has no window
}

// Stats counts the keys of a set.
type Stats struct {
	Pending uint64        `json:"pending"`
	Queued  uint64        `json:"queued"`
	Done    uint64        `json:"done"`
	Failed  uint64        `json:"failed"`
	Lag     time.Duration `json:"lag"` // since when the oldest key that is over waits to be swept
}
