package redisstore

import (
	"context"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// totals are counters summed over the partitions. The counters of one partition are of one
// moment.
type totals struct {
	queued, leased, pages uint64          // pages without fieldPagesAgain
	checks                frontier.Checks // without Added
	ended                 uint64          // items that are done or failed, and failed items that were queued again; only grows
	at                    time.Time
	completed             uint64 // Store.completed at that time
}

func (t *totals) left() uint64 { return t.queued + t.leased }

// totalsAge is the maximum age of the totals from which Lease concludes that the crawl goes on.
// Lease reads new totals before it reports that the crawl is Empty or Limited.
const totalsAge = 250 * time.Millisecond

// recentTotals returns totals that are at most totalsAge old.
func (s *Store) recentTotals(ctx context.Context) (totals, error) {
	if last := s.lastTotals.Load(); last != nil && s.cfg.Now == nil && s.now().Sub(last.at) < totalsAge {
		return *last, nil
	}
	return s.readTotals(ctx)
}

func (s *Store) readTotals(ctx context.Context) (totals, error) {
	sum := totals{at: s.now(), completed: s.completed.Load()}
	replies, err := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.SliceCmd {
		return pipe.HMGet(ctx, p.meta, fieldEpoch, "queued", "leased", "pages", "done", "failed", "rounds", fieldChecksQueued, fieldChecksLeased, fieldPagesAgain)
	})
	if err != nil {
		return totals{}, s.classify(ctx, err)
	}
	for p, reply := range replies {
		if at(reply.Val(), 0) == nil {
			return totals{}, s.errGone(s.parts[p])
		}
		var n [9]uint64
		for i, value := range reply.Val()[1:] {
			n[i], _ = strconv.ParseUint(text(value), 10, 64)
		}
		sum.queued += n[0]
		sum.leased += n[1]
		sum.pages += n[2] - n[8]
		sum.ended += n[3] + n[4] + n[5]
		sum.checks.Queued += n[6]
		sum.checks.Leased += n[7]
	}
	s.lastTotals.Store(&sum)
	return sum, nil
}

// empty reports whether the crawl had no queued or leased items at some moment during the call.
//
// One reading of all partitions can miss an item, because a page that ends in one partition
// can add links to another. But the number of ended items and the number of items ever added
// (ended, queued or leased) only grow. empty reads all partitions twice. If the number of
// items ever added in the second reading equals the number of ended items in the first, then
// no item was queued or leased between the two readings.
func (s *Store) empty(ctx context.Context) (bool, error) {
	first, err := s.readTotals(ctx)
	if err != nil || first.left() > 0 {
		return false, err
	}
	second, err := s.readTotals(ctx)
	return err == nil && second.ended+second.left() == first.ended, err
}

// sum sets the fields of the grant that depend on the counters. It reads no counters if the
// grant has items and there is no limit of pages. A grant with leases can have no items, because
// a lease that is granted again may have no items left.
func (l *loan) sum(ctx context.Context) error {
	lent := slices.ContainsFunc(l.grant.Leases, func(g frontier.Lease) bool { return len(g.Items) > 0 })
	if l.cfg.Policy().Recrawl.On() {
		l.request.MaxPages = 0 // only first visits are limited, and workers hold them
	}
	if lent && l.request.MaxPages == 0 {
		return nil
	}
	recent, err := l.recentTotals(ctx)
	if err != nil {
		return err
	}
	limited := func(t *totals) bool {
		return l.request.MaxPages > 0 && t.queued > t.checks.Queued && t.pages >= l.request.MaxPages
	}
	if limited(&recent) {
		if recent, err = l.readTotals(ctx); err != nil {
			return err
		}
		l.grant.Limited = limited(&recent)
		l.grant.Reached = l.grant.Limited && recent.checks.Waiting() == 0
	}
	if !lent && recent.left() == 0 {
		l.grant.Empty, err = l.empty(ctx)
	}
	return err
}

const (
	// pagesAge is the maximum age of the count of pages with which LimitReached compares.
	pagesAge = time.Second
	// pageTime is the time that a page takes at least in LimitReached: all workers together
	// fetch no more than 10,000 pages per second.
	pageTime = 100 * time.Microsecond
)

// LimitReached implements frontier.Store. It uses a count of pages that was read after the call, or
// one that is younger than pagesAge and than pageTime for each page that was left to the limit. To the
// latter it adds the pages that this Store has completed since.
func (s *Store) LimitReached(ctx context.Context, maxPages uint64) (bool, error) {
	if maxPages == 0 {
		return false, nil
	}
	asked := s.now()
	s.counting.Lock()
	defer s.counting.Unlock()
	if last := s.lastTotals.Load(); last != nil && s.cfg.Now == nil {
		if last.at.After(asked) {
			return last.pages >= maxPages, nil
		}
		pages := last.pages + s.completed.Load() - last.completed
		left := min(maxPages-min(pages, maxPages), uint64(pagesAge/pageTime))
		if s.now().Sub(last.at) < pageTime*time.Duration(left) {
			return false, nil
		}
	}
	sum, err := s.readTotals(ctx)
	return sum.pages >= maxPages, err
}

// full reports whether the crawl visits pages again, and has all pages that it may have, as this process knows.
func (s *Store) full(p *policy.Policy) bool {
	last := s.lastTotals.Load()
	return p.Recrawl.On() && p.MaxPages > 0 && last != nil && last.pages >= p.MaxPages
}

// countPages counts the pages of a call of Complete that returns, even if it has failed: too high a count
// only makes LimitReached read a new one.
func (s *Store) countPages(done []frontier.Completion) {
	for i := range done {
		if done[i].Disposition == frontier.Finish && done[i].Page {
			s.completed.Add(1)
		}
	}
}

// lendAtLimit leases hosts when MaxPages is reached: those of checks, and repeats.
func (l *loan) lendAtLimit(ctx context.Context) error {
	if !l.schedule.enough(1, l.now()) && len(l.doubtful) == 0 {
		return nil
	}
	if err := l.lendChecks(ctx); err != nil {
		return err
	}
	return l.try(ctx, l.next(ctx, len(l.doubtful)), 0)
}

// lendChecks leases hosts of checks, to which MaxPages does not apply. It is called when no other
// item may be leased. Hosts that are due for longer than those of checks would hide them from a
// look, so lendChecks looks for hosts of checks only.
func (l *loan) lendChecks(ctx context.Context) error {
	sum, err := l.recentTotals(ctx)
	if err != nil || sum.checks.Queued == 0 || len(l.fresh) == 0 {
		return err
	}
	peeks := make([]*call, len(l.parts))
	for i, p := range l.parts {
		peeks[i] = &call{part: p, script: checksScript, keys: []string{p.meta, p.due}, args: []any{len(l.fresh), mathrand.Float64()}}
	}
	l.runAll(ctx, peeks)
	var tries []*heldLease
	for _, peek := range peeks {
		for _, host := range list(peek.reply) {
			if len(l.fresh) > 0 {
				tries = append(tries, newHeldLease(l.fresh[0], peek.part, text(host)))
				l.fresh = l.fresh[1:]
			}
		}
		if peek.err != nil {
			l.failed = peek.err
		}
	}
	if len(tries) == 0 {
		return nil
	}
	return l.try(ctx, tries, maxBatch)
}
