package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

// totals are counters summed over the partitions. The counters of one partition are of one
// moment.
type totals struct {
	queued, leased, pages uint64
	checks                frontier.Checks // without Added
	noted                 uint64          // notes in outboxes
	ended                 uint64          // items that are done or failed, and failed items that were queued again; only grows
	at                    time.Time
}

// allowance returns how many more items can be leased until pages and leased items together
// reach maxPages.
func (t *totals) allowance(maxPages uint64) int {
	return int(min(maxPages-min(t.pages+t.leased-min(t.checks.Leased, t.leased), maxPages), 1<<30))
}

func (t *totals) left() uint64 { return t.queued + t.leased + t.noted }

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
	sum := totals{at: s.now()}
	replies, err := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.SliceCmd {
		return pipe.HMGet(ctx, p.meta, fieldEpoch, "queued", "leased", "pages", "done", "failed", "rounds", fieldOutbox,
			fieldChecksQueued, fieldChecksLeased)
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
		sum.pages += n[2]
		sum.ended += n[3] + n[4] + n[5]
		sum.noted += n[6]
		sum.checks.Queued += n[7]
		sum.checks.Leased += n[8]
	}
	s.lastTotals.Store(&sum)
	return sum, nil
}

// empty reports whether the crawl had no queued or leased items and no notes at some moment
// during the call. A note leaves the outbox only after its item was added.
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
	if lent && l.request.MaxPages == 0 {
		return nil
	}
	recent, err := l.recentTotals(ctx)
	if err != nil {
		return err
	}
	limited := func(t *totals) bool {
		return l.request.MaxPages > 0 && t.queued > t.checks.Queued && t.allowance(l.request.MaxPages) == 0
	}
	if limited(&recent) {
		if recent, err = l.readTotals(ctx); err != nil {
			return err
		}
		l.grant.Limited = limited(&recent)
		l.grant.Reached = l.grant.Limited && recent.pages >= l.request.MaxPages && recent.checks.Waiting() == 0
	}
	if !lent && recent.left() == 0 {
		l.grant.Empty, err = l.empty(ctx)
	}
	return err
}

// lendLimited leases hosts within MaxPages. The sum of pages and leased items grows only when
// items are leased. So all calls with a limit lease items under one lock of the whole crawl.
func (l *loan) lendLimited(ctx context.Context) error {
	if !l.schedule.enough(1, l.now()) && len(l.doubtful) == 0 {
		return nil
	}
	left, limitEnd, unlock, err := l.reserve(ctx, l.request.MaxPages, len(l.fresh)*maxBatch)
	if err != nil {
		return err
	}
	defer unlock()
	if left == 0 {
		if err := l.lendChecks(ctx); err != nil {
			return err
		}
	}
	for range maxTries {
		n := max(left/maxBatch, 1)
		if left == 0 {
			n = len(l.doubtful) // these may be granted already
		}
		tries := l.next(ctx, n)
		if len(tries) == 0 {
			return nil
		}
		before := l.handed
		if err := l.try(ctx, tries, min(left, maxBatch), limitEnd); err != nil {
			return err
		}
		left -= l.handed - before
	}
	return nil
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
	return l.try(ctx, tries, maxBatch, time.Time{})
}

// reserve acquires the lock of MaxPages. It returns how many items the caller can lease, and
// limitEnd, the time until which this number is valid. The number is 0 if another worker has
// the lock. If reserve returns no error, the caller must call unlock.
func (s *Store) reserve(ctx context.Context, maxPages uint64, wanted int) (maxItems int, limitEnd time.Time, unlock func(), err error) {
	limitEnd, unlock, err = s.lockPages(ctx)
	if err != nil || unlock == nil {
		return 0, limitEnd, func() {}, err
	}
	if maxItems, err = s.allowance(ctx, maxPages, wanted); err != nil {
		unlock()
		return 0, limitEnd, nil, err
	}
	return maxItems, limitEnd, unlock, nil
}

// allowance returns how many more items maxPages permits. If the caller wants more, allowance
// first ends expired leases, because the items of a lease count until it is ended. The worker
// that would end these leases may have died.
func (s *Store) allowance(ctx context.Context, maxPages uint64, wanted int) (int, error) {
	sum, err := s.readTotals(ctx)
	if err != nil {
		return 0, err
	}
	if maxItems := sum.allowance(maxPages); maxItems >= wanted || sum.leased == 0 {
		return maxItems, nil
	}
	if s.cfg.Now != nil {
		s.schedule.forget() // tests move the clock forward
	}
	parts := s.schedule.toLook(s.now(), true)
	if len(parts) == 0 {
		return sum.allowance(maxPages), nil
	}
	if err := s.look(ctx, parts, 1); err != nil {
		return 0, err
	}
	sum, err = s.readTotals(ctx)
	return sum.allowance(maxPages), err
}

const (
	// pagesLockTTL is the time after which the lock of a dead holder expires. pagesLockUse is
	// the time for which a holder uses the lock.
	pagesLockTTL = 10 * time.Second
	pagesLockUse = 5 * time.Second
	// pagesLockWait is the maximum time that a caller waits for the lock.
	pagesLockWait = 2 * time.Second
)

// lockPages acquires the lock of MaxPages. Counters that were read under the lock are valid
// until the returned time. A nil unlock without an error means that another worker has the
// lock.
func (s *Store) lockPages(ctx context.Context) (validUntil time.Time, unlock func(), err error) {
	key, token := s.cfg.pagesKey(), rand.Text()
	for giveUp := time.Now().Add(pagesLockWait); ; {
		asked := time.Now()
		err := s.write(ctx, "SET", key, token, "NX", "PX", pagesLockTTL.Milliseconds()).Err()
		switch {
		case err == nil:
			return asked.Add(pagesLockUse), func() { s.unlockPages(ctx, token) }, nil
		case !errors.Is(err, redis.Nil):
			return time.Time{}, nil, s.classify(ctx, err)
		case time.Now().After(giveUp):
			return time.Time{}, nil, nil
		}
		if err := sleep(ctx, time.Millisecond+mathrand.N(10*time.Millisecond)); err != nil {
			return time.Time{}, nil, err
		}
	}
}

// unlockPages releases the lock. If the server does not answer, for example because it stalls
// for a moment, the lock stays until it expires. Until then no items are leased.
func (s *Store) unlockPages(ctx context.Context, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pagesLockUse)
	defer cancel()
	_ = unlockScript.Run(ctx, s.client, []string{s.cfg.pagesKey()}, token).Err()
}

// fence returns limitEnd by the clock of the partition's server, in ms, as an argument of a
// script. It returns "", which means no end, if limitEnd is zero or a test sets the time.
func (s *Store) fence(p *partition, limitEnd time.Time) any {
	if limitEnd.IsZero() || s.cfg.Now != nil {
		return ""
	}
	return s.schedule.serverTime(p, limitEnd)
}
