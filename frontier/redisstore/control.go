package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
)

const (
	maxRetryItems = 100 // maximum number of items of one host in one step
	maxRetryHosts = 64  // maximum number of hosts in one step
)

// Pause implements frontier.Control.
func (s *Store) Pause(ctx context.Context, paused bool) error {
	if !paused {
		return s.classify(ctx, s.client.HDel(ctx, s.cfg.cardKey(), pausedField).Err())
	}
	return s.classify(ctx, s.write(ctx, "HSET", s.cfg.cardKey(), pausedField, 1).Err())
}

func (s *Store) paused(ctx context.Context) (bool, error) {
	paused, err := s.client.HExists(ctx, s.cfg.cardKey(), pausedField).Result()
	return paused, s.classify(ctx, err)
}

// Retry implements frontier.Control. It works in steps. Items that fail meanwhile are not queued
// again. If Retry fails, the result is the number of items that it has queued again until then. A failed exact item whose
// window is over is offered again, and counts if it is added: see exact.Client.Retry.
func (s *Store) Retry(ctx context.Context, of frontier.Failures) (int, error) {
	r := &retry{Store: s, of: of}
	total, err := r.run(ctx)
	return total + r.offered, err
}

func (r *retry) run(ctx context.Context) (int, error) {
	s, host := r.Store, r.of.Host
	if s.cfg.Exact != nil {
		if err := s.cfg.Exact.Ready(ctx); err != nil {
			return 0, err
		}
	}
	if host != "" {
		return r.requeue(ctx, s.partition(host), []string{host})
	}
	total := 0
	for _, p := range s.parts {
		failed, err := s.hostsWith(ctx, p, frontier.Failed)
		if err != nil {
			return total, err
		}
		for hosts := range slices.Chunk(failed, maxRetryHosts) {
			n, err := r.requeue(ctx, p, hosts)
			if total += n; err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// retry is a call of Retry.
type retry struct {
	*Store
	of      frontier.Failures
	offered int        // exact items that were offered and added
	now     int64      // of the server, ms; set if of.Within is
	once    *chunkCall // of RetryOnce; otherwise nil
	mark    int64      // with once: ms, items of the partition that failed later stay failed
}

// retrying is a host whose failed items are being queued again.
type retrying struct {
	host string
	left int64    // number of items that had failed at the beginning and must still be looked at
	kept int64    // number of items that were looked at and stay failed: they are the first ones in its list
	head []string // the values in its list of failed items after those
}

// again begins at the start of the list again.
func (h *retrying) again() { h.left, h.kept = h.left+h.kept, 0 }

// rounds are the rounds of a partition's items.
type rounds struct {
	top   uint32 // the latest one
	later uint64 // exact items that were queued although the filter claimed to contain them: other items of their URLs may have had any round up to top
}

// roundsOf reads fieldTop and fieldLater, which are missing if they are 0.
func roundsOf(fields []any) rounds {
	top, _ := strconv.ParseUint(text(fields[0]), 10, 32)
	later, _ := strconv.ParseUint(text(fields[1]), 10, 64)
	return rounds{uint32(top), later}
}

// next returns the next round of an item that failed in a round. pure reports that only one item of its URL can exist.
func (r rounds) next(round uint32, pure bool) uint32 {
	if r.later > 0 && !pure {
		return max(r.top, round) + 1
	}
	return round + 1
}

// requeue queues the failed items of the given hosts again.
func (r *retry) requeue(ctx context.Context, p *partition, hosts []string) (total int, err error) {
	todo := make([]retrying, len(hosts))
	for i, host := range hosts {
		todo[i] = retrying{host: host, left: math.MaxInt64}
	}
	for len(todo) > 0 {
		used, err := r.readFailed(ctx, p, todo)
		if err != nil {
			return total, err
		}
		n, err := r.step(ctx, p, todo, used)
		if total += n; err != nil {
			return total, err
		}
		todo = slices.DeleteFunc(todo, func(r retrying) bool { return r.left <= 0 })
	}
	return total, nil
}

// readFailed reads the lengths and the next values of the lists of failed items, and the rounds of the partition.
func (r *retry) readFailed(ctx context.Context, p *partition, todo []retrying) (used rounds, err error) {
	s := r.Store
	if r.once != nil {
		if r.mark, err = r.once.mark(ctx, p); err != nil {
			return used, err
		}
	}
	if r.of.Within > 0 {
		if r.now, err = r.millis(ctx, p); err != nil {
			return used, err
		}
	}
	pipe := s.client.Pipeline()
	fields := pipe.HMGet(ctx, p.meta, fieldTop, fieldLater)
	lengths, heads := make([]*redis.IntCmd, len(todo)), make([]*redis.StringSliceCmd, len(todo))
	for i, h := range todo {
		lengths[i] = pipe.LLen(ctx, p.failed(h.host))
		heads[i] = pipe.LRange(ctx, p.failed(h.host), h.kept, h.kept+min(h.left, maxRetryItems)-1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return used, s.classify(ctx, err)
	}
	for i := range todo {
		h, n := &todo[i], lengths[i].Val()
		h.head = heads[i].Val()
		if h.kept > 0 && n < h.kept+h.left {
			h.again() // another process has queued some of the items
			h.head = nil
		}
		h.left = min(h.left, n-h.kept)
	}
	return roundsOf(fields.Val()), nil
}

// step queues the items in the heads of todo again.
func (r *retry) step(ctx context.Context, p *partition, todo []retrying, used rounds) (total int, err error) {
	var calls []*call
	var of []*retrying
	for i := range todo {
		h := &todo[i]
		if len(h.head) == 0 {
			continue
		}
		args, given := newRetryArgs(h.host, used, h.kept), make(map[exact.Ref]bool)
		keys := append(p.hostKeys(h.host), p.failed(h.host), p.failedHosts, p.exact)
		if r.once != nil {
			args[3] = millis(r.once.TTL)
			keys = append(keys, p.verdicts(r.once.name))
		}
		for _, value := range h.head {
			if args, err = r.appendArgs(ctx, args, value, h.host, used, given); err != nil {
				return 0, err
			}
		}
		calls = append(calls, &call{part: p, script: retryScript, keys: keys, args: args})
		of = append(of, h)
	}
	r.runAll(ctx, calls)
	crash.Point("requeued")
	for i, c := range calls {
		if c.err != nil {
			err = errors.Join(err, c.err)
		} else if n := integer(c.reply); n < 0 {
			of[i].again() // another process has changed the list
		} else {
			of[i].left -= int64(len(of[i].head))
			of[i].kept += int64(len(of[i].head)) - n
			total += int(n)
		}
	}
	r.schedule.wake(p)
	return total, err
}

// newRetryArgs returns the first arguments of retry.lua.
func newRetryArgs(host string, used rounds, kept int64) []any {
	return []any{host, used.later, used.top, "", kept}
}

// appendArgs appends the arguments of retry.lua for a failed item. given has the rounds that were given to items of the call: a bulk
// item and an exact item of one URL can be among them.
func (r *retry) appendArgs(ctx context.Context, args []any, value, host string, used rounds, given map[exact.Ref]bool) ([]any, error) {
	e, err := r.failedEntry(value, host)
	if err != nil {
		return nil, err
	}
	item, ago := e.item, time.Duration(r.now-e.failedAt)*time.Millisecond
	stays := !r.of.Select(e.outcome, ago) || r.once != nil && e.failedAt > r.mark
	if !stays && r.cfg.Exact != nil && item.Class != frontier.Bulk {
		if stays, err = r.stays(ctx, &item); err != nil {
			return nil, err
		}
	}
	next := r.nextRound(item, used)
	for given[exact.Ref{Fingerprint: next.Fingerprint, Round: next.Round}] {
		next.Round++
	}
	given[exact.Ref{Fingerprint: next.Fingerprint, Round: next.Round}] = true
	return r.retryArgs(args, value, next, stays), nil
}

// retryArgs appends the arguments of retry.lua for a failed item with the given value, and for the item of its next round.
func (s *Store) retryArgs(args []any, value string, next frontier.Item, stays bool) []any {
	print, option := s.exactPrint(&next), "1"
	if print == "" {
		option = ""
	}
	if next.Class == frontier.Bulk {
		// A bulk URL that is later offered as an exact URL is promoted: it is queued again, as
		// an exact item. While the fingerprint of this item is in partition.exact, retry.lua
		// does not queue the bulk item.
		print = next.Fingerprint[:]
	}
	if stays {
		option = "o"
	} else {
		args[2] = max(args[2].(uint32), next.Round)
	}
	next.Added = s.moment()
	return append(args, value, appendEntry(nil, &next), print, option)
}

// stays reports whether a failed exact item stays failed, and offers its URL if its window is over.
func (r *retry) stays(ctx context.Context, failed *frontier.Item) (bool, error) {
	what, err := r.cfg.Exact.Retry(ctx, failed)
	if err != nil || what != exact.OfferAgain {
		return what == exact.KeepFailed, err
	}
	verdicts, err := r.Add(ctx, []frontier.Offer{failed.Offer()})
	if err == nil && verdicts[0].Answer == frontier.Added {
		r.offered++
		if r.once != nil {
			err = r.classify(ctx, r.client.HIncrBy(ctx, r.partition(failed.Host).verdicts(r.once.name), retryCount, 1).Err())
		}
	}
	return true, err
}

// nextRound returns a failed item in its next round.
func (s *Store) nextRound(item frontier.Item, used rounds) frontier.Item {
	pure := s.cfg.Exact != nil && s.cfg.Exact.Rules.Pure(item.Class)
	item.Round, item.Attempts, item.Deliveries = used.next(item.Round, pure), 0, 0
	return item
}

// failedEntry decodes a failed item.
func (s *Store) failedEntry(value, host string) (hostEntry, error) {
	e, err := s.decodeListed(value, host, frontier.Failed)
	if err != nil {
		err = fmt.Errorf("%w: failed item of host %q: %q", err, host, value)
	}
	return e, err
}

// millis returns the time of the server that has a partition.
func (s *Store) millis(ctx context.Context, p *partition) (int64, error) {
	if s.cfg.Now != nil {
		return s.cfg.Now().UnixMilli(), nil
	}
	client := redis.Cmdable(s.client)
	if s.nodes.cluster != nil {
		node, err := s.nodes.cluster.MasterForKey(ctx, p.meta)
		if err != nil {
			return 0, s.classify(ctx, err)
		}
		client = node
	}
	now, err := client.Time(ctx).Result()
	return now.UnixMilli(), s.classify(ctx, err)
}
