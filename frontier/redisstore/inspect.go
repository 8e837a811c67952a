package redisstore

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

// Lookup implements frontier.Inspector. It reads the queue of the URL's host in steps, so it
// can miss an item that moves meanwhile.
//
// The server stores nothing about a done URL except its bits in the filter. So Lookup returns
// Done, without an outcome, for a URL that the filter claims to contain and that is not queued,
// leased or failed. Such a URL can also be a false positive: a URL that was never added. The outcome of an exact URL
// comes from the exact set, if there is one and it answers.
func (s *Store) Lookup(ctx context.Context, host, url string) (frontier.Status, error) {
	l, err := s.Locate(ctx, host, url)
	return l.Status, err
}

// Location is the state of one URL, its queue and its host.
type Location struct {
	frontier.Status

	// Waiting is the number of queued items of the host, including delayed ones. Ahead is
	// the number of those that will be leased before the URL. It equals Waiting if the URL
	// is not queued.
	Ahead, Waiting uint64
	Delay          time.Duration // time until the URL joins the queue; 0 means that it is not delayed

	HostAdded uint64 // number of items ever added to the host; counted only if there is a limit
	HostMost  uint64 // maximum of HostAdded; 0 means no limit
	HostBlob  []byte // of the last HostUpdate; nil means none

	Claims []bool // which layers of the filter claim to contain the URL, oldest first
	// Row reports whether the URL has a row. Then an exact offer of it is Seen, whatever the filter claims. nil means that
	// the exact set cannot be asked.
	Row *bool
}

// Locate returns the location of a canonical URL whose host key is host. It reads the host's
// queue. If one item of the URL has failed and another is queued or leased, Locate returns the
// other item.
func (s *Store) Locate(ctx context.Context, host, url string) (Location, error) {
	p := s.partition(host)
	l := Location{}
	var err error
	if l.HostMost, err = s.hostMost(ctx, host); err != nil {
		return l, err
	}
	if err := s.locateHost(ctx, p, host, &l); err != nil {
		return l, err
	}
	print := s.hasher.Fingerprint(url)
	for e, err := range s.entries(ctx, p, host, frontier.Queued, frontier.Leased, frontier.Failed) {
		if err != nil {
			return l, err
		}
		waits := l.State == frontier.Queued || l.State == frontier.Leased
		if e.item.Fingerprint == print && !(waits && e.state == frontier.Failed) {
			l.State, l.Item, l.Round, l.Outcome, l.Status.Status = e.state, e.item, e.item.Round, e.outcome, e.status
			l.Delay = e.delay
		}
		if e.state == frontier.Queued {
			if l.State != frontier.Queued {
				l.Ahead++
			}
			l.Waiting++
		}
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
	if s.cfg.Exact != nil {
		l.Row, err = s.cfg.Exact.AddStatus(ctx, print, &l.Status)
		return l, err
	}
	row, err := s.client.SIsMember(ctx, p.exact, string(print[:])).Result()
	l.Row = &row
	return l, s.classify(ctx, err)
}

// hostMost returns the maximum number of items of a host; 0 means no limit.
func (s *Store) hostMost(ctx context.Context, host string) (uint64, error) {
	own := s.cfg.Policy().Host(host)
	if !own.UnlessSeed {
		return own.MaxItems, nil
	}
	ofSeed, err := s.Admitted(ctx, []string{frontier.SeedHost(host)})
	if err == nil && ofSeed[0] {
		return 0, nil
	}
	return own.MaxItems, err
}

// Pending reports whether the item of a canonical URL is queued or leased, and in which
// round. If a bulk item and a promoted item of the URL wait, it returns the earlier round.
// If the crawl was deleted, pending is false.
func (s *Store) Pending(ctx context.Context, host, url string) (round uint32, pending bool, err error) {
	print := s.hasher.Fingerprint(url)
	for e, err := range s.entries(ctx, s.partition(host), host, frontier.Queued, frontier.Leased) {
		if err != nil {
			return 0, false, err
		}
		if e.item.Fingerprint == print && (!pending || e.item.Round < round) {
			round, pending = e.item.Round, true
		}
	}
	return round, pending, nil
}

// locateHost reads the state of a host into l.
func (s *Store) locateHost(ctx context.Context, p *partition, host string, l *Location) error {
	key, field := p.budget(s.hasher.Fingerprint(host))
	pipe := s.client.Pipeline()
	state := pipe.HMGet(ctx, p.host(host), "u", "b")
	added := pipe.HMGet(ctx, key, field)
	try, waits := pipe.ZScore(ctx, p.due, host), pipe.ZScore(ctx, p.siteQueue(s.siteOf(host)), host)
	now := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return s.classify(ctx, err)
	}
	clock := now.Val()
	if s.cfg.Now != nil {
		clock = s.cfg.Now()
	}
	if due, err := strconv.ParseInt(text(at(state.Val(), 0)), 10, 64); err == nil {
		l.HostDueIn = max(time.Duration(due-clock.UnixMilli())*time.Millisecond, 0)
	}
	if again := int64(try.Val()); l.HostDueIn == 0 && waits.Err() == nil && again < parked {
		l.HostDueIn = max(time.Duration(again-clock.UnixMilli())*time.Millisecond, 0)
	}
	if blob := text(at(state.Val(), 1)); blob != "" {
		l.HostBlob = []byte(blob)
	}
	l.HostAdded, _ = strconv.ParseUint(text(at(added.Val(), 0)), 10, 64)
	return nil
}

// hostEntry is an item in one of the structures of a host.
type hostEntry struct {
	item     frontier.Item
	state    frontier.State
	delay    time.Duration    // time until the item is ready; only of queued items
	outcome  frontier.Outcome // only of failed items, like the next two fields
	status   int
	failedAt int64 // ms
}

// pageSize is how many entries of a list are read at once.
const pageSize = 1000

// entries iterates over the items of a host that are in one of the given states. Queued items
// come in the order of leasing. The iteration ends after an error.
func (s *Store) entries(ctx context.Context, p *partition, host string, states ...frontier.State) iter.Seq2[hostEntry, error] {
	return func(yield func(hostEntry, error) bool) {
		for _, state := range states {
			for _, structure := range s.structures(ctx, p, host, state) {
				for e, err := range structure {
					if !yield(e, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// structures returns the items of a host in one state: one sequence for each structure that can
// contain such items.
func (s *Store) structures(ctx context.Context, p *partition, host string, state frontier.State) (all []iter.Seq2[hostEntry, error]) {
	switch state {
	case frontier.Queued:
		all = append(all, s.inLease(ctx, p, host, state))
		for priority := range frontier.Priorities {
			all = append(all, s.inList(ctx, p.queue(priority, host), host, state))
		}
		all = append(all, s.inDelayed(ctx, p, host))
	case frontier.Leased:
		all = append(all, s.inLease(ctx, p, host, state))
	case frontier.Failed:
		all = append(all, s.inList(ctx, p.failed(host), host, state))
	}
	return all
}

// inList reads a list of queued or failed items page by page.
func (s *Store) inList(ctx context.Context, key, host string, state frontier.State) iter.Seq2[hostEntry, error] {
	return func(yield func(hostEntry, error) bool) {
		for start := int64(0); ; start += pageSize {
			values, err := s.client.LRange(ctx, key, start, start+pageSize-1).Result()
			if err != nil {
				yield(hostEntry{}, s.classify(ctx, err))
				return
			}
			for _, value := range values {
				if !yield(s.decodeListed(value, host, state)) {
					return
				}
			}
			if len(values) < pageSize {
				return
			}
		}
	}
}

// decodeListed decodes an element of a list of queued or failed items.
func (s *Store) decodeListed(value, host string, state frontier.State) (e hostEntry, err error) {
	e.state = state
	if state == frontier.Failed {
		if e.outcome, e.status, e.failedAt, value, err = splitFailed(value); err != nil {
			return e, err
		}
	}
	e.item, err = decodeEntry(value, host, s.hasher)
	return e, err
}

// inLease reads the items of a host's lease in the order of their numbers. If state is Queued, it
// reads the items that are set aside, which count as queued. Otherwise it reads the leased items.
func (s *Store) inLease(ctx context.Context, p *partition, host string, state frontier.State) iter.Seq2[hostEntry, error] {
	return func(yield func(hostEntry, error) bool) {
		lease, err := s.client.HGetAll(ctx, p.active(host)).Result()
		if err != nil {
			yield(hostEntry{}, s.classify(ctx, err))
			return
		}
		for _, it := range activeItems(lease) {
			if it.aside != (state == frontier.Queued) {
				continue
			}
			item, err := decodeEntry(it.entry, host, s.hasher)
			if !yield(hostEntry{item: item, state: state}, err) {
				return
			}
		}
	}
}

// activeItem is an item in the hash of a lease: see host.lua. An item is set aside if it was
// given back or will be tried again. It joins the queue when the lease ends.
type activeItem struct {
	number  int64
	entry   string
	aside   bool // is set aside
	delayed bool // counts as delayed
}

// activeItems returns the items in the hash of a lease in the order of their numbers.
func activeItems(lease map[string]string) (items []activeItem) {
	for field, value := range lease {
		it, number := activeItem{entry: value}, field
		switch field[0] {
		case 'g':
			it.aside, number = true, field[1:]
		case 'r':
			ready, entry, _ := strings.Cut(value, ":")
			it.aside, it.delayed, it.entry, number = true, ready != "0", entry, field[1:]
		}
		var err error
		if it.number, err = strconv.ParseInt(number, 10, 64); err == nil { // otherwise it is no item
			items = append(items, it)
		}
	}
	slices.SortFunc(items, func(a, b activeItem) int { return cmp.Compare(a.number, b.number) })
	return items
}

// inDelayed reads the delayed items of a host, or of the whole partition if host is empty, in
// the order of their times.
func (s *Store) inDelayed(ctx context.Context, p *partition, host string) iter.Seq2[hostEntry, error] {
	return func(yield func(hostEntry, error) bool) {
		for start := int64(0); ; start += pageSize {
			members, err := s.client.ZRangeArgsWithScores(ctx, redis.ZRangeArgs{
				Key: p.delayed, Start: start, Stop: start + pageSize - 1,
			}).Result()
			if err != nil {
				yield(hostEntry{}, s.classify(ctx, err))
				return
			}
			for _, member := range members {
				value := text(member.Member)
				name, ok := hostOfDelayed(value)
				if !ok || host != "" && name != host {
					continue
				}
				item, err := decodeEntry(value[delayedSeqBytes+len(name)+1:], name, s.hasher)
				// The delay is approximate, because servers' clocks may differ.
				delay := time.Duration(math.Ceil(member.Score)-float64(s.now().UnixMilli())) * time.Millisecond
				if !yield(hostEntry{item: item, state: frontier.Queued, delay: max(delay, 0)}, err) {
					return
				}
			}
			if len(members) < pageSize {
				return
			}
		}
	}
}

// List implements frontier.Inspector, for Queued, Leased and Failed. It reads in steps, so an
// item that moves meanwhile can be listed twice or not at all.
func (s *Store) List(ctx context.Context, state frontier.State, host string, visit func(frontier.Item) bool) error {
	for item, err := range s.items(ctx, state, host) {
		if err != nil {
			return err
		}
		if !visit(item) {
			return nil
		}
	}
	return nil
}

// items iterates over the items that List visits.
func (s *Store) items(ctx context.Context, state frontier.State, host string) iter.Seq2[frontier.Item, error] {
	return func(yield func(frontier.Item, error) bool) {
		parts, hosts := s.parts, []string{host}
		if host != "" {
			parts = []*partition{s.partition(host)}
		}
		for _, p := range parts {
			var err error
			if host == "" {
				hosts, err = s.hostsWith(ctx, p, state)
			}
			if err != nil {
				yield(frontier.Item{}, err)
				return
			}
			for _, name := range hosts {
				for e, err := range s.entries(ctx, p, name, state) {
					if !yield(e.item, err) || err != nil {
						return
					}
				}
			}
		}
	}
}

// hostsWith returns the hosts of a partition that can have items in a state.
func (s *Store) hostsWith(ctx context.Context, p *partition, state frontier.State) (hosts []string, err error) {
	switch state {
	case frontier.Failed:
		found := s.client.SScan(ctx, p.failedHosts, 0, "", scanStep).Iterator() // can return a host twice
		for found.Next(ctx) {
			hosts = append(hosts, found.Val())
		}
		slices.Sort(hosts)
		return slices.Compact(hosts), s.classify(ctx, found.Err())
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
	for e, err := range s.inDelayed(ctx, p, "") {
		if err != nil {
			return nil, err
		}
		hosts = append(hosts, e.item.Host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), nil
}
