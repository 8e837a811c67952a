package redisstore

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/redisbits"
	"github.com/bloomfrontier/crawler/sizing"
)

// recount is an audit without the estimate of Added. Each partition is counted at one moment.
type recount struct {
	frontier.Audit
	renewed uint64 // from a counter: readmitted items, and items with Decision Again, that were queued although the filter claimed to contain them
	known   uint64 // from a counter: keys that MarkSeen put into the filter; no item was added for them
}

// maxFaults bounds the number of contradictions in an audit.
const maxFaults = 20

func (r *recount) fault(p *partition, format string, args ...any) {
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf("partition %d: ", p.number)+fmt.Sprintf(format, args...))
	}
}

// Audit implements frontier.Inspector. Done comes from the counter: the servers do not store
// the done URLs, so Audit cannot count them. Added is an estimate:
//   - the number of keys in the filter, from a sample of its blocks,
//   - plus the items that were queued although the filter claimed to contain them,
//   - minus the keys of MarkSeen,
//   - minus the expected number of new items that the filter wrongly claimed to contain. The
//     first number includes them, because it is computed from the share of set bits and so
//     allows for keys whose bits were all set before. But only the exact ones were added, and
//     the second number counts these.
func (s *Store) Audit(ctx context.Context) (frontier.Audit, error) {
	r, err := s.recount(ctx)
	if err != nil {
		return frontier.Audit{}, err
	}
	filter, err := s.survey(ctx)
	if err != nil {
		return frontier.Audit{}, err
	}
	claimed := 0.0
	for i, layer := range filter.Layers {
		claimed += claimedWhileFilling(layer, s.layout.Layer(i).BlockBytes*8)
	}
	more := float64(r.Counters.Promoted+r.Counters.Recovered+r.renewed) - float64(r.known)
	r.Added, r.AddedErr = filter.Estimate-claimed+more, math.Sqrt(filter.StdErr*filter.StdErr+claimed)
	return r.Audit, nil
}

// claimedWhileFilling returns the expected number of new keys that a layer wrongly claimed to
// contain while it was filled.
func claimedWhileFilling(layer redisbits.LayerStats, blockBits int) (claimed float64) {
	const steps = 64
	for i := range steps {
		keys := layer.Estimate * (float64(i) + 0.5) / steps
		if keys > 0 {
			claimed += layer.Estimate / steps * sizing.ExactBlockedFalsePositiveRate(float64(layer.Bits)/keys, blockBits, uint(layer.Hashes))
		}
	}
	return claimed
}

// recount counts the items in all queues, leases and lists. Each partition is read in one
// transaction, which takes its server about 3 µs for each host that has queued, leased or failed
// items.
func (s *Store) recount(ctx context.Context) (recount, error) {
	r := recount{Audit: frontier.Audit{Counters: newStats()}}
	for _, p := range s.parts {
		if err := s.recountPartition(ctx, p, &r); err != nil {
			return r, err
		}
	}
	var err error
	r.Counters.Paused, err = s.paused(ctx)
	r.Done = r.Counters.Done
	return r, err
}

// recountPartition adds the counts of a partition to r. It reads the list of hosts first. If
// the transaction that counts the items finds a different list, recountPartition starts again.
func (s *Store) recountPartition(ctx context.Context, p *partition, r *recount) error {
	for {
		waiting, err := s.hostsWith(ctx, p, frontier.Queued)
		if err != nil {
			return err
		}
		failed, err := s.hostsWith(ctx, p, frontier.Failed)
		if err != nil {
			return err
		}
		count := &recounting{part: p, waiting: waiting, failed: failed}
		cmds, err := s.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			count.ask(ctx, pipe)
			return nil
		})
		if err = txError(cmds, err); err != nil {
			return s.classify(ctx, err)
		}
		if count.complete() {
			count.addTo(r)
			return nil
		}
	}
}

// recounting is the transaction that counts a partition.
type recounting struct {
	part            *partition
	waiting, failed []string

	meta                 *redis.MapStringStringCmd
	due, leased, failing *redis.StringSliceCmd
	delayed              *redis.StringSliceCmd
	queues, failures     []*redis.IntCmd             // three for each waiting host; one for each failed host
	leases               []*redis.MapStringStringCmd // one for each waiting host
}

func (c *recounting) ask(ctx context.Context, pipe redis.Pipeliner) {
	p := c.part
	c.meta = pipe.HGetAll(ctx, p.meta)
	c.due, c.leased = pipe.ZRange(ctx, p.due, 0, -1), pipe.ZRange(ctx, p.leased, 0, -1)
	c.delayed, c.failing = pipe.ZRange(ctx, p.delayed, 0, -1), pipe.SMembers(ctx, p.failedHosts)
	for _, host := range c.waiting {
		for priority := range frontier.Priorities {
			c.queues = append(c.queues, pipe.LLen(ctx, p.queue(priority, host)))
		}
		c.leases = append(c.leases, pipe.HGetAll(ctx, p.active(host)))
	}
	for _, host := range c.failed {
		c.failures = append(c.failures, pipe.LLen(ctx, p.failed(host)))
	}
}

// complete reports whether every host with items was counted.
func (c *recounting) complete() bool {
	return subset(c.due.Val(), c.waiting) && subset(c.leased.Val(), c.waiting) && subset(c.failing.Val(), c.failed)
}

func setOf(list []string) map[string]bool {
	in := make(map[string]bool, len(list))
	for _, s := range list {
		in[s] = true
	}
	return in
}

func subset(part, whole []string) bool {
	in := setOf(whole)
	return !slices.ContainsFunc(part, func(s string) bool { return !in[s] })
}

func (c *recounting) addTo(r *recount) {
	due, leased := setOf(c.due.Val()), setOf(c.leased.Val())
	addMeta(&r.Counters, c.meta.Val())
	for field, value := range c.meta.Val() {
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && n < 0 {
			r.fault(c.part, "counter %q is %d", field, n) // addMeta does not count it
		}
	}
	counter := func(field string) uint64 {
		n, _ := strconv.ParseUint(c.meta.Val()[field], 10, 64)
		return n
	}
	r.known += counter(fieldKnown)
	r.Failed += counter(fieldReplaced)
	r.renewed += counter(fieldRenewed)
	busy := make(map[string]bool) // hosts with queued or leased items
	for _, member := range c.delayed.Val() {
		if host, ok := hostOfDelayed(member); ok {
			busy[host] = true
			if frontier.IsCheck(host) {
				r.Checks.Queued++
			}
		}
	}
	r.Queued += uint64(len(c.delayed.Val()))
	r.Delayed += uint64(len(c.delayed.Val()))
	for i, host := range c.waiting {
		before := [2]uint64{r.Queued, r.Leased}
		items := uint64(0)
		for _, length := range c.queues[frontier.Priorities*i : frontier.Priorities*(i+1)] {
			items += uint64(length.Val())
		}
		r.Queued += items
		lease := activeItems(c.leases[i].Val())
		for _, it := range lease {
			if it.aside {
				r.Queued++
			} else {
				r.Leased++
			}
			if it.delayed {
				r.Delayed++
			}
		}
		if items > 0 || len(lease) > 0 {
			busy[host] = true
		}
		if frontier.IsCheck(host) {
			r.Checks.Queued += r.Queued - before[0]
			r.Checks.Leased += r.Leased - before[1]
		}
		c.checkHost(r, host, items, due[host], leased[host], len(c.leases[i].Val()) > 0)
	}
	r.Hosts += uint64(len(busy))
	for _, length := range c.failures {
		r.Failed += uint64(length.Val())
	}
}

// checkHost compares what the structures of a host say. The host must be in the set of deadlines
// if and only if it has a lease, and in the set of due hosts if and only if it has ready items
// and no lease.
func (c *recounting) checkHost(r *recount, host string, items uint64, due, leased, lease bool) {
	switch {
	case leased != lease && leased:
		r.fault(c.part, "host %q has a deadline and no lease", host)
	case leased != lease:
		r.fault(c.part, "host %q has a lease and no deadline", host)
	case due && leased:
		r.fault(c.part, "host %q is due and leased", host)
	case due && items == 0:
		r.fault(c.part, "host %q is due and has no items", host)
	case !due && !leased && items > 0:
		r.fault(c.part, "host %q has %d ready items and is never due", host, items)
	}
}
