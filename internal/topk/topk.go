// Package topk finds the keys that have the largest counts in a stream. Its memory is
// bounded.
//
// It owns the Space-Saving sketch and its error bounds. It does not know what the keys
// are. A crawl uses it for hosts, because there can be too many hosts to count each one.
package topk

import (
	"cmp"
	"container/heap"
	"slices"
)

// Sketch holds the keys that have the largest counts in a stream. The count of a key is
// never too low, and Entry.Over says by how much it may be too high. The algorithm is by
// Metwally, Agrawal, El Abbadi, "Efficient Computation of Frequent and Top-k Elements in
// Data Streams" (ICDT 2005), with weights.
//
// The count of a key that the sketch does not hold is at most Absent, and Absent is at
// most Total/capacity. So the sketch holds every key with a larger count. Counts are sums
// of uint64 that must not overflow. The zero Sketch has a capacity of 0 and holds no
// keys. A Sketch is not safe for concurrent use.
type Sketch struct {
	capacity int
	total    uint64
	absent   uint64 // the largest possible count of a key that is not held; held keys have at least this count
	byKey    map[string]*counter
	byCount  smallestFirst
}

// Entry is the count of a key in a Sketch: the true count is at most Count and at
// least Count - Over.
type Entry struct {
	Key   string `json:"key"`
	Count uint64 `json:"count"`
	Over  uint64 `json:"over,omitempty"` // by how much Count may be too high
}

type counter struct {
	Entry
	at int // index in byCount
}

// New returns a Sketch that holds up to capacity keys. It panics if capacity
// is less than 1.
func New(capacity int) *Sketch {
	if capacity < 1 {
		panic("topk: a sketch without room")
	}
	return &Sketch{capacity: capacity, byKey: make(map[string]*counter)}
}

// Add adds n to the count of key, in O(log capacity). It does nothing if n is 0.
func (s *Sketch) Add(key string, n uint64) {
	if n == 0 {
		return
	}
	s.total += n
	switch c := s.byKey[key]; {
	case c != nil:
		c.Count += n
		heap.Fix(&s.byCount, c.at)
	case s.capacity == 0:
		s.absent += n
	case len(s.byKey) < s.capacity:
		s.addCounter(Entry{Key: key, Count: s.absent + n, Over: s.absent})
	default:
		// The new key replaces the key with the smallest count. The new key may already
		// have occurred up to least.Count times.
		least := s.byCount[0]
		delete(s.byKey, least.Key)
		s.absent = least.Count
		least.Entry = Entry{Key: key, Count: s.absent + n, Over: s.absent}
		s.byKey[key] = least
		heap.Fix(&s.byCount, 0)
	}
}

// addCounter adds a counter for a key that is not held.
func (s *Sketch) addCounter(entry Entry) {
	c := &counter{Entry: entry}
	s.byKey[entry.Key] = c
	heap.Push(&s.byCount, c)
}

// Merge adds the counts of other to s. The bounds hold for both streams together,
// and Absent is at most Total/capacity if both have the same capacity (Agarwal et
// al., "Mergeable Summaries", PODS 2012). It does not change other.
func (s *Sketch) Merge(other *Sketch) {
	sums := make([]Entry, 0, len(s.byKey)+len(other.byKey))
	for key, c := range s.byKey {
		sum := c.Entry
		if o := other.byKey[key]; o != nil {
			sum.Count, sum.Over = sum.Count+o.Count, sum.Over+o.Over
		} else {
			sum.Count, sum.Over = sum.Count+other.absent, sum.Over+other.absent
		}
		sums = append(sums, sum)
	}
	for key, o := range other.byKey {
		if s.byKey[key] == nil {
			sums = append(sums, Entry{Key: key, Count: o.Count + s.absent, Over: o.Over + s.absent})
		}
	}
	slices.SortFunc(sums, largestFirst)
	s.total += other.total
	s.absent += other.absent
	if len(sums) > s.capacity {
		s.absent = max(s.absent, sums[s.capacity].Count)
		sums = sums[:s.capacity]
	}
	s.fill(sums)
}

// fill replaces the counters.
func (s *Sketch) fill(entries []Entry) {
	s.byKey, s.byCount = make(map[string]*counter, len(entries)), nil
	for _, entry := range entries {
		s.addCounter(entry)
	}
}

// Top returns the n keys with the largest counts, largest first. Keys with equal counts
// are sorted. If s holds fewer keys, Top returns all.
func (s *Sketch) Top(n int) []Entry {
	all := make([]Entry, 0, len(s.byKey))
	for _, c := range s.byKey {
		all = append(all, c.Entry)
	}
	slices.SortFunc(all, largestFirst)
	return all[:min(max(n, 0), len(all))]
}

// Count returns the count of key, or 0 if it is not held.
func (s *Sketch) Count(key string) uint64 {
	if c := s.byKey[key]; c != nil {
		return c.Count
	}
	return 0
}

// Absent returns the largest possible count of a key that is not held.
func (s *Sketch) Absent() uint64 { return s.absent }

// Total returns the sum of everything added, exactly.
func (s *Sketch) Total() uint64 { return s.total }

func largestFirst(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Key, b.Key))
}

// smallestFirst is a heap of counters.
type smallestFirst []*counter

func (h smallestFirst) Len() int           { return len(h) }
func (h smallestFirst) Less(i, j int) bool { return h[i].Count < h[j].Count }

func (h smallestFirst) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *smallestFirst) Push(c any) {
	added := c.(*counter)
	added.at = len(*h)
	*h = append(*h, added)
}

func (h *smallestFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
