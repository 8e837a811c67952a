package frontiertest

import (
	"context"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
)

// showing returns a completion of an item that shows a content, and notes in first which item was the first. withLinks can be zero.
func showing(item frontier.Item, content, withLinks byte, first *frontier.Referrer) frontier.Completion {
	done := finished(item)
	done.Showed = frontier.Showed{Content: frontier.Content{content}, First: func(f frontier.Referrer) { *first = f }}
	if withLinks > 0 {
		done.Showed.WithLinks = frontier.Content{withLinks, 1}
	}
	return done
}

var contentCases = []testCase{
	// The first item that finished with a content is told to all others, in one call or several, also after a restart.
	{"ContentsHaveAFirstItem", Options{}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 8)...)
		var first [8]frontier.Referrer
		of := func(item int) frontier.Referrer { return frontier.ReferrerOf(l.Items[item].Fingerprint) }
		want := func(item, by int) {
			c.Require(first[item] == of(by), "the first item with the content of item %d is %x, want that of item %d, %x", item, first[item], by, of(by))
		}
		c.complete(l.ID, frontier.HostUpdate{}, showing(l.Items[0], 1, 0, &first[0]), showing(l.Items[1], 2, 0, &first[1]), showing(l.Items[2], 1, 0, &first[2]))
		c.complete(l.ID, frontier.HostUpdate{}, showing(l.Items[3], 2, 0, &first[3]))
		want(0, 0)
		want(1, 1)
		want(2, 0)
		want(3, 1)
		retry := showing(l.Items[4], 3, 0, &first[4]) // is not finished, so it is not the first
		retry.Disposition, retry.Outcome = frontier.Last, ""
		c.complete(l.ID, frontier.HostUpdate{}, retry)
		c.Require(first[4] == frontier.Referrer{}, "an item that was queued again was told about its content")
		c.complete(l.ID, frontier.HostUpdate{}, showing(l.Items[5], 3, 0, &first[5]))
		want(5, 5)
		c.complete(l.ID, frontier.HostUpdate{End: true}, finished(l.Items[6]), finished(l.Items[7]))
		if c.restart(Reopener.Crash) {
			again := c.addAndLease(page("b.test", 1))
			c.endAfter(again, showing(again.Items[0], 1, 0, &first[6]))
			want(6, 0)
		}
	}},
	// The links of an item that shows the same with the same links as an earlier one are refused, and counted.
	{"DuplicatesAddNoLinks", Options{}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 5)...)
		var first frontier.Referrer
		done := showing(l.Items[0], 1, 1, &first)
		done.Links = pages("b.test", 0, 3)
		c.complete(l.ID, frontier.HostUpdate{}, done)
		c.wantStats(counts{"refused: duplicate": 0, "found": 8, "added": 8})
		done = showing(l.Items[1], 1, 1, &first)
		var refused int
		var links frontier.LinkCounts
		done.Links = pages("b.test", 2, 5)
		done.LinkAnswered = func(_ int, v frontier.Verdict) {
			if v.Answer == frontier.Refused && v.Reason == frontier.ReasonDuplicate {
				refused++
			}
		}
		done.Record = func(n frontier.LinkCounts) error { links = n; return nil }
		done.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 2}}
		c.complete(l.ID, frontier.HostUpdate{}, done)
		c.wantLinks(links, frontier.LinkCounts{Found: 5, Refused: 5})
		c.Require(refused == 3, "%d links were refused, want 3", refused)
		c.wantStats(counts{"refused: duplicate": 3, "refused: scope": 2, "found": 13, "added": 8})
		c.wantState(page("b.test", 3), frontier.Unknown)

		done = showing(l.Items[2], 1, 2, &first) // the same text with other links
		done.Links = pages("b.test", 3, 5)
		c.complete(l.ID, frontier.HostUpdate{}, done)
		c.wantStats(counts{"refused: duplicate": 3, "added": 10})
		again := l.Items[0] // an item is no duplicate of itself
		c.endAfter(l, finished(l.Items[3]), finished(l.Items[4]))
		c.Require(first == frontier.ReferrerOf(again.Fingerprint), "the first item is %x", first)
	}},
}

// MemoryContents is a frontier.Contents in memory. The zero value is empty.
type MemoryContents struct {
	mu     sync.Mutex
	showed map[frontier.Content]frontier.Referrer
}

// First implements frontier.Contents.
func (m *MemoryContents) First(_ context.Context, showed []frontier.ShowedBy) ([]frontier.Referrer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.showed == nil {
		m.showed = make(map[frontier.Content]frontier.Referrer)
	}
	first := make([]frontier.Referrer, len(showed))
	for i, by := range showed {
		if _, known := m.showed[by.Content]; !known {
			m.showed[by.Content] = frontier.ReferrerOf(by.Item)
		}
		first[i] = m.showed[by.Content]
	}
	return first, nil
}
