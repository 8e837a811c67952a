package visits_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// TestPostpone: a page whose host has enough in the queue is looked at again after a time that grows with how late it is. It is
// as late as it was, and its visit ends that.
func TestPostpone(t *testing.T) {
	onBoth(t, func(t *testing.T, open func() *visits.Store) {
		s, plan, now := open(), revisit.Fixed(day, limits), begun.Add(day)
		defer func() { _ = s.Close() }()
		must(t, s.Add([]visits.Visit{visitOf(1, 0, begun, revisit.Content, 'a')}, record.Place{File: 1, Offset: 1}, visits.Everywhere(plan)))
		steps := 0
		for now.Before(begun.Add(8 * day)) {
			prints, rows, next, err := s.Due(now, 10)
			must(t, err)
			if len(rows) == 0 {
				now = next
				continue
			}
			must(t, s.Postpone(prints, rows, now))
			steps++
		}
		if steps < 20 || steps > 60 {
			t.Errorf("a page that was late for a week was looked at %d times, want 20 to 60", steps)
		}
		row, _, _ := s.Row(printOf(1))
		if f, err := s.Figures(now, plan); err != nil || f.Later != 1 || !row.Later || !row.Due.Equal(begun.Add(day)) {
			t.Errorf("the row is %+v, the figures %+v, %v", row, f, err)
		}
		must(t, s.Queued([]bloomstore.Fingerprint{printOf(1)}, []visits.Row{row}, now))
		must(t, s.Add([]visits.Visit{visitOf(1, 1, now, revisit.Content, 'a')}, record.Place{File: 1, Offset: 2}, visits.Everywhere(plan)))
		row, _, _ = s.Row(printOf(1))
		if f, err := s.Figures(now, plan); err != nil || f.Later+f.Queued != 0 || row.Later || !row.Next.Equal(now.Add(day)) || f.MeanLate < (6*day).Seconds() {
			t.Errorf("after the visit the row is %+v, the figures %+v, %v", row, f, err)
		}
	})
}

// TestClaims: pages are due when a sitemap says that they have changed, if it was right before, both about pages that had changed and
// about those that had not. A sitemap that always says now is not trusted, nor is one that says nothing.
func TestClaims(t *testing.T) {
	type site struct {
		name    string
		lastmod func(changed, now time.Time) (first, until time.Time) // what the sitemap says of a page that has changed at a time
		trusted bool
	}
	second := func(at time.Time) (first, until time.Time) { return at, at.Add(time.Second) }
	sites := []site{
		{"true", func(changed, _ time.Time) (first, until time.Time) { return second(changed) }, true},
		{"true, by day", func(changed, _ time.Time) (first, until time.Time) {
			return changed.Truncate(day), changed.Truncate(day).Add(day)
		}, true},
		{"always now", func(_, now time.Time) (first, until time.Time) { return second(now) }, false},
		{"a quarter of the changes", func(changed, _ time.Time) (first, until time.Time) {
			if changed.Unix()/int64(6*3600)%4 == 0 {
				return second(changed)
			}
			return second(begun.Add(-1000 * day))
		}, false},
		{"never changed", func(_, _ time.Time) (first, until time.Time) { return second(begun.Add(-1000 * day)) }, false},
	}
	onBoth(t, func(t *testing.T, open func() *visits.Store) {
		rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 1))
		s, plan := open(), visits.Everywhere(revisit.Fixed(10*day, limits))
		defer func() { _ = s.Close() }()
		const pages = 20
		var changed, read [8 * pages]time.Time // by page; when it was last visited
		var rounds [8 * pages]uint32
		offset := int64(0)
		visit := func(n int, now time.Time) {
			text := byte(0)
			for _, b := range changed[n].String() {
				text = text*31 + byte(b)
			}
			v := visitOf(n, rounds[n], now, revisit.Content, text)
			v.Item.Host, v.MaxAge, read[n] = sites[n/pages].name, 0, now
			offset++
			must(t, s.Add([]visits.Visit{v}, record.Place{File: 1, Offset: offset}, plan))
			rounds[n]++
		}
		for n := range len(sites) * pages {
			changed[n] = begun.Add(-day)
			visit(n, begun)
		}
		early := make(map[string]int) // visits before the plan's time that found a change
		for now := begun.Add(6 * time.Hour); now.Before(begun.Add(100 * day)); now = now.Add(6 * time.Hour) {
			for n := range len(sites) * pages {
				if rng.IntN(4*12) == 0 { // a page changes each 12 days
					changed[n] = now.Add(-time.Minute)
				}
			}
			var all []visits.Lastmod
			for n := range len(sites) * pages {
				first, until := sites[n/pages].lastmod(changed[n], now)
				all = append(all, visits.Lastmod{Item: printOf(n), First: first, Until: until})
			}
			must(t, s.Claim(all, now))
			prints, rows, _, err := s.Due(now, 1000)
			must(t, err)
			must(t, s.Queued(prints, rows, now))
			for _, print := range prints {
				n := int(binary.BigEndian.Uint64(print[8:]))
				if now.Sub(read[n]) < 9*day && changed[n].After(read[n]) {
					early[sites[n/pages].name]++
				}
				visit(n, now)
			}
		}
		for _, site := range sites {
			sum, err := s.Host(site.name)
			if err != nil || sum.Trusted() != site.trusted || (early[site.name] > 0) != site.trusted {
				t.Errorf("%s: %+v, %v, %d early visits; want trusted %t", site.name, sum, err, early[site.name], site.trusted)
			}
			t.Logf("%s: %d right, %d wrong, %d missed, %d early visits", site.name, sum.Right, sum.Wrong, sum.Missed, early[site.name])
		}
	})
}
