package exact

import (
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// Kind is what a set has decided about an offer. With New, Promoted and Again the store adds the
// URL to the filter and queues it, unless it is queued or leased already. So an offer can be repeated.
type Kind uint8

const (
	Undecided Kind = iota // no set was asked; the store decides
	Known                 // the answer is Seen
	// New is a URL that nothing has added before. If the filter claims to contain it, the claim
	// is a false positive and counts in Stats.Recovered.
	New
	// Promoted is like New, but the URL might have been offered as Bulk before. Therefore a claim
	// of the filter counts in Stats.Promoted.
	Promoted
	// Again is like New, for a URL that the set contained before. Either its window (the time for which a
	// finished URL counts as seen) is over, or the store lost its item.
	Again
)

// isNew reports whether an offer with a decision of this kind is queued.
func (k Kind) isNew() bool { return k == New || k == Promoted || k == Again }

// Decision is a set's decision about one offer.
type Decision struct {
	Kind  Kind
	Round uint32                 // the round in which the item is queued; see Later
	Print bloomstore.Fingerprint // of an offer that is not Undecided
	// Later means that the URL can have been a bulk URL. If the filter claims to contain it, an item of the URL may have
	// had any round. So the item is queued in the round after the latest one that the store has used, or in Round if that
	// is later still. The set learns of the round when the item ends.
	Later bool
	// Line names the line of a submission that has the offer; empty means none. The store queues a line once, and keeps
	// the verdict on it.
	Line string
}

// Decisions are a set's decisions about the offers of a call.
type Decisions struct {
	Each []Decision // in the order of the offers; nil means that all are undecided
	At   time.Time  // not later than the decisions
}

// Known returns the decisions with Known instead of those for which the function known returns true. It asks only about
// decisions that queue an offer.
func (d Decisions) Known(known func(i int) bool) Decisions {
	each := d.Each
	for i := range d.Each {
		if d.Each[i].Kind.isNew() && known(i) {
			if &each[0] == &d.Each[0] {
				each = slices.Clone(each)
			}
			each[i].Kind = Known
		}
	}
	return Decisions{each, d.At}
}

// isExact reports whether the set decides about an offer. It does not decide about offers that the
// store refuses in any case.
func isExact(it *frontier.Offer) bool {
	return it.Class != frontier.Bulk && it.URL != "" && len(it.URL) <= frontier.MaxURLBytes &&
		it.Host != "" && it.Priority < frontier.Priorities
}

// HasExact reports whether a set decides about any of the offers.
func HasExact(offers []frontier.Offer) bool {
	return slices.ContainsFunc(offers, func(it frontier.Offer) bool { return isExact(&it) })
}
