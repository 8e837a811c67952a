package frontiertest

import (
	"context"
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// offering changes the offers of Add and the links of Complete.
func (b *broken) offering(change func(*frontier.Offer)) {
	changed := func(items []frontier.Offer) []frontier.Offer {
		items = slices.Clone(items)
		for i := range items {
			change(&items[i])
		}
		return items
	}
	b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
		return b.Memory.Add(ctx, changed(items))
	}
	b.completing(func(c *frontier.Completion) { c.Links = changed(c.Links) })
}

func (b *broken) completing(change func(*frontier.Completion)) {
	b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
		done = slices.Clone(done)
		for i := range done {
			change(&done[i])
		}
		return b.Memory.Complete(ctx, id, done, update)
	}
}

func decidedAs(from, to frontier.Decision) func(*frontier.Offer) {
	return func(item *frontier.Offer) {
		if item.Decision == from {
			item.Decision = to
		}
	}
}

// brokenWaits is a broken store whose method Waits is replaced, too.
type brokenWaits struct {
	*broken
	waits func(frontier.State) bool // whether an item in that state waits
}

func (b *brokenWaits) Waits(ctx context.Context, keys []exact.ItemKey) ([]bool, error) {
	if b.waits == nil {
		return b.Memory.Waits(ctx, keys)
	}
	waits := make([]bool, len(keys))
	b.locked(func(m *Memory) {
		for i, key := range keys {
			if e := m.entries[key.Fingerprint]; e != nil {
				waits[i] = b.waits(e.state)
			}
		}
	})
	return waits, nil
}

// exactMutants are crawls beside an exact set, each with one fault.
var exactMutants = []struct {
	name     string
	breakIt  func(*brokenWaits)
	caughtBy []string
}{
	{"asks the filter about new items", func(b *brokenWaits) { b.offering(decidedAs(frontier.New, frontier.Undecided)) },
		[]string{"DecisionNewIsQueuedOnce"}},
	{"queues items that wait already", func(b *brokenWaits) {
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			verdicts, err := b.Memory.Add(ctx, items)
			for i := range verdicts {
				if items[i].Decision == frontier.New {
					verdicts[i].Answer = frontier.Added
				}
			}
			return verdicts, err
		}
	}, []string{"DecisionNewIsQueuedOnce", "RacersQueueWhatIsNewOnce"}},
	{"queues known items", func(b *brokenWaits) { b.offering(decidedAs(frontier.Known, frontier.New)) },
		[]string{"DecisionKnownIsSeen"}},
	{"counts promoted items as recovered", func(b *brokenWaits) { b.offering(decidedAs(frontier.Promoted, frontier.New)) },
		[]string{"DecisionPromotedGetsARound"}},
	{"counts renewed items as recovered", func(b *brokenWaits) { b.offering(decidedAs(frontier.Again, frontier.New)) },
		[]string{"DecisionAgainKeepsItsRound"}},
	{"forgets rounds", func(b *brokenWaits) { b.offering(func(item *frontier.Offer) { item.Round = 0 }) },
		[]string{"DecisionAgainKeepsItsRound", "DecisionPromotedGetsARound", "RetrySkipsWaitingURLs"}},
	{"handles new items as bulk items", func(b *brokenWaits) {
		b.offering(func(item *frontier.Offer) {
			if item.Decision == frontier.New {
				item.Decision, item.Class = frontier.Undecided, frontier.Bulk
			}
		})
	}, []string{"DecisionNewIsNeverDropped"}},
	{"retries items that wait", func(b *brokenWaits) {
		b.retry = func(ctx context.Context, host string) (int, error) {
			n, err := b.Memory.Retry(ctx, host)
			return n + len(b.past), err
		}
	}, []string{"RetrySkipsWaitingURLs"}},
	{"says that finished items wait", func(b *brokenWaits) { b.waits = func(frontier.State) bool { return true } },
		[]string{"WaitsUntilCompleted"}},
	{"says that leased items do not wait", func(b *brokenWaits) { b.waits = func(s frontier.State) bool { return s == frontier.Queued } },
		[]string{"WaitsUntilCompleted"}},
}

// TestSuiteSeesBrokenDecisions: for each of the exactMutants, the cases in caughtBy fail.
func TestSuiteSeesBrokenDecisions(t *testing.T) {
	for _, m := range exactMutants {
		t.Run(m.name, func(t *testing.T) {
			open := driving(func(_ *testing.T, opt Options) Crawl {
				b := &brokenWaits{broken: newBroken(opt)}
				m.breakIt(b)
				return b
			})
			for _, name := range m.caughtBy {
				suite.WantCaught(t, allCases(), name, open)
			}
		})
	}
}
