package redisstore

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// maxLook is the longest time between two looks at a partition, because another process may have
// added to it.
const maxLook = time.Second

// leaveTo is how long a host is left to the worker in charge of its partition before others take
// it: that worker looks within maxLook. Otherwise the first worker of a small crawl would take
// every host as soon as it is found, and the others would have nothing to do.
const leaveTo = maxLook + maxLook/4

// schedule knows which partition has something to do and when, which avoids needless requests. It
// is based on the last answers of the partitions, and can be late by maxLook for what other
// processes have added since.
type schedule struct {
	mu     sync.Mutex
	parts  []prospect  // by number
	due    []candidate // hosts that were due at the last look
	sorted bool        // due is sorted, the longest due first
	around time.Time   // when toLook was last called
}

// prospect is the state of one partition.
type prospect struct {
	part   *partition
	next   time.Time // when to look again; zero means at once
	theirs bool      // another worker is in charge of it
	server int64     // its server's clock, ms, at a moment before at
	at     time.Time
}

// candidate is a host that may be leased.
type candidate struct {
	part  *partition
	host  string
	since int64 // due since, ms
}

func newSchedule(parts []*partition) *schedule {
	s := &schedule{parts: make([]prospect, len(parts))}
	for i, p := range parts {
		s.parts[i].part = p
	}
	return s
}

// own sets the partitions of which this worker is in charge. It looks at the others only when
// these have nothing to do. nil means all.
func (s *schedule) own(mine []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.parts {
		s.parts[i].theirs = mine != nil && !mine[i]
	}
}

// wake schedules a look at a partition, because something in it became due.
func (s *schedule) wake(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[p.number].next = time.Time{}
}

// forget schedules a look at every partition.
func (s *schedule) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due, s.around = nil, time.Time{}
	for i := range s.parts {
		s.parts[i].next = time.Time{}
	}
}

// enough reports whether n hosts are known to be due and the last look at partitions is recent.
func (s *schedule) enough(n int, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.due) >= n && now.Sub(s.around) < maxLook
}

// toLook returns the partitions whose time has come: those of this worker, and with idle those of
// others too.
func (s *schedule) toLook(now time.Time, idle bool) (parts []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.around = now
	for i := range s.parts {
		if p := &s.parts[i]; !p.next.After(now) && (idle || !p.theirs) {
			parts = append(parts, p.part)
		}
	}
	return parts
}

// report is the answer of a partition to a look.
type report struct {
	asked, answered time.Time
	server          int64         // its clock, ms
	due             []candidate   // the longest first
	wait            time.Duration // until it has more to do, from asked
}

// isDue reports whether it is time to look at a partition.
func (s *schedule) isDue(p *partition, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.parts[p.number].next.After(now)
}

// saw stores the answer of a partition.
func (s *schedule) saw(p *partition, r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.parts[p.number]
	at.server, at.at = r.server, r.answered
	at.next = r.asked.Add(min(r.wait, maxLook))
	if at.theirs {
		at.next = r.asked.Add(maxLook)
		r.due = slices.DeleteFunc(r.due, func(c candidate) bool { return r.server-c.since < leaveTo.Milliseconds() })
	}
	s.due = slices.DeleteFunc(s.due, func(c candidate) bool { return c.part == p })
	s.due = append(s.due, r.due...)
	s.sorted = s.sorted && len(r.due) == 0
}

// take returns up to n hosts that were due, the longest due first. The caller must call lent or
// wake for each.
func (s *schedule) take(n int) []candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sorted {
		slices.SortStableFunc(s.due, func(a, b candidate) int { return cmp.Compare(a.since, b.since) })
		s.sorted = true
	}
	n = min(n, len(s.due))
	taken := slices.Clone(s.due[:n])
	s.due = slices.Delete(s.due, 0, n)
	return taken
}

// lent notes that the partition will have something to do after wait, or earlier.
func (s *schedule) lent(p *partition, asked time.Time, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.parts[p.number]
	if wait <= 0 && slices.ContainsFunc(s.due, func(c candidate) bool { return c.part == p }) {
		return // it has known due hosts
	}
	if next := asked.Add(wait); next.Before(at.next) {
		at.next = next
	}
}

// wait returns the time until something may be due.
func (s *schedule) wait(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.due) > 0 {
		return 0
	}
	first := now.Add(maxLook)
	for i := range s.parts {
		if p := &s.parts[i]; !p.theirs && p.next.Before(first) {
			first = p.next
		}
	}
	return max(first.Sub(now), 0)
}

// serverTime returns a time, ms, that the clock of a partition's server has reached at t, or 0 if
// the partition has not answered yet.
func (s *schedule) serverTime(p *partition, t time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.parts[p.number]
	if at.server == 0 {
		return 0
	}
	return at.server + t.Sub(at.at).Milliseconds()
}
