package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

// mostCounted is the number of hosts of a crawl for which completions are counted. A host takes about 65
// bytes in partition.counts, so all of them take 65 MB.
const mostCounted = 1_000_000

// hostsCounted returns for how many hosts of one partition completions are counted.
func (s *Store) hostsCounted() int { return cmp.Or(s.countFew, max(mostCounted/len(s.parts), 1)) }

// Hosts implements frontier.Inspector. It reads in steps, so it can miss a host whose items move meanwhile. It
// holds the names of the hosts of one partition in memory.
func (s *Store) Hosts(ctx context.Context, query frontier.HostQuery, visit func(frontier.HostState) bool) error {
	workers, err := s.Workers(ctx)
	if err != nil {
		return err
	}
	look := hostLook{Store: s, workers: make(map[string]Worker, len(workers))}
	for _, w := range workers {
		look.workers[strconv.Itoa(w.Number)] = w
	}
	if query.First > 0 {
		return look.first(ctx, query.First, query.Oldest, visit)
	}
	parts := s.parts
	if query.Host != "" {
		parts = []*partition{s.partition(query.Host)}
	}
	for _, p := range parts {
		if more, err := look.partition(ctx, p, query, visit); err != nil || !more {
			return err
		}
	}
	return nil
}

// hostLook is one call of Hosts.
type hostLook struct {
	*Store
	workers map[string]Worker // by number
}

// partition visits the hosts of a partition: first those that have items, then the others.
func (l *hostLook) partition(ctx context.Context, p *partition, query frontier.HostQuery, visit func(frontier.HostState) bool) (more bool, err error) {
	hosts := []string{query.Host}
	if query.Host == "" {
		if hosts, err = l.hostsWith(ctx, p, frontier.Queued); err != nil {
			return false, err
		}
	}
	var busy []string
	for some := range slices.Chunk(hosts, pageSize/2) {
		states, err := l.states(ctx, p, some, true, query.Oldest)
		if err != nil {
			return false, err
		}
		for _, state := range states {
			if state.Queued+state.Leased > 0 { // not if it has only a lease without items
				busy = append(busy, state.Host)
			}
			counted := query.Finished && query.Host != "" && (state.Counts.Ago > 0 || state.Counts.Failed > 0)
			if (state.Queued+state.Leased > 0 || counted) && !visit(state) {
				return false, nil
			}
		}
	}
	if !query.Finished || query.Host != "" {
		return true, nil
	}
	slices.Sort(busy)
	return l.finished(ctx, p, busy, visit)
}

// first visits leased hosts, and then the others in the order in which they are due.
func (l *hostLook) first(ctx context.Context, most int, oldest bool, visit func(frontier.HostState) bool) error {
	each := int64(4*most/len(l.parts) + 15) // of a partition
	places, full, err := l.placesOf(ctx, each)
	if err == nil && full && len(places) < most { // most hosts are in few partitions, as those of a domain are
		places, _, err = l.placesOf(ctx, int64(most))
	}
	if err != nil {
		return err
	}
	slices.SortFunc(places, func(a, b hostPlace) int {
		return cmp.Or(cmp.Compare(oneIf(b.leased), oneIf(a.leased)), cmp.Compare(a.Score, b.Score))
	})
	visited := 0
	for len(places) > 0 && visited < most { // some of the hosts can have no items any more
		some := places[:min(most-visited, len(places))]
		places = places[len(some):]
		hosts := make(map[*partition][]string)
		for _, at := range some {
			hosts[at.part] = append(hosts[at.part], text(at.Member))
		}
		for p, names := range hosts {
			states, err := l.states(ctx, p, names, true, oldest)
			if err != nil {
				return err
			}
			for _, state := range states {
				if state.Queued+state.Leased == 0 {
					continue
				}
				if visited++; !visit(state) {
					return nil
				}
			}
		}
	}
	return nil
}

// hostPlace is a host in partition.due or partition.leased.
type hostPlace struct {
	redis.Z
	part   *partition
	leased bool
}

// placesOf returns the first hosts in partition.leased and partition.due of each partition. full reports that some
// partitions have more.
func (l *hostLook) placesOf(ctx context.Context, each int64) (places []hostPlace, full bool, err error) {
	for _, leased := range []bool{true, false} {
		cmds, err := pipelined(ctx, l.client, l.parts, func(pipe redis.Pipeliner, p *partition) *redis.ZSliceCmd {
			key := p.due
			if leased {
				key = p.leased
			}
			return pipe.ZRangeWithScores(ctx, key, 0, each-1)
		})
		if err != nil {
			return nil, false, l.classify(ctx, err)
		}
		for i, cmd := range cmds {
			full = full || int64(len(cmd.Val())) == each
			for _, z := range cmd.Val() {
				places = append(places, hostPlace{z, l.parts[i], leased})
			}
		}
	}
	return places, full, nil
}

// finished visits the counted hosts of a partition, apart from those in busy, which is sorted.
func (l *hostLook) finished(ctx context.Context, p *partition, busy []string, visit func(frontier.HostState) bool) (more bool, err error) {
	var keys []string
	for number := range 256 {
		keys = append(keys, fmt.Sprintf("%sc%02x", p.tag, number))
	}
	cmds, err := pipelined(ctx, l.client, keys, func(pipe redis.Pipeliner, key string) *redis.StringSliceCmd { return pipe.HKeys(ctx, key) })
	if err != nil {
		return false, l.classify(ctx, err)
	}
	for _, cmd := range cmds {
		counted := cmd.Val()
		hosts := slices.DeleteFunc(counted, func(host string) bool {
			_, is := slices.BinarySearch(busy, host)
			return is
		})
		for some := range slices.Chunk(hosts, pageSize/2) {
			states, err := l.states(ctx, p, some, false, false)
			if err != nil {
				return false, err
			}
			for _, state := range states {
				if !visit(state) {
					return false, nil
				}
			}
		}
	}
	return true, ctx.Err()
}

// hostReplies are the replies about one host.
type hostReplies struct {
	state  *redis.SliceCmd
	counts *redis.StringCmd
	failed *redis.IntCmd
	queues [frontier.Priorities]*redis.IntCmd // nil for a host without items, as the next two
	heads  []*redis.StringSliceCmd            // the first items of the queues
	lease  *redis.MapStringStringCmd
	ends   *redis.FloatCmd
	due    *redis.FloatCmd
	waits  *redis.FloatCmd // in the queue of its site
}

// states returns the states of hosts of a partition, index for index. The argument busy reports whether they may
// have queued or leased items, and the argument oldest whether to look for the oldest one.
func (l *hostLook) states(ctx context.Context, p *partition, hosts []string, busy, oldest bool) ([]frontier.HostState, error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	pipe := l.client.Pipeline()
	now, full := pipe.Time(ctx), pipe.HGet(ctx, p.meta, fieldCounted)
	replies := make([]hostReplies, len(hosts))
	for i, host := range hosts {
		r := &replies[i]
		r.state = pipe.HMGet(ctx, p.host(host), "u", "y", "d", "b")
		r.counts = pipe.HGet(ctx, p.counts(l.hasher.Fingerprint(host)), host)
		r.failed = pipe.LLen(ctx, p.failed(host))
		if busy {
			for priority := range r.queues {
				r.queues[priority] = pipe.LLen(ctx, p.queue(priority, host))
				if oldest {
					r.heads = append(r.heads, pipe.LRange(ctx, p.queue(priority, host), 0, 0))
				}
			}
			r.lease, r.ends = pipe.HGetAll(ctx, p.active(host)), pipe.ZScore(ctx, p.leased, host)
			r.due, r.waits = pipe.ZScore(ctx, p.due, host), pipe.ZScore(ctx, p.siteQueue(l.siteOf(host)), host)
		}
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, l.classify(ctx, err)
	}
	clock := now.Val()
	if l.cfg.Now != nil {
		clock = l.cfg.Now()
	}
	counted, _ := full.Int()
	states := make([]frontier.HostState, len(hosts))
	for i, host := range hosts {
		states[i] = l.stateOf(host, &replies[i], clock)
		if oldest {
			if err := l.addOldest(&states[i], &replies[i], clock); err != nil {
				return nil, err
			}
		}
		n := &states[i].Counts
		n.Missing = n.Ago == 0 && counted >= l.hostsCounted()
	}
	return states, nil
}

// stateOf returns the state of a host.
func (l *hostLook) stateOf(host string, r *hostReplies, clock time.Time) frontier.HostState {
	row := func(field int) int64 {
		n, _ := strconv.ParseInt(text(at(r.state.Val(), field)), 10, 64)
		return n
	}
	left := func(until int64) time.Duration {
		return max(time.Duration(until-clock.UnixMilli())*time.Millisecond, 0)
	}
	h := frontier.HostState{Host: host, Delayed: uint64(row(2)), Delay: time.Duration(row(1)) * time.Millisecond, Counts: countsOf(r.counts.Val(), clock)}
	h.Queued, h.Counts.Failed = h.Delayed, uint64(r.failed.Val())
	if blob := text(at(r.state.Val(), 3)); blob != "" {
		h.Blob = []byte(blob)
	}
	if r.lease == nil {
		h.DueIn = left(row(0))
		return h
	}
	for _, length := range r.queues {
		h.Queued += uint64(length.Val())
	}
	lease := r.lease.Val()
	for _, it := range activeItems(lease) {
		if !it.aside {
			h.Leased++
			continue
		}
		h.Queued++
		if it.delayed {
			h.Delayed++
		}
	}
	if len(lease) == 0 {
		h.DueIn = left(row(0))
		if due := int64(r.due.Val()); r.waits.Err() == nil && h.DueIn == 0 && due < parked && left(due) > 0 {
			h.DueIn, h.Crowded = left(due), true
		}
		return h
	}
	worker := l.workers[lease["w"]]
	h.Worker, h.Lost, h.EndsIn = worker.Name, !worker.Live && l.cfg.Now == nil, left(int64(r.ends.Val()))
	return h
}

// addOldest sets the oldest URL of a host.
func (l *hostLook) addOldest(state *frontier.HostState, r *hostReplies, clock time.Time) error {
	var entries []string
	for _, it := range activeItems(r.lease.Val()) {
		entries = append(entries, it.entry)
	}
	for _, head := range r.heads {
		entries = append(entries, head.Val()...)
	}
	for _, entry := range entries {
		item, err := decodeEntry(entry, state.Host, l.hasher)
		if err != nil {
			return err
		}
		state.LookOldest(&item, l.age(clock))
	}
	return nil
}

// countsOf decodes a value of partition.counts, as complete.lua writes it. It leaves out Failed.
func countsOf(value string, clock time.Time) (n frontier.HostCounts) {
	words := strings.Fields(value)
	if len(words) < 4 {
		return n
	}
	number := func(word string) uint64 { n, _ := strconv.ParseUint(word, 10, 64); return n }
	n.Done, n.Pages, n.Bytes = number(words[0]), number(words[1]), number(words[2])
	n.Ago = max(clock.Sub(time.Unix(int64(number(words[3])), 0)), 1)
	for _, word := range words[4:] {
		if n.Causes == nil {
			n.Causes = make(map[string]uint64)
		}
		cause, count, _ := strings.Cut(word, "=")
		if _, err := strconv.Atoi(cause); err == nil {
			cause = "status_" + cause
		}
		n.Causes[cause] = number(count)
	}
	return n
}
