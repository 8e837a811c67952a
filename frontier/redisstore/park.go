package redisstore

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier/policy"
)

// A host that is due while the policy pauses it is parked: its score in partition.due becomes parked more, so that
// no look meets it. The score of a paused item in partition.delayed is parked. Each worker lets go those of its
// partitions that its policy does not pause any more: when it has a new policy, once more when no worker can obey an
// earlier one, and now and then, because a server can have lost the policy with which they were parked.

// parked is added to times in ms; PARKED in scripts. Sums are exact in a float64.
const parked = 1 << 52

const (
	unparkBatch = 100             // hosts, and items, of a partition at which one step looks
	unparkAgain = 6 * time.Second // after a new policy; workers learn it within 5 s
	unparkEvery = time.Minute
)

// parking says when a worker looks at what is parked. Only Lease uses it.
type parking struct {
	under *policy.Policy // the policy at the last look
	next  time.Time
}

// parkPaused removes the hosts that the policy pauses from a report, and returns a call that parks them.
func (s *Store) parkPaused(p *partition, r *report) []*call {
	now := s.cfg.Policy()
	if len(now.Pause) == 0 {
		return nil
	}
	var args []any
	r.due = slices.DeleteFunc(r.due, func(c candidate) bool {
		paused := now.HostPaused(c.host)
		if paused {
			args = append(args, c.host, c.since, c.since+parked)
		}
		return paused
	})
	if args == nil {
		return nil
	}
	return []*call{{part: p, script: moveScript, keys: []string{p.due}, args: args}}
}

// takeDue returns up to n hosts that were due, and that the policy does not pause.
func (l *loan) takeDue(n int) (hosts []candidate) {
	now := l.cfg.Policy()
	for len(hosts) < n {
		more := l.schedule.take(n - len(hosts))
		if len(more) == 0 {
			break
		}
		for _, c := range more {
			if now.HostPaused(c.host) {
				l.schedule.wake(c.part) // the next look parks it
			} else {
				hosts = append(hosts, c)
			}
		}
	}
	return hosts
}

// unpark looks at parked hosts and items if it is time, and then at the partitions of those that it has let go.
func (l *loan) unpark(ctx context.Context) error {
	s := l.Store
	k, p, now := &s.parking, s.cfg.Policy(), s.now()
	wait := unparkEvery
	if p != k.under {
		wait = unparkAgain
	} else if now.Before(k.next) && s.cfg.Now == nil { // tests move the clock forward
		return nil
	}
	for parts := range slices.Chunk(s.schedule.owned(), maxRetryHosts) {
		moved, err := s.unparkOf(ctx, p, parts)
		if err == nil {
			err = l.lookAt(ctx, moved)
		}
		if err != nil {
			return err
		}
	}
	k.under, k.next = p, now.Add(wait)
	return nil
}

// parkedSet is one of the two sorted sets of a partition.
type parkedSet struct {
	part *partition
	key  string
	skip int64 // its first parked members, which stay
	let  func(member string, score int64) (to int64, let bool)
}

// unparkOf looks at everything that is parked in partitions. It returns the partitions in which it has let something go.
func (s *Store) unparkOf(ctx context.Context, p *policy.Policy, parts []*partition) (moved []*partition, err error) {
	var sets []*parkedSet
	for _, part := range parts {
		sets = append(sets, &parkedSet{part: part, key: part.due, let: func(host string, score int64) (int64, bool) {
			return score - parked, !p.HostPaused(host)
		}}, &parkedSet{part: part, key: part.delayed, let: func(member string, _ int64) (int64, bool) {
			host, found := hostOfDelayed(member)
			if !found {
				return 0, false
			}
			item, err := decodeEntry(member[delayedSeqBytes+len(host)+1:], host, s.hasher)
			return 0, err == nil && !p.Paused(host, item.URL) && !(item.Round == 0 && s.full(p))
		}})
	}
	for len(sets) > 0 {
		pipe := s.client.Pipeline()
		read := make([]*redis.ZSliceCmd, len(sets))
		for i, set := range sets {
			read[i] = pipe.ZRangeByScoreWithScores(ctx, set.key, &redis.ZRangeBy{
				Min: strconv.FormatInt(parked, 10), Max: "+inf", Offset: set.skip, Count: unparkBatch,
			})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return nil, s.classify(ctx, err)
		}
		var calls []*call
		left := sets[:0]
		for i, set := range sets {
			var args []any
			members := read[i].Val()
			for _, z := range members {
				member, score := z.Member.(string), int64(z.Score)
				if to, let := set.let(member, score); let {
					args = append(args, member, score, to)
				} else {
					set.skip++
				}
			}
			if args != nil {
				calls = append(calls, &call{part: set.part, script: moveScript, keys: []string{set.key}, args: args})
			}
			if len(members) == unparkBatch {
				left = append(left, set)
			}
		}
		s.runAll(ctx, calls)
		for _, c := range calls {
			if c.err != nil {
				return nil, c.err
			}
			if !slices.Contains(moved, c.part) {
				moved = append(moved, c.part)
			}
		}
		sets = left
	}
	return moved, nil
}
