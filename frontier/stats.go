package frontier

import "time"

// Books are the accounts of a crawl. They balance (P6) when
//
//	Found = Added + Seen + the sum of Refused
//	Added = Queued + Leased + Done + Failed
//
// Found counts every URL that was offered, seeds too.
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

// Balance returns nil or an error that names the term that does not add up,
// with the figures.
func (b Books) Balance() error {
	if sum := b.Added + b.Seen + b.RefusedTotal(); sum != b.Found {
		return &BalanceError{Term: "found", Counted: b.Found, Sum: sum, Books: b}
	}
	if sum := b.Queued + b.Leased + b.Done + b.Failed; sum != b.Added {
		return &BalanceError{Term: "added", Counted: b.Added, Sum: sum, Books: b}
	}
	return nil
}

// Stats are the counters of a crawl as of one moment.
type Stats struct {
	Books
	Pages    uint64             `json:"pages"`    // completions with Completion.Page
	Retries  uint64             `json:"retries"`  // items queued again by Retry
	Records  uint64             `json:"records"`  // records written
	Outcomes map[Outcome]uint64 `json:"outcomes"` // finished items by outcome, all rounds
	Delayed  uint64             `json:"delayed"`  // part of Queued
	Hosts    uint64             `json:"hosts"`    // hosts with queued or leased items
	Paused   bool               `json:"paused"`
	Filter   FilterStats        `json:"filter"`
	Shadow   ShadowStats        `json:"shadow"`
	// Recovered counts exact items that the filter claimed to know and that
	// were new: false positives that did no harm.
	Recovered uint64 `json:"recovered"`
	// Promoted counts exact items that the filter claimed to know where nobody
	// can tell whether they were bulk items before: these are queued once more,
	// in a round of their own. It includes false positives.
	Promoted uint64 `json:"promoted,omitempty"`
	// Outbox counts the notes that wait in the outbox. Their links are not in
	// the books yet.
	Outbox uint64 `json:"outbox,omitempty"`
	// MissingRecords counts the records, part of Records, that were lost from
	// their files and that the crawl was told to go on without.
	MissingRecords uint64 `json:"missing_records,omitempty"`
}

// ShadowStats are what the filter did with an exact sample of all URLs, one in
// bloomstore.SampleRate: they check the plumbing end to end.
type ShadowStats struct {
	New       uint64 `json:"new"`       // offered first and answered so
	Lost      uint64 `json:"lost"`      // offered first, and the filter claimed to know them
	Forgotten uint64 `json:"forgotten"` // offered before, and the filter did not know them: it is broken
}

// FilterStats describe the filter that answers for bulk URLs.
type FilterStats struct {
	Capacity uint64  `json:"capacity"` // keys that the layers so far are sized for
	Keys     uint64  `json:"keys"`     // keys in it
	Layers   int     `json:"layers"`
	Bytes    uint64  `json:"bytes"`
	FPR      float64 `json:"fpr"` // that a URL never offered is answered Seen, estimated from the fill now
}

// FilterLayer is one layer of a filter that grows.
type FilterLayer struct {
	Keys     uint64  `json:"keys"`
	Capacity uint64  `json:"capacity"`
	Bits     uint64  `json:"bits"`
	Hashes   uint    `json:"hashes"`
	Fill     float64 `json:"fill"`   // share of the bits that is set
	FPR      float64 `json:"fpr"`    // now, from the fill
	Target   float64 `json:"target"` // at Capacity
}

// Status is where one URL is.
type Status struct {
	State     State         `json:"state"`
	InFilter  bool          `json:"in_filter"` // what the filter claims
	Item      Item          `json:"item"`      // with State Queued, Leased, Failed
	Outcome   Outcome       `json:"outcome,omitempty"`
	Status    int           `json:"status,omitempty"`
	Round     uint32        `json:"round"`
	HostDueIn time.Duration `json:"host_due_in"` // 0: due now
}

// Audit is the books recounted: each term from the structure that holds it. Added
// is counted from the filter, so it is an estimate with a standard error; a store
// that keeps nothing of what is done answers Done from its counter.
type Audit struct {
	Counters Stats // to be held against the rest; without the filter
	Queued   uint64
	Delayed  uint64 // part of Queued
	Leased   uint64
	Done     uint64
	Failed   uint64
	Hosts    uint64 // with something queued or leased
	Added    float64
	AddedErr float64  // both are +Inf when the filter is full
	Faults   []string // where one structure contradicts another
}
