package frontier

import (
	"fmt"
	"time"
)

// Books count the URLs of a crawl. They balance (promise P6 of docs/design/promises.md) when
//
//	Found = Added + Seen + the sum of Refused
//	Added = Queued + Leased + Done + Failed
//
// Found counts every offer, including seeds and the links that a worker's rules
// refused.
type Books struct {
	Found   uint64            `json:"found"`
	Added   uint64            `json:"added"`
	Seen    uint64            `json:"seen"`
	Refused map[Reason]uint64 `json:"refused,omitempty"`
	Queued  uint64            `json:"queued"`
	Leased  uint64            `json:"leased"`
	Done    uint64            `json:"done"`
	Failed  uint64            `json:"failed"`
}

// RefusedTotal returns the sum of Refused.
func (b Books) RefusedTotal() (sum uint64) {
	for _, n := range b.Refused {
		sum += n
	}
	return sum
}

// Balance returns nil if the books balance. Otherwise the error has all terms of the wrong
// sum.
func (b Books) Balance() error {
	if sum := b.Added + b.Seen + b.RefusedTotal(); sum != b.Found {
		return fmt.Errorf("frontier: found is %d, but added %d + seen %d + refused %d = %d",
			b.Found, b.Added, b.Seen, b.RefusedTotal(), sum)
	}
	if sum := b.Queued + b.Leased + b.Done + b.Failed; sum != b.Added {
		return fmt.Errorf("frontier: added is %d, but queued %d + leased %d + done %d + failed %d = %d",
			b.Added, b.Queued, b.Leased, b.Done, b.Failed, sum)
	}
	return nil
}

// Stats are the counters of a crawl at one moment.
type Stats struct {
	Books
	Checks   Checks             `json:"checks,omitzero"`
	Pages    uint64             `json:"pages"`            // completions with Page
	Bytes    uint64             `json:"bytes,omitempty"`  // sum of Completion.BodyBytes
	Retries  uint64             `json:"retries"`          // completions with Disposition Retry
	Records  uint64             `json:"records"`          // records written
	Outcomes map[Outcome]uint64 `json:"outcomes"`         // finished items by outcome, all rounds
	Causes   map[string]uint64  `json:"causes,omitempty"` // completions by Completion.Cause
	// Repeats counts the finished items in Outcomes whose round is above 0. If it is 0, each item is
	// counted once.
	Repeats uint64 `json:"repeats,omitempty"`
	// PagesAgain counts the Pages whose round is above 0. Only a store that visits pages again counts them.
	PagesAgain uint64 `json:"pages_again,omitempty"`
	// FailedAgain counts the items among Done that have failed, because their pages are visited again anyway: see Completion.Known.
	FailedAgain uint64      `json:"failed_again,omitempty"`
	Delayed     uint64      `json:"delayed"` // part of Queued
	Hosts       uint64      `json:"hosts"`   // hosts with queued or leased items
	Paused      bool        `json:"paused"`
	Filter      FilterStats `json:"filter"`
	Shadow      ShadowStats `json:"shadow"`
	// Recovered counts exact items that were new, although the filter claimed to
	// contain them. Such false positives do no harm.
	Recovered uint64 `json:"recovered"`
	// Promoted counts exact items that the filter claimed to contain, and that
	// might have been bulk items before. They are queued in a round greater than 0.
	// The count includes false positives.
	Promoted uint64 `json:"promoted,omitempty"`
	// Expired describes the exact keys whose rows the store has to delete, because their windows are over.
	Expired Expired `json:"expired,omitzero"`
	// MissingRecords is the number of Records that are missing from the files, if
	// the user has accepted this loss.
	MissingRecords uint64 `json:"missing_records,omitempty"`
}

// Balance returns nil if the books and the checks balance. Otherwise the error has all terms of
// the wrong sum.
func (s *Stats) Balance() error {
	if err := s.Books.Balance(); err != nil {
		return err
	}
	n, done := s.Checks, uint64(0)
	for _, o := range CheckOutcomes() {
		done += s.Outcomes[o]
	}
	if n.Waiting()+done != n.Added {
		return fmt.Errorf("frontier: added checks are %d, but queued %d + leased %d + finished %d = %d",
			n.Added, n.Queued, n.Leased, done, n.Waiting()+done)
	}
	return nil
}

// Expired describes keys that wait for their deletion.
type Expired struct {
	Due uint64        `json:"due"` // number of keys
	Lag time.Duration `json:"lag"` // how long the oldest of them has waited
}

// ShadowStats compare the filter with an exact sample of all URLs, one in
// bloomstore.SampleRate.
type ShadowStats struct {
	New       uint64 `json:"new"`       // offered for the first time, and new to the filter
	Lost      uint64 `json:"lost"`      // offered for the first time, but the filter claimed to contain them
	Forgotten uint64 `json:"forgotten"` // offered before, but new to the filter; the filter is broken if this is not 0
}

// FilterStats describe the filter that decides about bulk URLs.
type FilterStats struct {
	Capacity uint64  `json:"capacity"` // keys that the present layers are sized for
	Keys     uint64  `json:"keys"`     // keys in it
	Layers   int     `json:"layers"`
	Bytes    uint64  `json:"bytes"`
	FPR      float64 `json:"fpr"` // probability that a new URL is answered Seen, at the present fill
	// Window is set if the filter forgets: bulk URLs have a window.
	Window *FilterWindow `json:"window,omitempty"`
}

// FilterWindow describes a filter that forgets (see sizing.Window).
type FilterWindow struct {
	Span        time.Duration `json:"span"`          // how long a finished URL counts as seen at least
	Generations int           `json:"generations"`   // of one span; one more is asked
	Lost        float64       `json:"expected_lost"` // expected number of new URLs so far that were taken for known ones
}

// FilterLayer is one layer of a filter that grows.
type FilterLayer struct {
	Keys     uint64  `json:"keys"`
	Capacity uint64  `json:"capacity"`
	Bits     uint64  `json:"bits"`
	Hashes   uint    `json:"hashes"`
	Fill     float64 `json:"fill"`   // share of the bits that are set, in [0, 1]
	FPR      float64 `json:"fpr"`    // false-positive rate at the present fill
	Target   float64 `json:"target"` // false-positive rate at Capacity
	// Generation is the number of the generation of which the layer is a part, if the filter is a window.
	Generation int64 `json:"generation,omitempty"`
}

// Status describes one URL.
type Status struct {
	State     State         `json:"state"`
	InFilter  bool          `json:"in_filter"` // the filter claims to contain the URL
	Item      Item          `json:"item"`      // set if State is Queued, Leased or Failed
	Outcome   Outcome       `json:"outcome,omitempty"`
	Status    int           `json:"status,omitempty"`
	Round     uint32        `json:"round"`
	HostDueIn time.Duration `json:"host_due_in"` // 0 means that the host is due now
}

// HostQuery selects hosts.
type HostQuery struct {
	Host     string // only this host key; empty means all hosts
	Finished bool   // also hosts without queued or leased items, if HostCounts counts something for them
	Oldest   bool   // sets HostState.OldestURL
	// First is about how many hosts Hosts visits: those that are leased or due first. All other hosts that are not
	// leased are due later, or have only delayed items. If there are not more, Hosts visits all hosts except
	// those with only delayed items. 0 means that Hosts visits all. It is not used together with Host or Finished.
	First int
}

// HostState is the state of a host.
type HostState struct {
	Host    string
	Queued  uint64        // including Delayed
	Delayed uint64        // wait for another attempt
	Leased  uint64        // a worker has them; 0 means that the host is not leased, or that all items of its lease are completed
	DueIn   time.Duration // 0 means that the host is due now, or leased
	Crowded bool          // it waits for a place in its site until then: see Store.Lease
	Delay   time.Duration // of the last HostUpdate
	Blob    []byte        // of the last HostUpdate; nil means none, or that the store has forgotten the state of a host without items
	Counts  HostCounts

	// OldestURL has waited for longest, of the leased URLs and the first one of each queue; empty if all URLs are delayed, or
	// if the query did not ask for it. URLs that were delayed or paused join the end of their queue. OldestAge is the time
	// since it was added, rounded up by less than a minute; by less than an hour 22 days after the creation of the crawl.
	OldestURL string
	OldestAge time.Duration

	Worker string        // the name of the worker that has leased the host, if several workers share the store
	Lost   bool          // that worker seems to have died; no other worker gets the host before the lease ends
	EndsIn time.Duration // until the lease ends, unless it is extended; 0 if there is none, or if that is not known
}

// HostCounts count what was completed for a host in the whole crawl. Each completion changes them in the
// same step as the counters of Stats. If the store counts for all hosts, their sums are those of Stats.
type HostCounts struct {
	Done   uint64            // as Books.Done
	Failed uint64            // as Books.Failed
	Pages  uint64            // as Stats.Pages
	Bytes  uint64            // as Stats.Bytes
	Causes map[string]uint64 // as Stats.Causes; causes after the first MaxHostCauses count as OtherCauses
	// Ago is the time since an item of the host was last completed, except by GiveBack. 0 means never.
	Ago time.Duration
	// Missing reports that the store does not count for this host, because it counts for too many others. Then
	// only Failed is set.
	Missing bool
}

// MaxHostCauses is how many causes HostCounts.Causes counts apart. OtherCauses is the name of the others.
const (
	MaxHostCauses = 16
	OtherCauses   = "others"
)

// Completed adds a completion to the counts, except to Failed and Ago.
func (c *HostCounts) Completed(done *Completion) {
	c.Bytes += uint64(max(done.BodyBytes, 0))
	if done.Disposition == Finish {
		if done.Outcome.State() == Done {
			c.Done++
		}
		if done.Page {
			c.Pages++
		}
	}
	if cause := done.Cause; cause != "" {
		if c.Causes == nil {
			c.Causes = make(map[string]uint64)
		}
		if _, known := c.Causes[cause]; !known && len(c.Causes) >= MaxHostCauses {
			cause = OtherCauses
		}
		c.Causes[cause]++
	}
}

// Errors returns the sum of Causes.
func (c *HostCounts) Errors() (sum uint64) {
	for _, n := range c.Causes {
		sum += n
	}
	return sum
}

// Audit holds the numbers of Books, counted in the queue, the filter and the
// other structures. Added is an estimate from the filter, with a standard
// error. A store that keeps no data about done items copies Done from its
// counter.
type Audit struct {
	Counters Stats // the stored counters, without Filter; the other fields are compared with them
	Queued   uint64
	Delayed  uint64 // part of Queued
	Leased   uint64
	Done     uint64
	Failed   uint64
	Checks   Checks // Queued and Leased only, which are part of the fields above
	Hosts    uint64 // hosts with queued or leased items
	Added    float64
	AddedErr float64  // standard error of Added; both are +Inf if the filter is full
	Faults   []string // contradictions between two structures
}
