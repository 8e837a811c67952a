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
	// Submission is what the client calls the submission that has the seed; empty means none. Its links do not have it. At
	// most MaxSubmission bytes.
	Submission string
}

// MaxSubmission is the length of the longest Offer.Submission, in bytes.
const MaxSubmission = 255

// Item returns the item that a store queues for the offer, in round 0. print is the fingerprint
// of the item. The item has no attempts and no deliveries.
func (o *Offer) Item(print bloomstore.Fingerprint) Item {
	return Item{
		URL: o.URL, Fingerprint: print, Host: o.Host, Depth: o.Depth, Hops: o.Hops,
		Priority: o.Priority, Class: o.Class, Referrer: o.Referrer, Submission: o.Submission,
	}
}

// Item is a URL that was added to a frontier. The frontier queues, leases and
// lists items.
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
	Deliveries  uint8    // expired leases during which it might have been requested; see MaxDeliveries
	Round       uint32   // 0 at first; Control.Retry and a later Added begin a later round
	Submission  string   // of the offer
	Added       Moment   // when the store added it, or Control.Retry queued it again
}

// Offer returns an offer of the item's URL, without a delay.
func (it Item) Offer() Offer {
	return Offer{
		URL: it.URL, Host: it.Host, Depth: it.Depth, Hops: it.Hops,
		Priority: it.Priority, Class: it.Class, Referrer: it.Referrer, Submission: it.Submission,
	}
}

// MaxDeliveries limits Item.Deliveries. An item that reaches this limit has
// probably crashed its workers. It is leased once more. The worker then finishes
// it with the outcome WorkerLost, without a request.
const MaxDeliveries = 20

// Referrer identifies the page that has a link. It is the first half of the page's
// fingerprint.
type Referrer [8]byte

// ReferrerOf returns the Referrer of links on the page with fingerprint f.
func ReferrerOf(f bloomstore.Fingerprint) Referrer { return Referrer(f[:8]) }

// Priority orders the items of one host. Items with a lower value are leased
// first.
type Priority uint8

const (
	PrioritySeed  Priority = iota // seeds, and the targets of their redirects
	PriorityPage                  // pages
	PriorityAsset                 // files that pages embed
	Priorities    = 3             // how many there are
)

// Class says how a frontier decides whether an offer is new. The filter decides
// about URLs of the class Bulk. URLs of every other class are stored in rows of their
// own, so that a false positive of the filter cannot drop them.
type Class uint8

const (
	Bulk    Class = iota
	Exact         // seeds, by default
	Sitemap       // a list of URLs, not a page; exact
	Listed        // a URL that a sitemap lists, if such URLs are exact (package exact)
)

// String returns the name of the class, as it is in records.
func (c Class) String() string {
	if names := [...]string{"bulk", "exact", "sitemap", "listed"}; int(c) < len(names) {
		return names[c]
	}
	return fmt.Sprintf("Class(%d)", c)
}

// Verdict is the answer to an Offer.
type Verdict struct {
	Answer Answer
	Reason Reason // with Refused; empty otherwise
}

// Answer says what became of an Offer. The zero value is not an answer, so a
// verdict that was never set does not look like Seen. The number is not stored;
// other processes receive the String.
type Answer uint8

const (
	Seen    Answer = iota + 1 // the URL is known, or the filter erred
	Added                     // the URL is new, and this call queued it
	Refused                   // the URL is neither queued nor remembered
)

// String returns the answer as one lower-case word.
func (a Answer) String() string {
	switch a {
	case Seen:
		return "seen"
	case Added:
		return "added"
	case Refused:
		return "refused"
	}
	return fmt.Sprintf("Answer(%d)", uint8(a))
}

// Reason says why a URL was refused.
type Reason string

// Most reasons come from the rules of a crawl, some from the store. A refused URL
// is not remembered, so it can be offered again.
const (
	ReasonScope     Reason = "scope"                // outside --scope
	ReasonPort      Reason = "port"                 // a port of another service, and not in --allow-port
	ReasonExcluded  Reason = "excluded"             // --exclude matches, or no --include does
	ReasonDepth     Reason = "depth"                // more than --max-depth
	ReasonHops      Reason = "hops"                 // too many redirects in a row
	ReasonHostLimit Reason = "max_per_host"         // more than --max-per-host
	ReasonDomain    Reason = "max_hosts_per_domain" // more than --max-hosts-per-domain
	ReasonScheme    Reason = "scheme"               // neither http nor https
	ReasonMalformed Reason = "malformed"            // not a URL
	ReasonTooLong   Reason = "too_long"             // longer than MaxURLBytes
	ReasonTooMany   Reason = "too_many"             // too many links on one page or sitemap
	ReasonNofollow  Reason = "nofollow"             // the page asks not to follow it
	ReasonRepeats   Reason = "repeated_path"        // one path segment repeats too often
	ReasonParams    Reason = "parameters"           // too many parameters
	ReasonCalendar  Reason = "calendar"             // a date in the far future or past
	ReasonOnPage    Reason = "on_page"              // the OnPage function of the library's user dropped it
	ReasonQueueFull Reason = "queue_full"           // the store accepts no more links
	ReasonExternal  Reason = "max_external"         // outside --scope, and more than --max-external
	ReasonDropRule  Reason = "drop_rule"            // a rule of crawler drop selects it
	ReasonBlockRule Reason = "block_rule"           // a rule of crawler block selects it
	ReasonDuplicate Reason = "duplicate"            // an earlier page has the same text and the same links; see Showed
)

// MaxURLBytes is the length of the longest canonical URL that a frontier accepts.
const MaxURLBytes = 8 << 10

// State is the state of a URL. An added URL is in exactly one of the states other
// than Unknown.
type State string

const (
	Unknown State = ""       // never added
	Queued  State = "queued" // waiting, delayed or not
	Leased  State = "leased" // a worker has it
	Done    State = "done"   // finished; it is not requested again in this round
	Failed  State = "failed" // finished without a usable answer; Control.Retry queues it again
)
