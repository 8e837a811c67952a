// Package frontier defines the contract of a URL frontier. A frontier knows
// every URL that was added to a crawl: which ones are still to be fetched, which
// worker has them, and how the others ended.
//
// A frontier answers a new URL with Added exactly once in a round, and queues it
// in the same step. It leases an item to one worker at a time, and leases no host
// before it is due. docs/design/promises.md lists the promises P1 to P8; package
// frontiertest tests every implementation against them.
//
// This package holds interfaces, types and errors. Package localstore
// implements them in a directory, package redisstore in Redis. A frontier does
// not fetch or parse pages. Package politeness decides when a host is due, and
// package canon gives URLs their canonical form.
package frontier

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Store is the part of a frontier that a worker needs. Implementations are
// safe for concurrent use by any number of workers, in one process or many.
//
// Arguments and results hold durations, never times: the store adds them to its
// own clock. A call returns when its effect is visible to every other caller
// and would survive the end of the calling process.
type Store interface {
	// Add answers offers, index for index, and queues those that are new. Of any
	// number of callers racing on one URL at most one is answered Added in a
	// round, and exactly one item is then queued. Equal URLs within one call
	// count as offered in order. On error some of offers may have been added;
	// offering them again is safe and answers Seen for those.
	Add(ctx context.Context, offers []Offer) ([]Verdict, error)

	// Lease leases at most len(request.IDs) due hosts to the caller, each until
	// the caller ends the lease or the lease expires. A call with the same IDs
	// returns the leases that have them already. Lease does not block:
	// Grant.Wait is the time until the next host may become due.
	Lease(ctx context.Context, request LeaseRequest) (Grant, error)

	// Extend restarts the TTL of a lease and adds items until topUp.Items of
	// them are not completed. It returns every item of the lease after the first
	// topUp.Known, so a call that is repeated because its reply was lost returns
	// them again. ErrLeaseLost means that the caller no longer holds the lease
	// and must not start another request under it.
	Extend(ctx context.Context, id LeaseID, topUp TopUp) (Extension, error)

	// Complete reports what became of items of a lease and updates its host. It
	// also adds the links of the completions. All of it takes effect together.
	// After an error, such as ErrLeaseLost, none of it did, except that links may
	// have been added. Complete ignores the completion of an item that the same
	// lease completed before.
	Complete(ctx context.Context, id LeaseID, done []Completion, host HostUpdate) error
}

// Scope is the set of scope keys of the seeds: hosts or domains that the crawl
// may enter, and origins such as "https://example.org" that receive private
// headers. Implementations are safe for concurrent use.
type Scope interface {
	// Admit adds keys; a key cannot be removed. A seed's keys are admitted before
	// the seed is added.
	Admit(ctx context.Context, keys []string) error
	// Admitted reports, index for index, which of keys are in the set.
	Admitted(ctx context.Context, keys []string) ([]bool, error)
}

// Quota limits the number of different keys in a group, such as the hosts of a
// registrable domain. Implementations are safe for concurrent use.
type Quota interface {
	// Reserve adds each of keys to its group, unless the group has most keys
	// already, and reports, index for index, which keys are in their group. A key
	// may occur twice. A key is never removed from its group. Concurrent calls never
	// add more than most keys to a group. After an error some of keys may have
	// been added; a repeated call reports them.
	Reserve(ctx context.Context, keys []QuotaKey, most uint64) ([]bool, error)
	// Reserved reports whether key is in group, and how many keys the group has.
	Reserved(ctx context.Context, group, key string) (has bool, size uint64, err error)
}

// QuotaKey is a key of a group, such as a host of a registrable domain. Neither
// string contains a zero byte.
type QuotaKey struct{ Group, Key string }

// String returns group and key joined by a zero byte. Different keys have
// different strings.
func (k QuotaKey) String() string { return k.Group + "\x00" + k.Key }

// Inspector reads the state of a crawl. Its methods change nothing.
type Inspector interface {
	// Stats returns the counters of one moment.
	Stats(ctx context.Context) (Stats, error)
	// Lookup returns the state of a canonical URL, whose host key is host.
	Lookup(ctx context.Context, host, url string) (Status, error)
	// Audit counts the terms of the books in the structures that hold them,
	// instead of reading the counters. All counts are of one moment. Audit reads
	// the whole crawl.
	Audit(ctx context.Context) (Audit, error)
	// List calls visit for each item of host in state, until visit returns false.
	// An empty host means all hosts. Done items are not listed; the records have
	// them.
	List(ctx context.Context, state State, host string, visit func(Item) bool) error
}

// Control changes a whole crawl.
type Control interface {
	// Pause stops leasing if paused is true, and resumes it otherwise. The setting
	// is stored with the crawl.
	Pause(ctx context.Context, paused bool) error
	// Retry queues the failed items of host again and returns their number. An
	// empty host means all hosts. Each item starts its next round, with no
	// attempts and no deliveries.
	Retry(ctx context.Context, host string) (int, error)
}

// LeaseID identifies a lease. The worker chooses 128 random bits.
type LeaseID [16]byte

// LeaseRequest is a request for hosts.
type LeaseRequest struct {
	Worker   string    // the caller's name in status output
	IDs      []LeaseID // new ids, one for each host that the caller can take
	InFlight int       // how many items of a host the caller requests at once; 0 means 1
	MaxPages uint64    // lease no item that could make Stats.Pages exceed this; 0 means no limit
}

// Grant is the answer to a LeaseRequest.
type Grant struct {
	Leases []Lease
	// Wait is the time until another host may become due. It is 0 if one is due
	// now. An Add can make a host due sooner.
	Wait time.Duration
	// Empty reports that no item is queued, delayed or leased. The crawl is over
	// unless a caller adds to it.
	Empty bool
	// Limited reports that MaxPages prevents further leases. Leased items count
	// towards the limit, even if they later produce no page.
	Limited bool
	// Reached reports that the crawl has MaxPages pages. Limited then stays true.
	Reached bool
	// Paused reports that Control.Pause has stopped leasing.
	Paused bool
}

// Lease gives one worker a host, with some of its items.
type Lease struct {
	ID    LeaseID
	Host  string
	Items []Item        // in the order in which to request them
	TTL   time.Duration // from the moment at which the store granted the lease
	Blob  []byte        // as the last HostUpdate stored it; nil for a new host
}

// TopUp tells Extend how many items to add to a lease.
type TopUp struct {
	Items    int    // the number of uncompleted items to reach, if the host has them; 0 adds none
	Known    int    // how many items the caller has received under this lease
	MaxPages uint64 // as in LeaseRequest
}

// Extension is the answer of Extend.
type Extension struct {
	TTL   time.Duration // from the moment at which the store extended the lease
	Items []Item        // the lease's items after the first TopUp.Known
}

// HostUpdate is what a worker learnt about the host of a lease.
type HostUpdate struct {
	Blob  []byte        // stored for the next lease, at most MaxBlob bytes; nil keeps the old one
	Due   time.Duration // the host is not due before now + Due; 0 means that it is due now
	Delay time.Duration // between the starts of two requests; also waited after a lease that expired
	End   bool          // end the lease; items that are not completed go back to the queue
}

// HostLimits are settings of a store that differ for one host key. A zero field
// means the store's setting for all hosts.
type HostLimits struct {
	Delay      time.Duration
	MaxPerHost uint64 // number of items that may be added
}

// MaxBlob is the largest HostUpdate.Blob in bytes.
const MaxBlob = 24 << 10

// Disposition says what happens to a leased item.
type Disposition uint8

const (
	Finish   Disposition = iota // the item is done or failed, with Completion.Outcome
	Retry                       // it is queued again after Completion.RetryIn, with one more attempt
	GiveBack                    // it returns to its place in the queue, unchanged
)

// Completion reports what became of one leased item.
type Completion struct {
	Item        bloomstore.Fingerprint
	Disposition Disposition
	Outcome     Outcome       // with Finish
	Status      int           // HTTP status; 0 for none
	Page        bool          // with Finish: the answer counts towards MaxPages
	RetryIn     time.Duration // with Retry
	Links       []Offer       // outlinks that the worker's rules accepted
	Refused     []Refusal     // counts of the outlinks that they refused
	// Unconfirmed reports that the exact set was unreachable when the item finished.
	// The store writes a note for the set in the step that completes the item
	// (exact.Outbox).
	Unconfirmed bool
	// Record writes the record of a finished item to the store's Output. The
	// store calls it at most once for a completion, when the verdicts on the links
	// are known and before the completion takes effect. It makes one such call at
	// a time. An error of Record makes Complete fail. Record is optional.
	Record func(links LinkCounts) error
	// Void reverts what Record wrote. It is optional. A store that several workers
	// share has the record on disk before it knows whether the completion takes
	// effect. The store calls Void only if the completion certainly did not
	// (ErrLeaseLost): a superfluous record does no harm, a missing one does. Calls
	// of Record and Void do not overlap.
	Void func() error
	// LinkRefused is called, before Complete returns, for each link that the store
	// itself refuses, with its index in Links. It is optional.
	LinkRefused func(link int, reason Reason)
}

// LinkCounts counts the links of one page: Found = Added + Seen + Refused.
// Deferred links are not counted.
type LinkCounts struct{ Found, Added, Seen, Refused uint64 }

// Count adds a number of links with the same answer to n.
func (n *LinkCounts) Count(answer Answer, links uint64) {
	switch answer {
	case Added:
		n.Added += links
	case Seen:
		n.Seen += links
	case Refused:
		n.Refused += links
	default:
		return
	}
	n.Found += links
}

// Refusal is a number of links that were refused for the same reason.
type Refusal struct {
	Reason Reason
	Count  uint64
}

// Output stores the records of finished items beside a store. The store calls
// it from one goroutine at a time.
type Output interface {
	// Sync makes everything durable that was written since the last call, and
	// returns where the output now ends.
	Sync() (Position, error)
}

// OpenOutput opens the output of a store. The store calls it once, when it has
// locked the crawl or registered as one of its workers. position is the end of
// the output that the store last committed; the output truncates its files to
// it. position is nil if the store commits none. The caller of the store's Open
// closes the output, after the store.
type OpenOutput func(crawl Identity, position Position) (Output, error)

// Identity identifies the crawl of a store.
type Identity struct {
	ID   string // assigned when the crawl was created; never changes
	Card []byte // recreates the crawl on another server; nil if the store cannot
}

// Position is the end of an output: the length of each of its files. Bytes after
// it belong to completions that did not take effect.
type Position []FileLength

// FileLength is the length of one file of an Output.
type FileLength struct {
	File   string `json:"file"`   // name within the output's directory
	Length int64  `json:"length"` // in bytes
}

// Settings are the settings that are fixed when a crawl is created, by flag name:
// those that change identity, scope, politeness or sizes. A store keeps them and
// returns a *SettingsError to a caller whose settings differ.
type Settings map[string]string
