package frontiertest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Stats implements frontier.Inspector.
func (m *Memory) Stats(context.Context) (frontier.Stats, error) {
	m.lock()
	defer m.mu.Unlock()
	return m.counters(), nil
}

// counters returns the statistics. The caller must hold mu.
func (m *Memory) counters() frontier.Stats {
	now, stats := m.cfg.Now(), m.stats
	stats.Refused = maps.Clone(m.stats.Refused)
	stats.Outcomes, stats.Causes = maps.Clone(m.stats.Outcomes), maps.Clone(m.stats.Causes)
	for _, h := range m.hosts {
		if len(h.queue) > 0 || h.lease != nil && h.lease.open() > 0 {
			stats.Hosts++
		}
		for _, e := range h.queue {
			if e.notBefore.After(now) {
				stats.Delayed++
			}
		}
	}
	stats.Checks = m.checks()
	stats.Filter = frontier.FilterStats{Keys: uint64(len(m.entries)), Layers: 1}
	return stats
}

// checks counts the checks. The caller must hold mu.
func (m *Memory) checks() (n frontier.Checks) {
	for key, h := range m.hosts {
		if frontier.IsCheck(key) {
			n.Added += h.added
			n.Queued += uint64(len(h.queue))
			if h.lease != nil {
				n.Leased += uint64(h.lease.open())
			}
		}
	}
	return n
}

// Lookup implements frontier.Inspector.
func (m *Memory) Lookup(_ context.Context, key, url string) (frontier.Status, error) {
	now := m.lock()
	defer m.mu.Unlock()
	fp := m.hasher.Fingerprint(url)
	status := frontier.Status{InFilter: m.claims(fp)}
	if h := m.hosts[key]; h != nil {
		status.HostDueIn, _ = m.dueIn(h, m.loads(now), now)
	}
	e := m.entries[fp]
	if e == nil || e.item.Host != key {
		return status, nil
	}
	status.State, status.Round = e.state, e.item.Round
	status.Outcome, status.Status = e.outcome, e.status
	if e.state != frontier.Done {
		status.Item = e.item
	}
	return status, nil
}

// Audit implements frontier.Inspector.
func (m *Memory) Audit(context.Context) (frontier.Audit, error) {
	m.lock()
	defer m.mu.Unlock()
	all := m.all()
	counters := m.counters()
	audit := frontier.Audit{Counters: counters, Delayed: counters.Delayed, Hosts: counters.Hosts, Added: float64(len(all))}
	audit.Checks = frontier.Checks{Queued: counters.Checks.Queued, Leased: counters.Checks.Leased}
	for _, h := range m.hosts {
		audit.Queued += uint64(len(h.queue))
		if h.lease != nil {
			audit.Leased += uint64(h.lease.open())
		}
	}
	for _, e := range all {
		switch e.state {
		case frontier.Done:
			audit.Done++
		case frontier.Failed:
			audit.Failed++
		}
	}
	return audit, nil
}

// all returns every entry, including entries that a later one replaced.
func (m *Memory) all() []*entry {
	return slices.AppendSeq(slices.Clone(m.past), maps.Values(m.entries))
}

// List implements frontier.Inspector. It visits items in the order in which they were
// added. visit is allowed to call m.
func (m *Memory) List(_ context.Context, state frontier.State, key string, visit func(frontier.Item) bool) error {
	for _, item := range m.list(state, key) {
		if !visit(item) {
			break
		}
	}
	return nil
}

// Hosts implements frontier.Inspector, in the order of the host keys. visit is allowed to call m.
func (m *Memory) Hosts(_ context.Context, query frontier.HostQuery, visit func(frontier.HostState) bool) error {
	states, visited := m.hostStates(query), 0
	if query.First > 0 {
		states = slices.DeleteFunc(states, func(s frontier.HostState) bool { return s.Queued == s.Delayed && s.Leased == 0 })
		slices.SortStableFunc(states, func(a, b frontier.HostState) int { return cmp.Compare(a.DueIn, b.DueIn) })
	}
	for _, state := range states {
		work := state.Queued+state.Leased > 0
		counted := query.Finished && (state.Counts.Ago > 0 || state.Counts.Failed > 0)
		if query.Host != "" && query.Host != state.Host || !work && !counted {
			continue
		}
		if visited++; !visit(state) || visited == query.First {
			break
		}
	}
	return nil
}

// dueIn returns the time until a host that is not leased can be leased, and whether it waits for a place in its site.
func (m *Memory) dueIn(h *host, loads map[string]float64, now time.Time) (in time.Duration, crowded bool) {
	if in = max(h.due.Sub(now), 0); in == 0 && h.lease == nil && m.crowded(h, loads) {
		return m.turn(h), true
	}
	return in, false
}

// addOldest sets the oldest URL of a host.
func (m *Memory) addOldest(state *frontier.HostState, h *host, now time.Time) {
	looked := make(map[frontier.Priority]bool) // queues of which the first entry was looked at
	for _, e := range m.entries {
		if e.state == frontier.Leased && e.item.Host == h.key {
			state.LookOldest(&e.item, now.Sub(m.created))
		}
	}
	for _, e := range h.queue {
		if !e.notBefore.After(now) && !looked[e.item.Priority] {
			looked[e.item.Priority] = true
			state.LookOldest(&e.item, now.Sub(m.created))
		}
	}
}

func (m *Memory) hostStates(query frontier.HostQuery) (states []frontier.HostState) {
	now := m.lock()
	defer m.mu.Unlock()
	loads := m.loads(now)
	for _, key := range slices.Sorted(maps.Keys(m.hosts)) {
		h := m.hosts[key]
		state := frontier.HostState{Host: key, Queued: uint64(len(h.queue)), Delay: h.delay, Blob: slices.Clone(h.blob), Counts: h.counts}
		state.Counts.Causes = maps.Clone(h.counts.Causes)
		if !h.last.IsZero() {
			state.Counts.Ago = max(now.Sub(h.last), 1)
		}
		for _, e := range h.queue {
			if e.notBefore.After(now) {
				state.Delayed++
			}
		}
		if query.Oldest {
			m.addOldest(&state, h, now)
		}
		if h.lease != nil {
			state.Leased, state.EndsIn = uint64(h.lease.open()), h.lease.deadline.Sub(now)
		} else {
			state.DueIn, state.Crowded = m.dueIn(h, loads, now)
		}
		states = append(states, state)
	}
	for _, e := range m.all() {
		if e.state == frontier.Failed {
			i, _ := slices.BinarySearchFunc(states, e.item.Host, func(s frontier.HostState, key string) int { return cmp.Compare(s.Host, key) })
			states[i].Counts.Failed++
		}
	}
	return states
}

func (m *Memory) list(state frontier.State, key string) []frontier.Item {
	m.lock()
	defer m.mu.Unlock()
	var found []*entry
	for _, e := range m.all() {
		if e.state == state && state != frontier.Done && (key == "" || e.item.Host == key) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int { return cmp.Compare(a.seq, b.seq) })
	items := make([]frontier.Item, len(found))
	for i, e := range found {
		items[i] = e.item
	}
	return items
}
