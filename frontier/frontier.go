// Package frontier is the contract of a URL frontier: what is still to be
// fetched, by whom, and what became of everything that was ever offered.
//
// A frontier answers a never-seen URL with Added exactly once in a round,
// queues it in the same step, hands it to one worker at a time, and never asks
// for a host before it is due. Its promises, P1 to P8, are in ARCHITECTURE.md;
// package frontiertest holds every implementation to them. This package has
// the words and no engine: localstore is the embedded one. It does not fetch,
// does not parse, and decides nothing about politeness (package politeness) or
// the form of a URL (package canon).
package frontier

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Store is the part of a frontier that a worker needs. Implementations are
// safe for concurrent use by any number of workers, in one process or many.
//
// Durations travel, never times: the store adds its own clock. An answer is
// given when what it says has taken effect for every other caller and survives
// the death of the caller.
type Store interface {
	// Add answers offers, index for index, and queues those that are new. Of any
	// number of callers racing on one URL at most one is answered Added in a
	// round, and exactly one item is then queued. Equal URLs within one call
	// count as offered in order. On error some of offers may have been added;
	// offering them again is safe and answers Seen for those.
	Add(ctx context.Context, offers []Offer) ([]Verdict, error)

	// Lease hands out at most len(request.IDs) due hosts, each to this caller
	// alone until it ends the lease or the lease runs out. A repeat with the
	// same IDs returns the leases that already bear them. It never blocks
	// until something is due: Grant.Wait says how long that will be.
	Lease(ctx context.Context, request LeaseRequest) (Grant, error)

	// Extend makes the lease last a full TTL again from now and tops it up to
	// topUp.Items items that are not completed. It returns every item beyond
	// the first topUp.Known ever handed out under this lease, so that a repeat
	// after a lost reply loses none. ErrLeaseLost: the caller holds it no
	// longer and must start no request under it.
	Extend(ctx context.Context, id LeaseID, topUp TopUp) (Extension, error)

	// Complete says what became of items of a lease and what the worker now
	// knows of its host, and adds the links found on the way. All of it takes
	// effect or, with ErrLeaseLost or another error, nothing but links that
	// were added. A completion that this lease already made is passed over.
	Complete(ctx context.Context, id LeaseID, done []Completion, host HostUpdate) error
}

// Scope is the set of scope keys that seeds have opened: hosts or domains, and
// origins such as "https://example.org" that get private headers.
// Implementations are safe for concurrent use.
type Scope interface {
	// Admit opens keys for good. A seed's key is admitted before the seed is added.
	Admit(ctx context.Context, keys []string) error
	// Admitted reports, index for index, which of keys are open.
	Admitted(ctx context.Context, keys []string) ([]bool, error)
}

// Quota bounds how many different keys a group has, such as the hosts of a
// registrable domain. Implementations are safe for concurrent use.
type Quota interface {
	// Claim gives each of keys a place in its group unless most keys of that
	// group have one already, and reports, index for index, which have one. A
	// key may be named twice. A place is permanent; racing callers never give
	// away more than most places of a group. After an error some of keys may
	// have got a place: a repeat finds it.
	Claim(ctx context.Context, keys []QuotaKey, most uint64) ([]bool, error)
	// Claimed reports whether key has a place in group, and how many have.
	Claimed(ctx context.Context, group, key string) (has bool, taken uint64, err error)
}

// QuotaKey is a key of a group, such as a host of a registrable domain. Neither
// has a zero byte.
type QuotaKey struct{ Group, Key string }

// String returns group and key as one string, which no other QuotaKey has.
func (k QuotaKey) String() string { return k.Group + "\x00" + k.Key }

// Inspector answers questions about a crawl and changes nothing.
type Inspector interface {
	// Stats returns the counters as of one moment.
	Stats(ctx context.Context) (Stats, error)
	// Lookup says where a canonical URL of host is now.
	Lookup(ctx context.Context, host, url string) (Status, error)
	// Audit counts the terms of the books from the structures that hold them,
	// not from the counters, as of one moment. It reads everything.
	Audit(ctx context.Context) (Audit, error)
	// List calls visit for each item in state, of host (of all hosts when it
	// is empty), until visit returns false. Done URLs are not listed: the
	// records have them.
	List(ctx context.Context, state State, host string, visit func(Item) bool) error
}

// Control changes a whole crawl.
type Control interface {
	// Pause stops handing out leases, or resumes; it outlives a restart.
	Pause(ctx context.Context, paused bool) error
	// Retry offers the failed items of host (of all hosts when it is empty)
	// again, in the next round and with no attempts used, and returns how many.
	Retry(ctx context.Context, host string) (int, error)
}

// LeaseID names a lease: 128 random bits made by the worker, compared for
// equality only.
type LeaseID [16]byte

// LeaseRequest asks for hosts to work on.
type LeaseRequest struct {
	Worker   string    // names the caller in status output
	IDs      []LeaseID // fresh ids, one for each host that the caller can take
	InFlight int       // items of one host that the caller works on at once; 0 means 1
	MaxPages uint64    // hand out no item that could make the crawl's pages exceed this; 0: no limit
}

// Grant is the answer to a LeaseRequest.
type Grant struct {
	Leases []Lease
	// Wait is how long until another host may be due, as far as the store
	// knows; an Add can make one due sooner. It is 0 when more is due now.
	Wait time.Duration
	// Empty: nothing is queued, delayed or leased: the crawl is over unless
	// somebody adds to it.
	Empty bool
	// Limited: MaxPages keeps the store from handing out more. What is leased
	// counts, and may come back without a page.
	Limited bool
	// Reached: the crawl has MaxPages pages, so that Limited is for good.
	Reached bool
	// Paused: Control.Pause does.
	Paused bool
}

// Lease is a host key handed to one worker, with some of its items.
type Lease struct {
	ID    LeaseID
	Host  string
	Items []Item        // to be worked on in this order
	TTL   time.Duration // runs from the moment of granting
	Blob  []byte        // what the last HostUpdate left; nil for a new host
}

// TopUp says what Extend should add to a lease.
type TopUp struct {
	Items    int    // so many uncompleted items, as far as the host has them; 0 adds none
	Known    int    // items that the caller received under this lease so far
	MaxPages uint64 // as in LeaseRequest
}

// Extension is the answer of Extend.
type Extension struct {
	TTL   time.Duration // from the moment of granting
	Items []Item        // those beyond TopUp.Known
}

// HostUpdate is what a worker learnt of a lease's host.
type HostUpdate struct {
	Blob  []byte        // kept for the next lease, at most MaxBlob bytes; nil leaves the old one
	Due   time.Duration // the host is not due before now + Due; 0: at once
	Delay time.Duration // the host's delay between two starts: sizes batches, and is waited after a lease that ran out
	End   bool          // the lease ends; what it holds and was not completed goes back
}

// MaxBlob is the largest HostUpdate.Blob in bytes.
const MaxBlob = 24 << 10

// Disposition says what is to become of a leased item.
type Disposition uint8

const (
	Finish   Disposition = iota // the item reached Completion.Outcome: done or failed
	Retry                       // queued again after Completion.RetryIn, one attempt used
	GiveBack                    // goes back to its place, nothing used
)

// Completion says what became of one leased item.
type Completion struct {
	Item        bloomstore.Fingerprint
	Disposition Disposition
	Outcome     Outcome       // with Finish
	Status      int           // HTTP status, 0 for none
	Page        bool          // an answer that counts against MaxPages; with Finish
	RetryIn     time.Duration // with Retry
	Links       []Offer       // outlinks that the worker's own rules let pass
	Refused     []Refusal     // outlinks that they did not
	// Untold: the exact set could not be told that the item is finished. The
	// outbox gets a Note of it in the step that completes it.
	Untold bool
	// Record, unless nil, writes the record of a finished item to the store's
	// Output. The store calls it at most once for a completion, one at a time
	// with all other records, after the links' verdicts are known and before
	// the completion takes effect. An error fails the completion.
	Record func(links LinkCounts) error
	// Void, unless nil, takes back what Record wrote. A store that many workers
	// share has the record on disk before it asks whether the completion takes
	// effect: when it is certain that it did not (ErrLeaseLost), the store calls
	// Void, one at a time with all records. While it is in doubt it does not: a
	// record too many does no harm, one that is missing does.
	Void func() error
	// LinkRefused, unless nil, is called for each of Links, by its index, that
	// the store itself refuses, before Complete returns.
	LinkRefused func(link int, reason Reason)
}

// LinkCounts are the books of one page: Found = Added + Seen + Refused. Links
// that are Deferred are in none of them.
type LinkCounts struct{ Found, Added, Seen, Refused uint64 }

// Refusal counts links that were refused for one reason.
type Refusal struct {
	Reason Reason
	Count  uint64
}

// Output keeps the records of finished items beside a store. The store calls
// it from one goroutine at a time.
type Output interface {
	// Sync makes everything durable that was written since the last call, and
	// returns where the output ends now.
	Sync() (Position, error)
}

// OpenOutput opens the output that belongs to a store, which calls it once: after
// it has the crawl to itself, or is one of its workers, and knows which crawl it
// is. position is the end that the store committed, to which the output is cut;
// it is nil in a store that commits none. The caller of the store's Open closes
// the output, after the store.
type OpenOutput func(crawl Identity, position Position) (Output, error)

// Identity says which crawl a store has.
type Identity struct {
	ID   string // given when the crawl was created, for good
	Card []byte // what creates the crawl again in another server; nil: that cannot be done
}

// Position is where an output ends: the length of each of its files. Bytes
// beyond it belong to completions that never took effect.
type Position []FileLength

// FileLength is one file of a Position, by its name within the output's directory.
type FileLength struct {
	File   string `json:"file"`
	Length int64  `json:"length"`
}

// Settings are what was fixed when a crawl was created, by flag name: whatever
// changes identity, scope, politeness or sizes. A store keeps them and refuses
// a caller whose settings differ with a *SettingsError.
type Settings map[string]string
