package redisstore

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// maxLook is the longest time between two looks at a partition: another process
// may have added to it.
const maxLook = time.Second

// leaveTo is how long a host is left to the worker that looks after its partition
// before others take it: that worker looks within maxLook. Without it the first
// worker of a small crawl took every host as soon as it was found, and the others
// had nothing to do.
const leaveTo = maxLook + maxLook/4

// schedule says which partition has something to do when, so that nobody asks
// for nothing. It is what the partitions answered last, and can be late by what
// other processes added since: by maxLook.
type schedule struct {
	mu     sync.Mutex
	parts  []prospect  // by number
	due    []candidate // hosts that were due when they were looked at
	sorted bool        // due has the longest due first
	around time.Time   // when toLook was last asked
}

// prospect is what is known of one partition.
type prospect struct {
	part   *partition
	next   time.Time // when to look again; zero: at once
	theirs bool      // another worker looks after it
	server int64     // its server's clock, ms, at some moment before at
	at     time.Time
}

// candidate is a host that may be lent.
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

// own says which partitions this worker looks after; the others it looks at
// only when these have nothing to do. Nil: all.
func (s *schedule) own(mine []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.parts {
		s.parts[i].theirs = mine != nil && !mine[i]
	}
}

// wake makes a partition be looked at: something in it became due.
func (s *schedule) wake(p *partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[p.number].next = time.Time{}
}

// forget makes every partition be looked at.
func (s *schedule) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due, s.around = nil, time.Time{}
	for i := range s.parts {
		s.parts[i].next = time.Time{}
	}
}

// enough reports whether n hosts are known to be due and it is not long since
// partitions were last looked at.
func (s *schedule) enough(n int, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.due) >= n && now.Sub(s.around) < maxLook
}

// toLook returns the partitions whose time has come: those of this worker, or
// with idle those of the others too.
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

// report is what a partition answered to a look.
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

// saw notes what a partition answered.
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

// take returns up to n hosts that were due, the longest first. The caller says
// by lent or wake what became of each.
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

// lent notes that the partition will have something to do after wait at the latest.
func (s *schedule) lent(p *partition, asked time.Time, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.parts[p.number]
	if wait <= 0 && slices.ContainsFunc(s.due, func(c candidate) bool { return c.part == p }) {
		return // what is due is known
	}
	if next := asked.Add(wait); next.Before(at.next) {
		at.next = next
	}
}

// wait returns how long until something may be due.
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

// serverTime returns a time, ms, that the clock of a partition's server has
// reached by t; 0 if the partition was never looked at.
func (s *schedule) serverTime(p *partition, t time.Time) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.parts[p.number]
	if at.server == 0 {
		return 0
	}
	return at.server + t.Sub(at.at).Milliseconds()
}
