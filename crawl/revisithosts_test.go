package crawl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/visits"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// TestPlansOf: hosts have the plan of the crawl, unless they have one of their own, and weights.
func TestPlansOf(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.Recrawl = "7d"
	s.Hosts = []Host{{Pattern: "news.test", Recrawl: "1h"}, {Pattern: "old.test", Recrawl: "off"}, {Pattern: "*.shop.test", Weight: 10}, {Pattern: "part.test", Recrawl: "90%"}}
	p := newPlan(Config{Dir: "d", Settings: s}, nil)
	if err := errors.Join(p.parse()...); err != nil {
		t.Fatal(err)
	}
	of := p.policy.Load()
	census := new(revisit.Census)
	census.Add(0.1, 1, 100)
	plans := plansOf(of, of.Recrawl.Plan(census, of.RecrawlLimits), census)
	for host, want := range map[string]struct {
		every  time.Duration
		weight float64
		own    bool
	}{
		"a.test": {7 * 24 * time.Hour, 1, false}, "news.test": {time.Hour, 1, true}, "old.test": {100 * 365 * 24 * time.Hour, 1, true},
		"a.shop.test": {7 * 24 * time.Hour, 10, false}, "part.test": {of.Recrawl.Plan(census, of.RecrawlLimits).Interval(1, 1), 1, true},
	} {
		got := plans(host)
		every := got.Plan.Interval(0.1, 1)
		if host == "part.test" {
			every, want.every = time.Duration(census.Fresh(got.Plan)*100+0.5), 90
		}
		if every != want.every || got.Weight != want.weight || got.Own != want.own {
			t.Errorf("%s: every %v, %+v, want %+v", host, every, got, want)
		}
	}
}

// TestSlowHostLeavesRoom: pages of a host with very many that are due do not keep those of other hosts from their visits, and the
// host's own are queued as far as there is room.
func TestSlowHostLeavesRoom(t *testing.T) {
	t.Parallel()
	store, err := visits.Open(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r := &revisits{store: store}
	begun := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	plan := revisit.Fixed(24*time.Hour, revisit.Limits{Least: time.Hour, Most: 90 * 24 * time.Hour})
	var all []visits.Visit
	add := func(host string, n int, at time.Time) {
		for range n {
			i := len(all)
			all = append(all, visits.Visit{
				Fingerprint: bloomstore.Fingerprint{byte(i >> 8), byte(i), 1},
				Item:        frontier.Finished{Offer: frontier.Offer{URL: fmt.Sprintf("http://%s/%d", host, i), Host: host}},
				Visit:       revisit.Visit{At: at, Answer: revisit.Content},
			})
		}
	}
	add("slow.test", 4*mostOfHost, begun)
	add("other.test", 10, begun.Add(time.Minute)) // due after all pages of the slow one
	if err := store.Add(all, record.Place{File: 1, Offset: 1}, visits.Everywhere(plan)); err != nil {
		t.Fatal(err)
	}
	queued := make(map[string]int)
	step := func(now time.Time) bool {
		prints, rows, _, err := store.Due(now, visitStep)
		if err != nil {
			t.Fatal(err)
		}
		more := len(prints) > 0
		if prints, rows, err = r.postpone(prints, rows, now); err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			queued[rows[i].Item.Host]++
		}
		if err := store.Queued(prints, rows, now); err != nil {
			t.Fatal(err)
		}
		return more
	}
	now := begun.Add(25 * time.Hour)
	for step(now) {
	}
	if queued["slow.test"] != mostOfHost || queued["other.test"] != 10 {
		t.Errorf("queued: %v, want %d of the slow host and 10 of the other", queued, mostOfHost)
	}
	var done []visits.Visit // half of those in the queue
	for i := range mostOfHost / 2 {
		v := all[i]
		v.Item.Round, v.At = 1, now
		done = append(done, v)
	}
	if err := store.Add(done, record.Place{File: 1, Offset: 2}, visits.Everywhere(plan)); err != nil {
		t.Fatal(err)
	}
	for now = now.Add(time.Hour); step(now); {
	}
	if queued["slow.test"] != mostOfHost*3/2 {
		t.Errorf("queued: %v, want %d of the slow host", queued, mostOfHost*3/2)
	}
}
