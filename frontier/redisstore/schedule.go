package redisstore

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// maxLook is the longest time between two looks at a partition. A look asks the partition for due
// hosts: see Store.look. Other processes can add items to the partition between two looks.
const maxLook = time.Second

// headStart is the time for which only the worker in charge of a partition leases a host that has
// become due. That worker looks within maxLook. Without headStart, the first worker of a small
// crawl would lease every host as soon as it is found, and the others would have nothing to do.
const headStart = maxLook + maxLook/4

// schedule decides when to look at each partition, based on the last answers of the partitions.
// This avoids needless requests. Items that other processes add are noticed up to maxLook later. A
// schedule is safe for concurrent use.
type schedule struct {
	mu     sync.Mutex
	parts  []prospect  // by number
	due    []candidate // hosts that were due at the last look
	around time.Time   // when toLook was last called
}

// prospect is the state of one partition.
type prospect struct {
	part   *partition
	next   time.Time // when to look again; zero means at once
	theirs bool      // another worker is in charge of it
}

// candidate is a host that was due at the last look.
type candidate struct {
	part  *partition
	host  string
	since int64 // when it became due, ms
}

func newSchedule(parts []*partition) *schedule {
	s := &schedule{parts: make([]prospect, len(parts))}
	for i, p := range parts {
		s.parts[i].part = p
	}
	return s
}

// own sets the partitions of which this worker is in charge; nil means all. The worker looks at
// other partitions only if too few hosts of its own partitions are due.
func (s *schedule) own(mine []bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.parts {
		s.parts[i].theirs = mine != nil && !mine[i]
	}
}

// owned returns the partitions of which this worker is in charge.
func (s *schedule) owned() (parts []*partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.parts {
		if !s.parts[i].theirs {
			parts = append(parts, s.parts[i].part)
		}
	}
	return parts
}

// wake schedules a look at a partition, because a host or an item in it may have become due.
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

// toLook returns the partitions that are due for a look: only those of this worker, or all of
// them if idle is true.
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
	asked  time.Time
	server int64         // time of its server's clock, ms
	due    []candidate   // the host that has been due longest comes first
	wait   time.Duration // time from the field asked until there is more to do
}

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
	at.next = r.asked.Add(min(r.wait, maxLook))
	if at.theirs {
		at.next = r.asked.Add(maxLook)
		r.due = slices.DeleteFunc(r.due, func(c candidate) bool { return r.server-c.since < headStart.Milliseconds() })
	}
	s.due = slices.DeleteFunc(s.due, func(c candidate) bool { return c.part == p })
	s.due = append(s.due, r.due...)
}

// found adds a host that is due. It is the first one that take returns.
func (s *schedule) found(c candidate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.due, func(d candidate) bool { return d.host == c.host }) {
		s.due = append(s.due, c)
	}
}

// take removes and returns up to n hosts that were due. The host that has been due longest comes
// first. The caller must call lent or wake for the partition of each host.
func (s *schedule) take(n int) []candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(s.due, func(a, b candidate) int { return cmp.Compare(a.since, b.since) })
	n = min(n, len(s.due))
	taken := slices.Clone(s.due[:n])
	s.due = slices.Delete(s.due, 0, n)
	return taken
}

// lent is called after hosts of a partition were leased. It schedules a look at the time
// asked + wait, when the next host is due, unless an earlier look is scheduled.
func (s *schedule) lent(p *partition, asked time.Time, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &s.parts[p.number]
	if wait <= 0 && slices.ContainsFunc(s.due, func(c candidate) bool { return c.part == p }) {
		return // other hosts of the partition are known to be due
	}
	if next := asked.Add(wait); next.Before(at.next) {
		at.next = next
	}
}

// wait returns the time until a host may be due, at most maxLook.
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
