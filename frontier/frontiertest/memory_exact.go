package frontiertest

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// seen reports whether an offer must be answered Seen. An undecided offer is seen if its
// URL is known. An offer about which an exact set has decided is seen if the decision is
// Known, or if the URL is queued or leased.
func (d *draft) seen(o offered) bool {
	before := d.m.entries[o.print]
	switch {
	case o.Decision == frontier.Known:
		return true
	case o.Decision != frontier.Undecided:
		return before.waits()
	case o.Class != frontier.Bulk:
		return before != nil
	}
	return d.m.claims(o.print)
}

// claims reports whether the filter claims to contain a fingerprint.
func (m *Memory) claims(fp bloomstore.Fingerprint) bool {
	return m.entries[fp] != nil || m.filter != nil && m.filter.Test(fp[:])
}

// decided counts a new or promoted offer that the filter claims to contain. It sets the
// round of such a promoted offer if its round is 0.
func (d *draft) decided(o *offered) {
	switch {
	case o.Decision == frontier.New && d.m.claims(o.print):
		d.recovered++
	case o.Decision == frontier.Promoted && d.m.claims(o.print):
		d.promoted++
		// If the round is not 0, the exact set has chosen it, and no bulk item of the URL has
		// had that round.
		if o.Round == 0 {
			o.Round = frontier.PromotedRound
		}
	}
}

// RetryUnless implements exact.Queue.
func (m *Memory) RetryUnless(ctx context.Context, host string, outdated func(context.Context, *frontier.Item) (bool, error)) (int, error) {
	var exactItems []frontier.Item
	err := m.List(ctx, frontier.Failed, host, func(it frontier.Item) bool {
		if it.Class != frontier.Bulk {
			exactItems = append(exactItems, it)
		}
		return true
	})
	if err != nil {
		return 0, err
	}
	stays := make(map[bloomstore.Fingerprint]bool)
	for _, it := range exactItems {
		if stays[it.Fingerprint], err = outdated(ctx, &it); err != nil {
			return 0, err
		}
	}
	return m.retry(host, stays), nil
}

// waits reports whether e is queued or leased. It returns false if e is nil.
func (e *entry) waits() bool {
	return e != nil && (e.state == frontier.Queued || e.state == frontier.Leased)
}

// Waits implements exact.Queue.
func (m *Memory) Waits(_ context.Context, keys []exact.ItemKey) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	waits := make([]bool, len(keys))
	for i, key := range keys {
		waits[i] = m.entries[key.Fingerprint].waits()
	}
	return waits, nil
}
