package frontiertest

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// A mutant is a store with one fault.
type mutant struct {
	name     string
	breakIt  func(b *broken)
	caughtBy []string // cases that must fail; others can fail, too; nil means that the random runs must fail
	// unseen says that the random runs do not find the fault. Examples are faults that show
	// only after a false positive, a race, an output error or a call of Reserve, because the
	// random runs have none of these.
	unseen bool
}

// crowd makes two callers wait for each other, so that a race is almost certain.
type crowd struct{ callers atomic.Int32 }

// meet waits a short time for a call of meet by another goroutine.
func (c *crowd) meet() {
	c.callers.Add(1)
	defer c.callers.Add(-1)
	for range 10_000 {
		if c.callers.Load() > 1 {
			return
		}
		runtime.Gosched()
	}
}

var mutants = []mutant{
	{"forgets to answer what it has seen", func(b *broken) {
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			verdicts, err := b.Memory.Add(ctx, items)
			for i := range verdicts {
				if verdicts[i].Answer == frontier.Seen {
					verdicts[i] = frontier.Verdict{}
				}
			}
			return verdicts, err
		}
	}, nil, false},
	{"answers added twice", func(b *broken) {
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			verdicts, err := b.Memory.Add(ctx, items)
			for i := range verdicts {
				if verdicts[i].Answer == frontier.Seen {
					verdicts[i].Answer = frontier.Added
				}
			}
			return verdicts, err
		}
	}, []string{"RacersAddEachURLOnce"}, false},
	{"checks and marks in two steps", func(b *broken) {
		var between crowd
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			status, err := b.Lookup(ctx, items[0].Host, items[0].URL)
			between.meet()
			verdicts, err2 := b.Memory.Add(ctx, items)
			if err2 == nil && status.State == frontier.Unknown && verdicts[0].Answer == frontier.Seen {
				verdicts[0].Answer = frontier.Added
			}
			return verdicts, errors.Join(err, err2)
		}
	}, []string{"RacersAddEachURLOnce"}, true},
	{"remembers what it refuses", func(b *broken) {
		var mu sync.Mutex
		refused := map[string]bool{}
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			verdicts, err := b.Memory.Add(ctx, items)
			mu.Lock()
			defer mu.Unlock()
			for i := range verdicts {
				if refused[items[i].URL] {
					verdicts[i] = frontier.Verdict{Answer: frontier.Seen}
				}
				refused[items[i].URL] = verdicts[i].Answer == frontier.Refused
			}
			return verdicts, err
		}
	}, []string{"AddHoldsTheHostLimit"}, false},
	{"limits the hosts of seeds", func(b *broken) { b.cfg.SeedsUnlimited = false }, []string{"AddHoldsNoLimitForHostsOfSeeds"}, false},
	{"has no host limit", func(b *broken) { b.cfg.MaxPerHost = 0 }, []string{"AddHoldsTheHostLimit", "AddHoldsNoLimitForHostsOfSeeds"}, false},
	{"reserves one key too many", func(b *broken) {
		b.reserve = func(ctx context.Context, keys []frontier.QuotaKey, maxKeys uint64) ([]bool, error) {
			return b.Memory.Reserve(ctx, keys, maxKeys+1)
		}
	}, []string{"ReserveStopsAtTheLimit", "ReserveDecidesManyAtOnce", "RacersNeverPassTheLimit"}, true},
	{"drops exact items", func(b *broken) {
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			items = slices.Clone(items)
			for i := range items {
				items[i].Class = frontier.Bulk
			}
			return b.Memory.Add(ctx, items)
		}
	}, []string{"AddNeverDropsExact"}, false},
	{"hands out delayed items early", func(b *broken) {
		b.add = func(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
			items = slices.Clone(items)
			for i := range items {
				items[i].Delay /= 2
			}
			return b.Memory.Add(ctx, items)
		}
	}, nil, false},
	{"hands out the last first", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					slices.Reverse(h.queue)
				}
			})
			return b.Memory.Lease(ctx, request)
		}
	}, nil, false},
	{"hands a host out twice", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			b.locked(func(m *Memory) {
				for _, l := range grant.Leases {
					m.hosts[l.Host].lease = nil
				}
			})
			return grant, err
		}
	}, nil, false},
	{"promises a repeat a whole lease", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			for i := range grant.Leases {
				grant.Leases[i].TTL = b.cfg.LeaseTTL
			}
			return grant, err
		}
	}, []string{"LeaseRepeatReturnsTheTimeLeft"}, false},
	{"gives a repeat another host", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			b.locked(func(m *Memory) {
				for _, id := range request.IDs {
					delete(m.leases, id)
				}
			})
			return b.Memory.Lease(ctx, request)
		}
	}, []string{"RacersRepeatOneLease"}, false},
	{"ignores priorities", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					slices.SortFunc(h.queue, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
				}
			})
			return b.Memory.Lease(ctx, request)
		}
	}, nil, false},
	{"gives a repeat fewer items", func(b *broken) {
		var repeats atomic.Bool
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			b.locked(func(m *Memory) {
				repeats.Store(slices.ContainsFunc(request.IDs, func(id frontier.LeaseID) bool { return m.leases[id] != nil }))
			})
			grant, err := b.Memory.Lease(ctx, request)
			for i, l := range grant.Leases {
				if repeats.Load() && len(l.Items) > 1 {
					grant.Leases[i].Items = l.Items[1:]
				}
			}
			return grant, err
		}
	}, nil, false},
	{"never waits", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			grant.Wait = 0
			return grant, err
		}
	}, nil, false},
	{"waits too long", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			grant.Wait *= 2
			return grant, err
		}
	}, nil, false},
	{"is empty too early", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			b.locked(func(m *Memory) { grant.Empty = m.stats.Queued == 0 })
			return grant, err
		}
	}, []string{"LeaseReportsEmpty"}, false},
	{"does not report the limit", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			grant.Limited = false
			return grant, err
		}
	}, nil, false},
	{"leases beyond the limit", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			request.MaxPages *= 2
			return b.Memory.Lease(ctx, request)
		}
	}, nil, false},
	{"tops up beyond the limit", func(b *broken) {
		b.extend = func(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
			topUp.MaxPages = 0
			return b.Memory.Extend(ctx, id, topUp)
		}
	}, []string{"ExtendHoldsMaxPages"}, false},
	{"leases at the limit of pages", func(b *broken) {
		b.cfg.PagesOnly = true
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			request.MaxPages *= 2
			return b.Memory.Lease(ctx, request)
		}
	}, []string{"NothingIsLeasedAtTheLimit"}, false},
	{"does not say that the limit of pages is reached", func(b *broken) {
		b.cfg.PagesOnly = true
		b.limit = func(context.Context, uint64) (bool, error) { return false, nil }
	}, []string{"NothingIsLeasedAtTheLimit"}, false},
	{"says too soon that the limit of pages is reached", func(b *broken) {
		b.cfg.PagesOnly = true
		b.limit = func(ctx context.Context, maxPages uint64) (bool, error) {
			return b.Memory.LimitReached(ctx, max(maxPages, 1)-1)
		}
	}, []string{"NothingIsLeasedAtTheLimit"}, false},
	{"tops up with what was completed", func(b *broken) {
		b.extend = func(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
			b.locked(func(m *Memory) {
				if l := m.leases[id]; l != nil {
					for e := range l.completed {
						if e.state == frontier.Queued {
							delete(l.completed, e)
							l.items = slices.DeleteFunc(l.items, func(other *entry) bool { return other == e })
						}
					}
				}
			})
			return b.Memory.Extend(ctx, id, topUp)
		}
	}, []string{"ExtendHandsOutNothingCompleted"}, false},
	{"repeats nothing of a top-up", func(b *broken) {
		b.extend = func(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
			before := 0
			b.locked(func(m *Memory) {
				if l := m.leases[id]; l != nil {
					before = len(l.handed)
				}
			})
			extension, err := b.Memory.Extend(ctx, id, topUp)
			extension.Items = extension.Items[min(max(before-topUp.Known, 0), len(extension.Items)):]
			return extension, err
		}
	}, nil, false},
	{"repeats too much of a top-up", func(b *broken) {
		b.extend = func(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
			topUp.Known = max(topUp.Known-1, 0)
			return b.Memory.Extend(ctx, id, topUp)
		}
	}, nil, false},
	{"accepts a blob of any size", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			update.Blob = update.Blob[:min(len(update.Blob), frontier.MaxBlob)]
			return b.Memory.Complete(ctx, id, done, update)
		}
	}, []string{"CompleteRefusesBadCalls"}, true},
	{"names the item itself as the first with its content", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			b.locked(func(m *Memory) { clear(m.showed) })
			return b.Memory.Complete(ctx, id, done, update)
		}
	}, []string{"ContentsHaveAFirstItem", "DuplicatesAddNoLinks"}, false},
	{"follows the links of duplicates", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			done = slices.Clone(done)
			for i := range done {
				done[i].Showed.WithLinks = frontier.Content{}
			}
			return b.Memory.Complete(ctx, id, done, update)
		}
	}, []string{"DuplicatesAddNoLinks"}, false},
	{"ignores items of other leases", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			own := slices.DeleteFunc(slices.Clone(done), func(c frontier.Completion) bool {
				return !slices.ContainsFunc(b.leases[id].items, func(e *entry) bool { return e.item.Fingerprint == c.Item })
			})
			return b.Memory.Complete(ctx, id, own, update)
		}
	}, []string{"CompleteRefusesBadCalls"}, true},
	{"extends for a moment", func(b *broken) {
		b.extend = func(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
			extension, err := b.Memory.Extend(ctx, id, topUp)
			b.locked(func(m *Memory) {
				if l := m.leases[id]; l != nil {
					l.deadline = m.cfg.Now().Add(m.cfg.LeaseTTL / 2)
				}
			})
			return extension, err
		}
	}, nil, false},
	{"extends a lost lease", func(b *broken) {
		b.extend = func(ctx context.Context, id frontier.LeaseID, topUp frontier.TopUp) (frontier.Extension, error) {
			extension, err := b.Memory.Extend(ctx, id, topUp)
			if errors.Is(err, frontier.ErrLeaseLost) {
				return frontier.Extension{TTL: b.cfg.LeaseTTL}, nil
			}
			return extension, err
		}
	}, nil, false},
	{"counts a delivery of all items of a lost lease", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			request.InFlight = 32
			return b.Memory.Lease(ctx, request)
		}
	}, nil, false},
	{"makes hosts of lost leases due without delay", func(b *broken) { b.expiring(func(l *lease) { l.host.delay = 0 }) },
		nil, false},
	{"forgets a back-off when a lease is lost", func(b *broken) { b.expiring(func(l *lease) { l.host.due = time.Time{} }) },
		[]string{"ExpiryKeepsTheBackOff"}, false},
	{"loses an item given back", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			err := b.Memory.Complete(ctx, id, done, update)
			b.drop(func(e *entry) bool {
				return slices.ContainsFunc(done, func(c frontier.Completion) bool {
					return err == nil && c.Disposition == frontier.GiveBack && c.Item == e.item.Fingerprint
				})
			})
			return err
		}
	}, []string{"ExtendHandsOutNothingCompleted"}, false},
	{"loses what an ended lease held", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			var l *lease
			b.locked(func(m *Memory) { l = m.leases[id] })
			err := b.Memory.Complete(ctx, id, done, update)
			if err == nil && update.End && l != nil {
				b.drop(func(e *entry) bool { return slices.Contains(l.items, e) && !l.completed[e] })
			}
			return err
		}
	}, nil, false},
	{"makes hosts due too early", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			update.Due /= 2
			return b.Memory.Complete(ctx, id, done, update)
		}
	}, nil, false},
	{"forgets blobs", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			update.Blob = nil
			return b.Memory.Complete(ctx, id, done, update)
		}
	}, nil, false},
	{"writes no records", func(b *broken) { b.records(func(record) record { return nil }) },
		[]string{"RecordErrorFailsTheCompletion"}, false},
	{"writes records twice", func(b *broken) {
		b.records(func(write record) record {
			return func(counts frontier.LinkCounts) error { return errors.Join(write(counts), write(counts)) }
		})
	}, nil, false},
	{"passes wrong counts to records", func(b *broken) {
		b.records(func(write record) record {
			return func(counts frontier.LinkCounts) error {
				counts.Seen, counts.Added = counts.Added, counts.Seen
				return write(counts)
			}
		})
	}, nil, false},
	{"ignores errors of records", func(b *broken) {
		b.records(func(write record) record {
			return func(counts frontier.LinkCounts) error { _ = write(counts); return nil }
		})
	}, []string{"RecordErrorFailsTheCompletion"}, true},
	{"never syncs", func(b *broken) { b.cfg.Output = nil },
		[]string{"RecordIsSyncedBeforeTheEffect", "SyncErrorFailsTheCompletion"}, true},
	{"completes twice", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			b.locked(func(m *Memory) {
				if l := m.leases[id]; l != nil {
					for _, c := range done {
						delete(l.completed, m.entries[c.Item])
					}
				}
			})
			return b.Memory.Complete(ctx, id, done, update)
		}
	}, nil, false},
	{"refuses the repeat of an end", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			err := b.Memory.Complete(ctx, id, done, update)
			b.locked(func(m *Memory) {
				if l := m.leases[id]; l != nil && l.ended {
					delete(m.leases, id)
				}
			})
			return err
		}
	}, nil, false},
	{"completes items of a lost lease", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			err := b.Memory.Complete(ctx, id, done, update)
			if errors.Is(err, frontier.ErrLeaseLost) {
				return nil
			}
			return err
		}
	}, nil, false},
	{"adds the links of a lost lease", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			err := b.Memory.Complete(ctx, id, done, update)
			if errors.Is(err, frontier.ErrLeaseLost) {
				for _, c := range done {
					_, err2 := b.Add(ctx, c.Links)
					err = errors.Join(err, err2)
				}
			}
			return err
		}
	}, nil, false},
	{"counts wrong but in balance", func(b *broken) {
		b.stats = func(ctx context.Context) (frontier.Stats, error) {
			stats, err := b.Memory.Stats(ctx)
			if stats.Seen > 0 {
				stats.Seen++
				stats.Found++
			}
			return stats, err
		}
	}, nil, false},
	{"counts out of balance", func(b *broken) {
		b.stats = func(ctx context.Context) (frontier.Stats, error) {
			stats, err := b.Memory.Stats(ctx)
			stats.Queued += stats.Delayed
			return stats, err
		}
	}, nil, false},
	{"audits wrong", func(b *broken) {
		b.audit = func(ctx context.Context) (frontier.Audit, error) {
			audit, err := b.Memory.Audit(ctx)
			audit.Failed += audit.Done
			return audit, err
		}
	}, nil, false},
	{"lists all items but the first", func(b *broken) {
		b.list = func(ctx context.Context, state frontier.State, host string, visit func(frontier.Item) bool) error {
			first := true
			return b.Memory.List(ctx, state, host, func(item frontier.Item) bool {
				skip := first
				first = false
				return skip || visit(item)
			})
		}
	}, nil, false},
	{"goes on while paused", func(b *broken) { b.pause = func(context.Context, bool) error { return nil } },
		nil, false},
	{"retries in the same round", func(b *broken) {
		b.retry = func(ctx context.Context, of frontier.Failures) (int, error) {
			n, err := b.Memory.Retry(ctx, of)
			b.locked(func(m *Memory) {
				for _, e := range m.entries {
					e.item.Round = 0
				}
			})
			return n, err
		}
	}, nil, false},
	{"retries all hosts", func(b *broken) {
		b.retry = func(ctx context.Context, of frontier.Failures) (int, error) {
			of.Host = ""
			return b.Memory.Retry(ctx, of)
		}
	}, nil, false},
	{"retries all outcomes", func(b *broken) {
		b.retry = func(ctx context.Context, of frontier.Failures) (int, error) {
			of.Outcome = ""
			return b.Memory.Retry(ctx, of)
		}
	}, nil, false},
	{"retries what failed at any time", func(b *broken) {
		b.retry = func(ctx context.Context, of frontier.Failures) (int, error) {
			of.Within = 0
			return b.Memory.Retry(ctx, of)
		}
	}, nil, false},
	{"has no rate of sites", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					h.share = 0
				}
			})
			return b.Memory.Lease(ctx, request)
		}
	}, []string{"SiteHasItsRate", "SiteHasOneHostAtLeast", "SiteObeysANewRate"}, false},
	{"ends places with the lease", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			err := b.Memory.Complete(ctx, id, done, update)
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					h.leaves = time.Time{}
				}
			})
			return err
		}
	}, []string{"SiteHasItsRate", "SiteHasOneHostAtLeast"}, false},
	{"keeps places during back-offs", func(b *broken) {
		b.complete = func(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
			err := b.Memory.Complete(ctx, id, done, update)
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					if h.lease == nil {
						h.leaves = h.due
					}
				}
			})
			return err
		}
	}, []string{"SiteHasItsRate"}, true},
	{"counts hosts of a site, not requests", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					h.share = min(1, h.share*1e9)
				}
			})
			return b.Memory.Lease(ctx, request)
		}
	}, []string{"SiteAddsUpTheDelays"}, true},
	{"gives places to callers that make no request", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			grant, err := b.Memory.Lease(ctx, request)
			b.locked(func(m *Memory) {
				for _, l := range grant.Leases {
					if h := m.hosts[l.Host]; h.lease != nil && h.lease.inFlight == 0 {
						h.share, h.leaves = 1, m.cfg.Now().Add(m.cfg.LeaseTTL)
					}
				}
			})
			return grant, err
		}
	}, []string{"SiteCountsOnlyRequests"}, true},
	{"limits addresses", func(b *broken) {
		b.lease = func(ctx context.Context, request frontier.LeaseRequest) (frontier.Grant, error) {
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					h.site = "all"
				}
			})
			return b.Memory.Lease(ctx, request)
		}
	}, []string{"SiteLeavesOutChecksAndAddresses"}, false},
	{"forgets that it is paused", func(b *broken) {
		b.reopen = func() (Crawl, error) { return b, b.Memory.Pause(context.Background(), false) }
	}, []string{"ReopenKeepsEverything", "CrashKeepsWhatWasAnswered"}, false},
	{"loses items when it starts", func(b *broken) {
		b.reopen = func() (Crawl, error) {
			b.drop(func(e *entry) bool { return e.seq%7 == 0 })
			b.locked(func(m *Memory) {
				for fp, e := range m.entries {
					if e.seq%7 == 0 && e.state == frontier.Queued {
						delete(m.entries, fp)
						m.stats.Queued--
						m.stats.Added--
						m.stats.Found--
					}
				}
			})
			return b, nil
		}
	}, []string{"ReopenKeepsEverything", "CrashKeepsWhatWasAnswered"}, false},
	{"makes every host due when it starts", func(b *broken) {
		b.reopen = func() (Crawl, error) {
			b.locked(func(m *Memory) {
				for _, h := range m.hosts {
					h.due = time.Time{}
				}
			})
			return b, nil
		}
	}, []string{"ReopenKeepsEverything", "CrashKeepsWhatWasAnswered"}, false},
}

// wantFound fails the test unless at least half of ten random runs find a fault. The runs are
// as short as those in the tests of the stores. It is for faults that no case is about.
func wantFound(t *testing.T, open func(*testing.T, Options) *driver) {
	t.Helper()
	const runs = 10
	found := 0
	for seed := range uint64(runs) {
		if suite.Try(t, modelRun(seed, 300), open) != nil {
			found++
		}
	}
	if found < runs/2 {
		t.Errorf("%d of %d random runs found a fault, want at least half", found, runs)
	}
}

// TestSuiteSeesBrokenStores: the suite fails for each of the mutants.
func TestSuiteSeesBrokenStores(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			open := driving(func(_ *testing.T, opt Options) Crawl {
				b := newBroken(opt)
				m.breakIt(b)
				return b
			})
			for _, name := range m.caughtBy {
				suite.WantCaught(t, allCases(), name, open)
			}
			switch {
			case m.unseen:
				return
			case len(m.caughtBy) == 0:
				wantFound(t, open)
				return
			}
			for seed := range uint64(50) {
				if suite.Try(t, modelRun(seed, 500), open) != nil {
					return
				}
			}
			t.Error("50 random runs found no fault")
		})
	}
}

// TestReopenerIsReopened: a store passes the suite whether it keeps its leases over a
// restart or ends them.
func TestReopenerIsReopened(t *testing.T) {
	open := func(_ *testing.T, opt Options) Crawl { return newBroken(opt) }
	Run(t, open)
	for seed := range uint64(10) {
		Model(t, open, seed, 500)
	}
}
