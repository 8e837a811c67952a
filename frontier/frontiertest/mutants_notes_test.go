package frontiertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
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

// completed makes b call the function callback after each Complete, with the error of
// Complete.
func (b *broken) completed(callback func(m *Memory, done []frontier.Completion, err error)) {
	b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
		err := b.Memory.Complete(ctx, id, done, update)
		b.locked(func(m *Memory) { callback(m, done, err) })
		return err
	}
}

func decidedAs(from, to frontier.Decision) func(*frontier.Offer) {
	return func(item *frontier.Offer) {
		if item.Decision == from {
			item.Decision = to
		}
	}
}

// brokenNotes is a broken store whose methods for notes are replaced, too.
type brokenNotes struct {
	*broken
	notes     func(context.Context, int) (exact.NoteBatch, error)
	delivered func(context.Context, exact.NoteBatch, uint64, []frontier.Refusal) (bool, error)
	waits     func(frontier.State) bool // whether an item in that state waits
}

func (b *brokenNotes) Notes(ctx context.Context, n int) (exact.NoteBatch, error) {
	return b.notes(ctx, n)
}

func (b *brokenNotes) Delivered(ctx context.Context, batch exact.NoteBatch, seen uint64, refused []frontier.Refusal) (bool, error) {
	return b.delivered(ctx, batch, seen, refused)
}

func (b *brokenNotes) Waits(ctx context.Context, keys []exact.ItemKey) ([]bool, error) {
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

// noteMutants are crawls beside an exact set, each with one fault.
var noteMutants = []struct {
	name     string
	breakIt  func(*brokenNotes)
	caughtBy []string
}{
	{"asks the filter about new items", func(b *brokenNotes) { b.offering(decidedAs(frontier.New, frontier.Undecided)) },
		[]string{"DecisionNewIsQueuedOnce"}},
	{"queues items that wait already", func(b *brokenNotes) {
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			verdicts, err := b.Memory.Add(ctx, items)
			for i := range verdicts {
				if items[i].Decision == frontier.New {
					verdicts[i].Answer = frontier.Added
				}
			}
			return verdicts, err
		}
	}, []string{"DecisionNewIsQueuedOnce", "RacersQueueWhatIsNewOnce", "NotesOutliveARestart"}},
	{"queues known items", func(b *brokenNotes) { b.offering(decidedAs(frontier.Known, frontier.New)) },
		[]string{"DecisionKnownIsSeen"}},
	{"counts promoted items as recovered", func(b *brokenNotes) { b.offering(decidedAs(frontier.Promoted, frontier.New)) },
		[]string{"DecisionPromotedGetsARound"}},
	{"counts renewed items as recovered", func(b *brokenNotes) { b.offering(decidedAs(frontier.Again, frontier.New)) },
		[]string{"DecisionAgainKeepsItsRound"}},
	{"forgets rounds", func(b *brokenNotes) { b.offering(func(item *frontier.Offer) { item.Round = 0 }) },
		[]string{"DecisionAgainKeepsItsRound", "DecisionPromotedGetsARound", "NotesComeWithTheirPage", "RetrySkipsWaitingURLs"}},
	{"handles new items as bulk items", func(b *brokenNotes) {
		b.offering(func(item *frontier.Offer) {
			if item.Decision == frontier.New {
				item.Decision, item.Class = frontier.Undecided, frontier.Bulk
			}
		})
	}, []string{"DecisionNewIsNeverDropped"}},
	{"defers decisions in Add", func(b *brokenNotes) {
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			if items[0].Decision == frontier.Later {
				return []frontier.Verdict{{Answer: frontier.Deferred}}, nil
			}
			return b.Memory.Add(ctx, items)
		}
	}, []string{"DecisionLaterIsForLinks"}},
	{"retries items that wait", func(b *brokenNotes) {
		b.retry = func(ctx context.Context, host string) (int, error) {
			n, err := b.Memory.Retry(ctx, host)
			return n + len(b.past), err
		}
	}, []string{"RetrySkipsWaitingURLs"}},
	{"says that finished items wait", func(b *brokenNotes) { b.waits = func(frontier.State) bool { return true } },
		[]string{"WaitsUntilCompleted"}},
	{"says that leased items do not wait", func(b *brokenNotes) { b.waits = func(s frontier.State) bool { return s == frontier.Queued } },
		[]string{"WaitsUntilCompleted"}},
	{"makes no notes of unconfirmed items", func(b *brokenNotes) { b.completing(func(c *frontier.Completion) { c.Unconfirmed = false }) },
		nil},
	{"notes the links of a lost lease", func(b *brokenNotes) {
		b.completed(func(m *Memory, done []frontier.Completion, err error) {
			if errors.Is(err, frontier.ErrLeaseLost) {
				m.outbox = append(m.outbox, exact.Note{Item: itemOf(done[0].Links[0])})
			}
		})
	}, []string{"NotesOfALostLease"}},
	{"notes links at every repeat", func(b *brokenNotes) {
		b.completed(func(m *Memory, done []frontier.Completion, err error) {
			for _, c := range done {
				for _, link := range c.Links {
					if link.Decision == frontier.Later && len(m.outbox) == 1 {
						m.outbox = append(m.outbox, exact.Note{Item: itemOf(link)})
					}
				}
			}
		})
	}, []string{"NotesComeWithTheirPage"}},
	{"counts deferred links", func(b *brokenNotes) {
		b.completed(func(m *Memory, done []frontier.Completion, err error) {
			m.stats.Found += uint64(len(m.outbox))
			m.stats.Seen += uint64(len(m.outbox))
		})
	}, []string{"NotesComeWithTheirPage"}},
	{"returns notes out of order", func(b *brokenNotes) {
		b.notes = func(ctx context.Context, n int) (exact.NoteBatch, error) {
			batch, err := b.Memory.Notes(ctx, n)
			slices.Reverse(batch.Notes)
			return batch, err
		}
	}, []string{"NotesAreInOrder"}},
	{"removes notes when they are read", func(b *brokenNotes) {
		b.notes = func(ctx context.Context, n int) (exact.NoteBatch, error) {
			batch, err := b.Memory.Notes(ctx, n)
			b.locked(func(m *Memory) { m.outbox = m.outbox[min(len(batch.Notes), len(m.outbox)):] })
			return batch, err
		}
	}, []string{"NotesComeWithTheirPage", "NotesAreInOrder", "RacersDeliverEachNoteOnce"}},
	{"accepts every receipt", func(b *brokenNotes) {
		b.delivered = func(ctx context.Context, batch exact.NoteBatch, seen uint64, refused []frontier.Refusal) (bool, error) {
			b.locked(func(m *Memory) { batch.Receipt = strconv.FormatUint(m.told, 10) })
			return b.Memory.Delivered(ctx, batch, seen, refused)
		}
	}, []string{"NotesAreInOrder"}},
	{"does not count delivered links", func(b *brokenNotes) {
		b.delivered = func(ctx context.Context, batch exact.NoteBatch, _ uint64, _ []frontier.Refusal) (bool, error) {
			return b.Memory.Delivered(ctx, batch, 0, nil)
		}
	}, []string{"NotesComeWithTheirPage", "NotesAreInOrder", "RacersDeliverEachNoteOnce"}},
	{"reports empty while it has notes", func(b *brokenNotes) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			grant.Empty = len(grant.Leases) == 0
			return grant, err
		}
	}, nil},
	{"forgets its notes", func(b *brokenNotes) {
		b.reopen = func() (Crawl, error) {
			b.locked(func(m *Memory) { m.outbox = nil })
			return b, nil
		}
	}, []string{"NotesOutliveARestart"}},
}

// TestSuiteSeesBrokenNotes: for each of the noteMutants, the cases in caughtBy fail. If there
// are none, the random runs fail.
func TestSuiteSeesBrokenNotes(t *testing.T) {
	for _, m := range noteMutants {
		t.Run(m.name, func(t *testing.T) {
			open := driving(func(_ *testing.T, opt Options) Crawl {
				b := &brokenNotes{broken: newBroken(opt)}
				b.notes, b.delivered = b.Memory.Notes, b.Memory.Delivered
				m.breakIt(b)
				return b
			})
			for _, name := range m.caughtBy {
				suite.WantCaught(t, allCases(), name, open)
			}
			if len(m.caughtBy) == 0 {
				wantFound(t, open)
			}
		})
	}
}
