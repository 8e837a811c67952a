package redisstore

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

// Lookup implements frontier.Inspector. It reads the queue of the URL's host in steps, so it
// may miss an item that moves meanwhile.
//
// A done URL has only bits in the filter. So a URL that the filter claims, but that is
// neither queued, leased nor failed, counts as done, without an outcome. It may also be a
// false positive of the filter, which was never added.
func (s *Store) Lookup(ctx context.Context, host, url string) (frontier.Status, error) {
	l, err := s.Locate(ctx, host, url)
	return l.Status, err
}

// Location is the state of one URL, its queue and its host.
type Location struct {
	frontier.Status

	// Waiting is the number of items of its host that wait, delayed ones included.
	// Ahead is the number of those that are leased before the URL, or all of them if the
	// URL does not wait. Leased items are not counted.
	Ahead, Waiting uint64
	Delay          time.Duration // until it joins the queue; 0 means that it is not delayed

	HostAdded uint64 // items ever added to its host, if their number is limited
	HostMost  uint64 // maximum of HostAdded; 0 means no limit
	HostBlob  []byte // of the last HostUpdate; nil means none

	Claims []bool // which layers of the filter claim it, oldest first
}

// Locate returns the location of a canonical URL whose host key is host. It reads the host's
// queue.
func (s *Store) Locate(ctx context.Context, host, url string) (Location, error) {
	p := s.partition(host)
	l := Location{}
	_, l.HostMost = s.cfg.limits(host)
	if err := s.locateHost(ctx, p, host, &l); err != nil {
		return l, err
	}
	print := s.hasher.Fingerprint(url)
	err := s.visitHost(ctx, p, host, func(e hostEntry) bool {
		mine := e.item.Fingerprint == print
		if mine {
			l.State, l.Item, l.Round, l.Outcome, l.Status.Status = e.state, e.item, e.item.Round, e.outcome, e.status
			l.Delay = e.delay
		}
		if e.state == frontier.Queued {
			if l.State != frontier.Queued {
				l.Ahead++
			}
			l.Waiting++
		}
		return true
	})
	if err != nil {
		return l, err
	}
	if l.State != frontier.Queued {
		l.Ahead = l.Waiting
	}
	if l.Claims, err = p.chain().Claims(ctx, s.client, print); err != nil {
		return l, s.classify(ctx, err)
	}
	l.InFilter = slices.Contains(l.Claims, true)
	if l.State == frontier.Unknown && l.InFilter {
		l.State = frontier.Done
	}
	return l, nil
}

// Pending reports whether the item of a canonical URL is queued or leased, and in which
// round. If the crawl was deleted, pending is false.
func (s *Store) Pending(ctx context.Context, host, url string) (round uint32, pending bool, err error) {
	print := s.hasher.Fingerprint(url)
	err = s.visitHost(ctx, s.partition(host), host, func(e hostEntry) bool {
		if e.item.Fingerprint == print && e.state != frontier.Failed {
			round, pending = e.item.Round, true
		}
		return !pending && e.state != frontier.Failed
	})
	return round, pending, err
}

// locateHost reads the state of a host into l.
func (s *Store) locateHost(ctx context.Context, p *partition, host string, l *Location) error {
	key, field := p.budget(s.hasher.Fingerprint(host))
	pipe := s.client.Pipeline()
	state := pipe.HMGet(ctx, p.host(host), "u", "b")
	added := pipe.HMGet(ctx, key, field)
	now := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return s.classify(ctx, err)
	}
	clock := now.Val()
	if s.cfg.Now != nil {
		clock = s.cfg.Now()
	}
	if due, err := strconv.ParseInt(text(at(state.Val(), 0)), 10, 64); err == nil {
		l.HostDueIn = max(time.Duration(due-clock.UnixMilli())*time.Millisecond, 0)
	}
	if blob := text(at(state.Val(), 1)); blob != "" {
		l.HostBlob = []byte(blob)
	}
	l.HostAdded, _ = strconv.ParseUint(text(at(added.Val(), 0)), 10, 64)
	return nil
}

// hostEntry is an item in one of the structures of a host.
type hostEntry struct {
	item    frontier.Item
	state   frontier.State
	delay   time.Duration    // until it is ready; of queued items
	outcome frontier.Outcome // of failed items
	status  int
}

// pageSize is how many entries of a list are read at once.
const pageSize = 1000

// visitHost calls visit for each item of a host until visit returns false. It visits queued
// items first, in the order of leasing, then leased and then failed ones.
func (s *Store) visitHost(ctx context.Context, p *partition, host string, visit func(hostEntry) bool) error {
	more := true
	each := func(e hostEntry) bool {
		more = visit(e)
		return more
	}
	for _, state := range []frontier.State{frontier.Queued, frontier.Leased, frontier.Failed} {
		if err := s.visitState(ctx, p, host, state, each); err != nil || !more {
			return err
		}
	}
	return nil
}

// visitState calls visit for each item of a host that is in one state.
func (s *Store) visitState(ctx context.Context, p *partition, host string, state frontier.State, visit func(hostEntry) bool) error {
	switch state {
	case frontier.Queued:
		more, err := s.visitActive(ctx, p, host, true, visit)
		for priority := 0; priority < frontier.Priorities && more && err == nil; priority++ {
			more, err = s.visitList(ctx, p.queue(priority, host), func(value string) (bool, error) {
				item, err := decodeEntry(value, host, s.hasher)
				return err == nil && visit(hostEntry{item: item, state: frontier.Queued}), err
			})
		}
		if err != nil || !more {
			return err
		}
		return s.visitDelayed(ctx, p, host, visit)
	case frontier.Leased:
		_, err := s.visitActive(ctx, p, host, false, visit)
		return err
	case frontier.Failed:
		_, err := s.visitList(ctx, p.failed(host), func(value string) (bool, error) {
			outcome, status, entry, err := splitFailed(value)
			if err != nil {
				return false, err
			}
			item, err := decodeEntry(entry, host, s.hasher)
			return err == nil && visit(hostEntry{item: item, state: frontier.Failed, outcome: outcome, status: status}), err
		})
		return err
	}
	return nil
}

// visitList reads a list page by page.
func (s *Store) visitList(ctx context.Context, key string, visit func(value string) (bool, error)) (more bool, err error) {
	for start := int64(0); ; start += pageSize {
		values, err := s.client.LRange(ctx, key, start, start+pageSize-1).Result()
		if err != nil {
			return false, s.classify(ctx, err)
		}
		for _, value := range values {
			if more, err := visit(value); err != nil || !more {
				return false, err
			}
		}
		if len(values) < pageSize {
			return true, nil
		}
	}
}

// visitActive visits the items of a host's lease: those set aside, which count as queued, if
// aside is true, and the leased ones otherwise.
func (s *Store) visitActive(ctx context.Context, p *partition, host string, aside bool, visit func(hostEntry) bool) (more bool, err error) {
	fields, err := s.client.HGetAll(ctx, p.active(host)).Result()
	if err != nil {
		return false, s.classify(ctx, err)
	}
	entries, err := s.decodeActive(fields, host, aside)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		if !visit(e) {
			return false, nil
		}
	}
	return true, nil
}

// decodeActive returns the items in a lease's hash in the order of their numbers: those set
// aside, or the leased ones. See host.lua.
func (s *Store) decodeActive(fields map[string]string, host string, aside bool) ([]hostEntry, error) {
	type numbered struct {
		number int64
		hostEntry
	}
	var found []numbered
	for field, value := range fields {
		number, state := field, frontier.Leased
		switch field[0] {
		case 'g':
			number, state = field[1:], frontier.Queued
		case 'r':
			number, state = field[1:], frontier.Queued
			_, value, _ = strings.Cut(value, ":")
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || aside != (state == frontier.Queued) {
			continue
		}
		item, err := decodeEntry(value, host, s.hasher)
		if err != nil {
			return nil, err
		}
		found = append(found, numbered{n, hostEntry{item: item, state: state}})
	}
	slices.SortFunc(found, func(a, b numbered) int { return int(a.number - b.number) })
	entries := make([]hostEntry, len(found))
	for i, f := range found {
		entries[i] = f.hostEntry
	}
	return entries, nil
}

// visitDelayed visits the delayed items of a host, or of the whole partition if host is
// empty, in the order of their times.
func (s *Store) visitDelayed(ctx context.Context, p *partition, host string, visit func(hostEntry) bool) error {
	now := s.cfg.Now
	if now == nil {
		now = time.Now // delays are approximate, because servers' clocks may differ
	}
	for start := int64(0); ; start += pageSize {
		members, err := s.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
			Key: p.delayed, Start: start, Stop: start + pageSize - 1,
		}).Result()
		if err != nil {
			return s.classify(ctx, err)
		}
		for _, member := range members {
			value := text(member.Member)
			name, ok := hostOfDelayed(value)
			if !ok || host != "" && name != host {
				continue
			}
			item, err := decodeEntry(value[delayedSeqBytes+len(name)+1:], name, s.hasher)
			if err != nil {
				return err
			}
			wait := time.Duration(math.Ceil(member.Score)-float64(now().UnixMilli())) * time.Millisecond
			if !visit(hostEntry{item: item, state: frontier.Queued, delay: max(wait, 0)}) {
				return nil
			}
		}
		if len(members) < pageSize {
			return nil
		}
	}
}

// List implements frontier.Inspector, for Queued, Leased and Failed. It reads in steps, so an
// item that moves meanwhile may be listed twice or not at all.
func (s *Store) List(ctx context.Context, state frontier.State, host string, visit func(frontier.Item) bool) error {
	more := true
	each := func(e hostEntry) bool {
		more = visit(e.item)
		return more
	}
	if host != "" {
		return s.visitState(ctx, s.partition(host), host, state, each)
	}
	for _, p := range s.parts {
		hosts, err := s.hostsWith(ctx, p, state)
		if err != nil {
			return err
		}
		for _, host := range hosts {
			if err := s.visitState(ctx, p, host, state, each); err != nil || !more {
				return err
			}
		}
	}
	return nil
}

// hostsWith returns the hosts of a partition that may have items in a state.
func (s *Store) hostsWith(ctx context.Context, p *partition, state frontier.State) (hosts []string, err error) {
	switch state {
	case frontier.Failed:
		hosts, err = s.client.SMembers(ctx, p.failedHosts).Result()
		return hosts, s.classify(ctx, err)
	case frontier.Leased:
		hosts, err = s.client.ZRange(ctx, p.leased, 0, -1).Result()
		return hosts, s.classify(ctx, err)
	case frontier.Queued:
	default:
		return nil, nil
	}
	pipe := s.client.Pipeline()
	due, leased := pipe.ZRange(ctx, p.due, 0, -1), pipe.ZRange(ctx, p.leased, 0, -1)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, s.classify(ctx, err)
	}
	hosts = append(due.Val(), leased.Val()...)
	err = s.visitDelayed(ctx, p, "", func(e hostEntry) bool {
		hosts = append(hosts, e.item.Host)
		return true
	})
	slices.Sort(hosts)
	return slices.Compact(hosts), err
}
