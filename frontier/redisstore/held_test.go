package redisstore

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// numberedItems returns items with the numbers first to end-1.
func numberedItems(first, end int) (items []*heldItem) {
	for n := first; n < end; n++ {
		items = append(items, &heldItem{number: int64(n), item: frontier.Item{URL: fmt.Sprint(n), Fingerprint: bloomstore.Fingerprint{byte(n), byte(n >> 8)}}})
	}
	return items
}

// TestHoldingReceives: the replies to two top-ups have some of the same items, and arrive
// in another order. Each item is received once.
func TestHoldingReceives(t *testing.T) {
	h := newHolding(frontier.LeaseID{1}, nil, "a.test")
	h.grant(numberedItems(1, 4), nil, time.Time{})
	h.receive(numberedItems(3, 8))
	h.receive(numberedItems(4, 6))
	if got, want := urlsOf(h.since(1)), []string{"2", "3", "4", "5", "6", "7"}; !slices.Equal(got, want) {
		t.Errorf("items after the first: %q, want %q", got, want)
	}
	if h.next() != 8 || h.open() != 7 {
		t.Errorf("next number is %d, want 8; %d items are open, want 7", h.next(), h.open())
	}
}

// TestHoldingsSweep: leases are removed at their deadline, not before.
func TestHoldingsSweep(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	var table holdings
	for n := range 5 {
		h := newHolding(frontier.LeaseID{byte(n)}, nil, "a.test")
		h.grant(nil, nil, now.Add(time.Duration(n)*time.Second))
		table.put(h)
	}
	table.get(frontier.LeaseID{4}).settle(nil, frontier.HostUpdate{End: true})
	if got := table.live(now); got != 3 {
		t.Errorf("%d leases are live, want 3: one ran out, one ended", got)
	}
	table.sweep(now.Add(2 * time.Second))
	for n := range 5 {
		if kept := table.get(frontier.LeaseID{byte(n)}) != nil; kept != (n > 2) {
			t.Errorf("after 2s a lease of %ds is kept: %t, want %t", n, kept, n > 2)
		}
	}
}
