package exact

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Set decides about the exact keys of one crawl, and stores the state of each. A new key is
// pending. Later it is queued, and then done or failed. Implementations are safe for concurrent
// use by any number of processes. They use their own clock. A method returns
// frontier.ErrUnavailable while the set is away, which means that it does not answer. The caller
// can repeat the call later.
type Set interface {
	// Decide returns one answer for each key, in the same order. If several callers ask about
	// one key, at most one of them gets an Answer with New in a round. That caller owns the
	// key, which is pending until Queued or Withdraw. Equal keys within one call are decided
	// one after the other. A known key costs no write. A caller with the Line of a pending key
	// owns it again, and gets the Answer of the call that made it pending.
	Decide(ctx context.Context, keys []Key) ([]Answer, error)
	// Queued marks pending keys as queued. It ignores keys that are not pending in the given
	// round.
	Queued(ctx context.Context, keys []Ref) error
	// Withdraw is for pending keys that the queue refused. A key that was finished in an
	// earlier round goes back to that finished state. Other keys are deleted. Withdraw ignores
	// keys that are not pending in the given round.
	Withdraw(ctx context.Context, keys []Ref) error
	// Finish stores how keys ended, and adds the given records, in one transaction. Only
	// the first call that finishes a key in a round takes effect. A second record of one
	// fingerprint and round is ignored. If the round is later than the key's round, the key
	// has been retried, and gets the later round. Unknown keys are ignored.
	Finish(ctx context.Context, finished []Finished, records []Row) error

	// Stale returns at most n keys that have been pending for at least the duration age. Later
	// calls treat a returned key as if it had become pending at the time of this call.
	Stale(ctx context.Context, age time.Duration, n int) ([]Entry, error)
	// Waiting returns at most n pending and queued keys, sorted by fingerprint. It returns only
	// keys whose fingerprints are greater than the argument after. If it returns none, there
	// are no more.
	Waiting(ctx context.Context, after bloomstore.Fingerprint, n int) ([]Entry, error)
	// Sweep deletes at most n finished keys whose window is over, and returns their number.
	// Afterwards the first round of an unknown key is at least two rounds after the round of
	// each deleted key, because Client.Retry can be one round ahead of the set. The result lag is the longest time for which a remaining key has been expired, or 0
	// if there is no such key. Sweep skips keys that are locked. It can wait for a lock only in
	// one case: while Sweep runs, another call commits a change of a key, and then a further
	// call locks that key.
	Sweep(ctx context.Context, n int) (swept int, lag time.Duration, err error)
	// Lookup returns the state of a key, or the zero Status if the set does not have it.
	Lookup(ctx context.Context, key bloomstore.Fingerprint) (Status, error)
	// Stats counts the keys by state. It reads all keys.
	Stats(ctx context.Context) (Stats, error)
}

// Ref names a key in one of its rounds.
type Ref struct {
	Fingerprint bloomstore.Fingerprint
	Round       uint32
}

// Key is a URL to decide about, with the fields that are needed to queue it later.
type Key struct {
	Fingerprint bloomstore.Fingerprint
	URL         string // canonical
	Class       frontier.Class
	Depth       uint16
	Hops        uint8
	Priority    frontier.Priority
	Line        string // names a line of a submission: see NewLine; empty if the key is not of one
}

// Answer says whether a key is new.
type Answer struct {
	New   bool   // the caller owns the key, and must queue it
	Round uint32 // the round in which the key is new, or the current round of a known key
	// First, with New, means that the set never had the key. If the filter claims to contain
	// such a key, that is a false positive, unless the key was added as a bulk key. First is
	// false for a key whose window is over, and for a key that might have been swept.
	First bool
}

// Entry is a key that waits to be fetched.
type Entry struct {
	Key
	Round uint32
	State State // Pending or Queued
}

// Finished is how a key ended.
type Finished struct {
	Ref
	Class   frontier.Class // the window of this class says how long the key counts as seen from now on
	Outcome frontier.Outcome
	Status  int // HTTP status, 0 for none
}

// Row is a record for the set's own table of records.
type Row struct {
	Ref
	URL     string
	Fetched time.Time
	Outcome frontier.Outcome
	Status  int
	Record  []byte // as JSON: see package record
	// Links are the links that were found with the record, as lines of JSON without line feeds: see record.PageLinks.
	// The set stores them if and only if it stores the record.
	Links [][]byte
}

// State is the state of a key.
type State string

const (
	Unknown State = ""
	Pending State = "pending" // decided to be new; the caller of Decide, or a forwarder, queues it
	Queued  State = "queued"
	Done    State = "done"
	Failed  State = "failed"
)

// Status is the state of one key.
type Status struct {
	State   State
	Class   frontier.Class
	Round   uint32
	Outcome frontier.Outcome
	HTTP    int           // status of the answer, 0 for none
	SeenFor time.Duration // how long a finished key still counts as seen; 0 means that its window is over
	Forever bool          // the finished key has no window
}

// Stats counts the keys of a set.
type Stats struct {
	Pending uint64        `json:"pending"`
	Queued  uint64        `json:"queued"`
	Done    uint64        `json:"done"`
	Failed  uint64        `json:"failed"`
	Due     uint64        `json:"due"` // finished keys that Sweep has to delete
	Lag     time.Duration `json:"lag"` // the longest time for which a key has been expired and not swept
}
