package frontier

import (
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
)

// Offer is a URL that a caller offers to a frontier, with Store.Add or as one of
// Completion.Links.
type Offer struct {
	URL      string // canonical, at most MaxURLBytes
	Host     string // host key, the unit of politeness; contains no zero byte
	Depth    uint16 // links away from a seed
	Hops     uint8  // redirects since the last link
	Priority Priority
	Class    Class
	Referrer Referrer      // names the page that has the link; zero for a seed
	Delay    time.Duration // the item is not leased before now + Delay
	Decision Decision      // of an exact set; Undecided if the store decides
	Round    uint32        // to queue the item in; ignored if Undecided
}

// Item returns the item that a store queues for the offer: with fingerprint
// print, no attempts and no deliveries. An undecided offer gives round 0.
func (o *Offer) Item(print bloomstore.Fingerprint) Item {
	round := o.Round
	if o.Decision == Undecided {
		round = 0
	}
	return Item{
		URL: o.URL, Fingerprint: print, Host: o.Host, Depth: o.Depth, Hops: o.Hops,
		Priority: o.Priority, Class: o.Class, Referrer: o.Referrer, Round: round,
	}
}

// Item is a URL that was added: what a frontier queues, leases and lists.
type Item struct {
	URL         string                 // canonical
	Fingerprint bloomstore.Fingerprint // of URL
	Host        string                 // host key, the unit of politeness
	Depth       uint16                 // links away from a seed
	Hops        uint8                  // redirects since the last link
	Priority    Priority
	Class       Class
	Referrer    Referrer // names the page that had the link; zero for a seed
	Attempts    uint8    // requests that failed, in this round
	Deliveries  uint8    // leases that expired while it may have been requested; see MaxDeliveries
	Round       uint32   // how often the URL was queued anew; 0 the first time
}

// Offer returns an undecided offer of the item's URL, without a delay. A caller
// that decides on it can offer the item again in its round.
func (it Item) Offer() Offer {
	return Offer{
		URL: it.URL, Host: it.Host, Depth: it.Depth, Hops: it.Hops,
		Priority: it.Priority, Class: it.Class, Referrer: it.Referrer, Round: it.Round,
	}
}

// MaxDeliveries is how many times an item may be lost with its worker before
// it counts as the cause: it is then handed out once more, to be finished with
// the outcome WorkerLost and no request.
const MaxDeliveries = 20

// Referrer is the first half of the fingerprint of the page that named a URL.
type Referrer [8]byte

// ReferrerOf returns the Referrer that names the page f.
func ReferrerOf(f bloomstore.Fingerprint) Referrer { return Referrer(f[:8]) }

// Priority orders the items of one host; lower goes first.
type Priority uint8

const (
	PrioritySeed  Priority = iota // seeds and where they redirect to
	PriorityPage                  // pages
	PriorityAsset                 // what pages embed
	Priorities    = 3
)

// Class says what decides whether an item is new: Bulk the filter, every other
// class an exact store, so that it can never be dropped by a false positive.
type Class uint8

const (
	Bulk    Class = iota
	Exact         // seeds, by default
	Sitemap       // not a page but a list of URLs: exact too, there are few of them
	Listed        // what a sitemap lists, if that is to be exact (package exact)
)

// Decision is what an exact set beside the store decided about an offered item
// (package exact). The filter is not asked then, but its bits are set. Only a
// store that is an Outbox takes another Decision than Undecided.
type Decision uint8

const (
	Undecided Decision = iota // nobody was asked: the store decides
	Known                     // it is Seen
	// New: it is queued, unless it waits or is leased already, so that a repeat
	// is safe. When the filter claims to know it, that was a false positive:
	// Stats.Recovered.
	New
	// Promoted is New where the item may have been offered as a bulk item
	// before, so that a claim of the filter proves nothing: Stats.Promoted.
	Promoted
	// Again is New for an item that the set has had before: its window is over,
	// or the store lost it. It is queued with Offer.Round.
	Again
	// Later: the set cannot be asked now. Among a Completion's Links it becomes
	// a Note in the outbox, in the step that completes the page; elsewhere it is
	// an error.
	Later
)

// Verdict answers an offered URL.
type Verdict struct {
	Answer Answer
	Reason Reason // why it was refused; empty otherwise
}

// Answer is the first half of a Verdict. Its zero value is none of the answers,
// so that a verdict that was never given cannot pass for Seen. It is stored
// nowhere; others are told its String.
type Answer uint8

const (
	Seen     Answer = iota + 1 // known, or a false positive of the filter
	Added                      // new, and queued by this call
	Refused                    // neither queued nor remembered
	Deferred                   // not decided yet: a Note of the Outbox, in no books
)

func (a Answer) String() string {
	switch a {
	case Seen:
		return "seen"
	case Added:
		return "added"
	case Refused:
		return "refused"
	case Deferred:
		return "deferred"
	}
	return fmt.Sprintf("Answer(%d)", uint8(a))
}

// Reason is why a URL was refused.
type Reason string

// What the rules of a crawl refuse. A refused URL is not remembered.
const (
	ReasonScope     Reason = "scope"                // outside --scope
	ReasonPort      Reason = "port"                 // of a service that is not the web's, without --allow-port
	ReasonExcluded  Reason = "excluded"             // --exclude matched, or no --include did
	ReasonDepth     Reason = "depth"                // beyond --max-depth
	ReasonHops      Reason = "hops"                 // beyond the limit of redirects in a row
	ReasonHostLimit Reason = "max_per_host"         // beyond --max-per-host
	ReasonDomain    Reason = "max_hosts_per_domain" // beyond --max-hosts-per-domain
	ReasonScheme    Reason = "scheme"               // neither http nor https
	ReasonMalformed Reason = "malformed"            // no URL
	ReasonTooLong   Reason = "too_long"             // longer than MaxURLBytes
	ReasonTooMany   Reason = "too_many"             // beyond what is taken from one page or sitemap
	ReasonNofollow  Reason = "nofollow"             // the page asks not to follow it
	ReasonRepeats   Reason = "repeated_path"        // one path segment again and again
	ReasonParams    Reason = "parameters"           // too many parameters
	ReasonCalendar  Reason = "calendar"             // a date far ahead, or long ago
	ReasonDropped   Reason = "dropped"              // the library user's OnPage dropped it
	ReasonQueueFull Reason = "queue_full"           // the store takes no more
)

// MaxURLBytes is the longest canonical URL that a frontier takes.
const MaxURLBytes = 8 << 10

// State is where an added URL is: in exactly one of these.
type State string

const (
	Unknown State = ""
	Queued  State = "queued" // waiting, delayed or not
	Leased  State = "leased"
	Done    State = "done"
	Failed  State = "failed"
)

// Outcome is the final answer to an item.
type Outcome string

const (
	OK          Outcome = "ok"           // 2xx
	Redirect    Outcome = "redirect"     // 3xx
	ClientError Outcome = "client_error" // 4xx but 408, 425, 429
	Robots      Outcome = "robots"       // robots.txt disallows it
	Address     Outcome = "address"      // its host has only addresses that are not dialled, or its port is not
	Type        Outcome = "type"         // not a wanted content type; the body was not read

	ServerError Outcome = "server_error" // 5xx, after all attempts
	Throttled   Outcome = "throttled"    // 408, 425, 429, after all attempts
	Network     Outcome = "network"      // no or a broken answer, after all attempts
	HostDead    Outcome = "host_dead"    // the host as a whole was given up
	WorkerLost  Outcome = "worker_lost"  // MaxDeliveries workers died over it
	Handler     Outcome = "handler"      // the library user's OnPage returned an error, in all attempts
)

// State returns Done or Failed: the one place that decides (docs/url-states.md).
// It returns Unknown for a string that is no outcome.
func (o Outcome) State() State {
	switch o {
	case OK, Redirect, ClientError, Robots, Address, Type:
		return Done
	case ServerError, Throttled, Network, HostDead, WorkerLost, Handler:
		return Failed
	}
	return Unknown
}
