// Package frontier defines the contract of a URL frontier. A frontier remembers
// every URL that was added to a crawl. It queues URLs, leases them to workers,
// and stores their outcomes.
//
// A frontier answers a new URL with Added, and queues it in the same step. If several callers
// offer the URL, at most one of them gets this answer in a round. A finished URL can be queued
// again, for example by Control.Retry. This begins the next round of the URL (Item.Round). A
// frontier leases an item to one worker at a time, and leases a host only when the host is
// due. docs/design/promises.md lists the promises P1 to P8; package frontiertest tests every
// implementation against them.
//
// This package holds interfaces, types and errors. Package localstore implements
// the interfaces in a directory, and package redisstore implements them in Redis.
// A frontier does not fetch or parse pages. Package politeness decides when a
// host is due, and package canon gives URLs their canonical form.
package frontier

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Store is the part of a frontier that a worker needs. Implementations are
// safe for concurrent use by any number of workers, in one process or many.
//
// Arguments and results hold durations, never points in time. The store adds a duration
// to the time of its own clock. A call returns when its effect is visible to every
// other caller and survives the end of the calling process.
type Store interface {
	// Add returns one verdict for each offer, in the same order, and queues the new
	// URLs. If several callers offer one URL at once, at most one of them receives
	// Added in a round, and one item is queued. Equal URLs within one call are
	// decided one after the other. After an error, some of the offers might have
	// been added. The caller can repeat the call, and then receives Seen for them.
	Add(ctx context.Context, offers []Offer) ([]Verdict, error)

	// Lease leases at most len(request.IDs) due hosts to the caller, but none that the store's policy
	// pauses (see policy.Policy.HostPaused). A host that was paused is due when it was before.
	//
	// The hosts of a site (policy.Site) get at most the DomainRate of the policy together. A host with a delay has a
	// place in its site from its lease until it is due again, but no longer than that delay after the end of the
	// lease, and makes 1/delay requests per second there. A host is leased only if it and those that have a place
	// make at most the rate that the policy has for it, or none has a place. A host that finds no place waits behind
	// those that wait already, and so does one that has just had a place. It is tried again now and then, the more
	// often the fewer are before it, and within 5 min. A change of the DomainRate counts from the next try on.
	//
	// A lease lasts
	// until the caller ends it or it expires. If one of the IDs already has a lease,
	// Lease returns that lease. Lease does not block: Grant.Wait is the time until
	// the next host can become due.
	Lease(ctx context.Context, request LeaseRequest) (Grant, error)
	// LimitReached reports whether no more requests may start because the crawl has maxPages
	// pages; 0 means no limit. A worker calls it before each request, because a store that several workers
	// share leases more items than maxPages permits. The number of pages can be up to 1 s old,
	// but it includes the pages that were completed through this Store before the call.
	// LimitReached is cheap, and always false, if leased items count towards LeaseRequest.MaxPages.
	LimitReached(ctx context.Context, maxPages uint64) (bool, error)

	// Extend restarts the TTL of a lease. It adds items until the lease has
	// topUp.Items items that are not completed. It returns all items of the lease
	// after the first topUp.Known items. If the reply is lost, the caller can repeat
	// the call and receives the same items. ErrLeaseLost means that the caller does
	// not hold the lease any more. After that, the caller must not start another
	// request under that lease.
	Extend(ctx context.Context, id LeaseID, topUp TopUp) (Extension, error)

	// Complete stores the results of items of a lease, updates the host of the
	// lease, and adds the links of the completions. All of this takes effect
	// together. After an error, such as ErrLeaseLost, none of it took effect, except
	// that some links might have been added. Complete ignores an item that was
	// already completed under the same lease.
	Complete(ctx context.Context, id LeaseID, done []Completion, host HostUpdate) error
}

// Scope is the set of scope keys of the seeds: hosts or domains that the crawl is
// allowed to enter, origins such as "https://example.org" to which headers with secrets
// may be sent, and host keys without a limit (see SeedHost). Implementations are safe for concurrent use.
type Scope interface {
	// Admit adds keys; a key cannot be removed. The caller admits the keys of a seed
	// before it adds the seed.
	Admit(ctx context.Context, keys []string) error
	// Admitted reports, index for index, which elements of keys are in the set.
	Admitted(ctx context.Context, keys []string) ([]bool, error)
}

// SeedHost returns the scope key that says that the host key of a seed is host. If a store limits
// only the items of hosts that no seed has, the limit does not hold for a host whose key was
// admitted.
func SeedHost(host string) string { return "seed " + host }

// Quota limits the number of different keys in a group, such as the hosts of a
// registrable domain. Implementations are safe for concurrent use.
type Quota interface {
	// Reserve adds each key to its group, unless the group already has maxKeys keys. It
	// reports, index for index, which keys are in their group afterwards. A key can
	// occur twice in keys. A key is never removed from its group. The limit also holds
	// for concurrent calls. After an error, some keys might have been added; a repeated
	// call reports true for them.
	Reserve(ctx context.Context, keys []QuotaKey, maxKeys uint64) ([]bool, error)
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
	// Stats returns the counters. Their Books balance, even while workers run.
	Stats(ctx context.Context) (Stats, error)
	// Lookup returns the state of a canonical URL. host is the host key of the URL (see
	// Offer.Host).
	Lookup(ctx context.Context, host, url string) (Status, error)
	// Audit computes the numbers of Books from the queue, the filter and the other
	// structures, not from the counters. All counts of one host are taken at the same
	// moment. Audit reads the whole crawl.
	Audit(ctx context.Context) (Audit, error)
	// List calls visit for each of the host's items in the given state, until
	// visit returns false. An empty host means all hosts. Done items are not listed;
	// the records contain them.
	List(ctx context.Context, state State, host string, visit func(Item) bool) error
	// Hosts calls visit for each host that query selects, until visit returns false. It
	// reads a part of the hosts at a time.
	Hosts(ctx context.Context, query HostQuery, visit func(HostState) bool) error
}

// Control changes a whole crawl.
type Control interface {
	// Pause stops leasing if paused is true, and resumes it otherwise. The setting
	// is stored with the crawl.
	Pause(ctx context.Context, paused bool) error
	// Retry queues the failed items again that the argument selects, and returns their
	// number. Each item starts its next round, with 0 Attempts and 0 Deliveries.
	Retry(ctx context.Context, of Failures) (int, error)
}

// Failures selects failed items. The zero value selects all.
type Failures struct {
	Host    string        `json:"host,omitempty"`    // host key; empty means any
	Outcome Outcome       `json:"outcome,omitempty"` // empty means any
	Within  time.Duration `json:"within,omitempty"`  // the longest time since an item failed, which counts in ms; 0 means any
}

// Select reports whether an item that ended with an outcome some time ago is selected, if its host is.
func (f *Failures) Select(outcome Outcome, ago time.Duration) bool {
	return (f.Outcome == "" || f.Outcome == outcome) && (f.Within == 0 || ago <= f.Within)
}

// Rechecker is a Store that can queue finished items again.
type Rechecker interface {
	// Recheck queues the items that are finished, and whose last round is Finished.Round, for
	// their next round, with 0 Attempts and 0 Deliveries. It returns how many it has queued. All
	// other items stay unchanged. So a call can be repeated, also after a crash in the middle of it:
	// no item is queued twice.
	//
	// A done item that is queued again counts once more in Books.Found and Books.Added, and its earlier round stays
	// in Books.Done. A failed item moves from Books.Failed to Books.Queued, as by Control.Retry. The HostUpdate.Blob of the
	// host is forgotten if the item has failed, or its outcome is one that the host decided (Outcome.ByHost).
	Recheck(ctx context.Context, items []Finished) (queued int, err error)
}

// Finished is a finished item, as its record describes it.
type Finished struct {
	Offer
	Round uint32 // of the item's last record
}

// LeaseID identifies a lease. The worker chooses 128 random bits.
type LeaseID [16]byte

// LeaseRequest is a request for hosts.
type LeaseRequest struct {
	Worker   string    // the caller's name in status output
	IDs      []LeaseID // new ids, one for each host that the caller wants
	InFlight int       // how many requests the caller sends to one host at the same time; 0 means 1
	// Hosts are host keys, one for each of the IDs. If they are set, only these hosts are leased, also while they are
	// not due or the crawl is paused. The caller makes no request to them, and sets HostUpdate.Keep.
	Hosts    []string
	Priority Priority // with Hosts: only items of this priority
	// MaxPages is the maximum number of pages of the crawl; 0 means no limit. In a crawl of one worker, no
	// item is leased that could make Stats.Pages exceed it, apart from checks (see CheckURL). In a crawl that
	// several workers share, nothing is leased once the crawl has MaxPages pages, apart from checks: see
	// Store.LimitReached.
	//
	// If the store's policy has a Recrawl, only items of round 0 count, and only they
	// are limited. Once the limit is reached, those that wait are delayed until the policy changes, and Grant.Limited
	// is false: the crawl goes on.
	MaxPages uint64
}

// Grant is the answer to a LeaseRequest.
type Grant struct {
	Leases []Lease
	// Wait is the time until another host can become due. It is 0 if a host is due
	// now. An Add can make a host due sooner.
	Wait time.Duration
	// Empty reports that no item is queued, delayed or leased. The crawl is over
	// unless a caller adds URLs.
	Empty bool
	// Limited reports that MaxPages prevents further leases, apart from those of checks. If the limit is exact,
	// leased items count towards it, even if they later produce no page.
	Limited bool
	// Reached reports that the crawl has MaxPages pages, and no check is queued or leased.
	// After that, Limited stays true.
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
	Items    int    // how many uncompleted items the lease should have after the call; 0 adds none
	Known    int    // how many items the caller has received under this lease
	MaxPages uint64 // as in LeaseRequest
}

// Extension is the answer of Extend.
type Extension struct {
	TTL   time.Duration // from the moment at which the store extended the lease
	Items []Item        // the lease's items after the first TopUp.Known items
}

// HostUpdate is what a worker learnt about the host of a lease.
type HostUpdate struct {
	Blob []byte        // stored for the next lease, at most MaxBlob bytes; nil keeps the old one
	Due  time.Duration // the host is not due before now + Due; 0 means that it is due now
	// Delay is the time between the starts of two requests. The host also waits this long after an
	// expired lease. It is at least the delay that the host has in the store's policy; if that is
	// longer when the host is due, the host is due as much later.
	Delay time.Duration
	Keep  bool // the host is due when it was; Due and Delay do not count. See LeaseRequest.Hosts
	End   bool // end the lease; items that are not completed go back to the queue
}

// MaxBlob is the largest HostUpdate.Blob in bytes.
const MaxBlob = 24 << 10

// Disposition says what happens to a leased item.
type Disposition uint8

const (
	Finish   Disposition = iota // the item is done or failed, with Completion.Outcome
	Retry                       // it is queued again after Completion.RetryIn, with one more attempt
	GiveBack                    // it returns to its place in the queue, unchanged
	// Last moves it behind the other items of its priority, otherwise unchanged.
	Last
	// Hold is Last, but the item waits while the store's policy pauses it: see policy.Policy.Paused.
	Hold
)

// Completion reports what became of one leased item.
type Completion struct {
	Item        bloomstore.Fingerprint
	Disposition Disposition
	Outcome     Outcome // with Finish
	Status      int     // HTTP status; 0 for none
	// Cause is why an attempt failed, or why an item has failed without one, as a word of a short list. Stats.Causes
	// counts it. It is empty with GiveBack and for an item that is Done.
	Cause string
	Page  bool // with Finish: the answer counts towards MaxPages
	// Known says that the page is remembered, so that it is visited again however the item ends. A store in Redis then
	// keeps no failed item, and counts it as done.
	Known   bool
	RetryIn time.Duration // with Retry
	Links   []Offer       // outlinks that the rules of the worker accepted
	Refused []Refusal     // counts of the outlinks that the rules refused
	Showed  Showed        // with Finish
	// Bytes is about how much memory the completion holds, with its links and what Record
	// writes. A store uses it to bound what it commits at once. It is optional.
	Bytes int64
	// BodyBytes is the size of the body of the answer as it was received; 0 with GiveBack. Stats.Bytes is the sum.
	BodyBytes int64
	// Record writes the record of a finished item to the store's Output. The store
	// calls it at most once for each completion, after the verdicts on the links are
	// known and before the completion takes effect. Calls do not overlap. An error
	// of Record makes Complete fail. Record is optional.
	Record func(links LinkCounts) error
	// Void reverts what Record wrote. It is optional. If several workers share a
	// store, the record is on disk before the store knows whether the completion
	// takes effect. The store calls Void only if the completion certainly did not
	// take effect (ErrLeaseLost). In doubt the record stays, because an extra record
	// does no harm, but a missing one does. Calls of Record and Void do not overlap.
	Void func() error
	// LinkAnswered is optional. Before Complete returns, the store calls it for each
	// link that it answers with Added or Refused. link is the index in Links.
	LinkAnswered func(link int, verdict Verdict)
}

// LinkCounts counts the links of one page: Found = Added + Seen + Refused.
type LinkCounts struct{ Found, Added, Seen, Refused uint64 }

// Count adds the given number of links to the counter of their answer and to Found.
// It ignores links without an answer.
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

// OpenOutput opens the output of a store. The store calls it once, after it has
// locked the crawl or registered a worker. position is the end of the output at the
// last commit of the store. The output truncates its files to the lengths in position.
// position is nil if the store commits no positions. The caller of the store's Open
// must close the store before the output.
type OpenOutput func(crawl Identity, position Position) (Output, error)

// Identity identifies the crawl of a store.
type Identity struct {
	ID   string // assigned when the crawl was created; never changes
	Card []byte // data to recreate the crawl on another server; nil if the store does not support this
}

// Position is the end of an output: the length of each of its files. Later bytes
// belong to completions that did not take effect.
type Position []FileLength

// FileLength is the length of one file of an Output.
type FileLength struct {
	File   string `json:"file"`   // name within the output's directory
	Length int64  `json:"length"` // in bytes
}

// Settings maps flag names to values. It contains the settings that cannot change after
// a crawl was created. They concern identity, scope, politeness or sizes. A store saves
// them, and returns a *SettingsError to a caller whose settings differ.
type Settings map[string]string
