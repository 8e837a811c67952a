package frontiertest

import (
	"context"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// seen reports whether an offer must be answered Seen. An undecided offer is seen if its
// URL is known. An offer about which an exact set has decided is seen if the decision is
// Known, or if the URL is queued or leased.
func (d *draft) seen(o offered) bool {
	before := d.m.entries[o.print]
	switch {
	case o.decision.Kind == exact.Known:
		return true
	case o.decision.Kind != exact.Undecided:
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

// decided counts a new or promoted offer that the filter claims to contain, and sets its round.
func (d *draft) decided(o *offered) {
	claimed := d.m.claims(o.print)
	switch {
	case claimed && o.decision.Kind == exact.New:
		d.recovered++
	case claimed && o.decision.Kind == exact.Promoted:
		d.promoted++
	}
	if claimed && o.decision.Later {
		o.decision.Round = max(o.decision.Round, d.top+1)
	}
	d.top = max(d.top, o.decision.Round)
}

// decide asks the exact set about the links of completions, or rechecks what it decided for an earlier call that failed.
func (m *Memory) decide(ctx context.Context, l *lease, done []frontier.Completion) error {
	needed := false
	for _, c := range done {
		class := m.entries[c.Item].item.Class
		needed = needed || exact.HasExact(c.Links) || class != frontier.Bulk && c.Disposition == frontier.Finish
	}
	if !needed {
		return nil
	}
	client := m.cfg.Exact
	if err := client.Ready(ctx); err != nil {
		return err
	}
	var links []frontier.Offer // of completions for which the set was not asked before
	for _, c := range done {
		if before, asked := l.decided[m.entries[c.Item]]; !asked {
			links = append(links, c.Links...)
		} else if decided, err := client.Recheck(ctx, before); err != nil {
			return err
		} else {
			l.decided[m.entries[c.Item]] = client.Fresh(decided)
		}
	}
	decided, err := client.Decide(ctx, m.hasher, links)
	if err != nil || decided.Each == nil {
		return err
	}
	for _, c := range done {
		if _, asked := l.decided[m.entries[c.Item]]; !asked {
			l.decided[m.entries[c.Item]] = exact.Decisions{Each: decided.Each[:len(c.Links)], At: decided.At}
			decided.Each = decided.Each[len(c.Links):]
		}
	}
	return nil
}

// settleLinks stores the answers to exact links in the exact set.
func (m *Memory) settleLinks(ctx context.Context, l *lease, done []frontier.Completion, verdicts [][]frontier.Verdict) {
	crash.Point("completed")
	answers := exact.Answers{}
	for i, c := range done {
		e := m.entries[c.Item]
		m.cfg.Exact.Collect(answers, l.decided[e], verdicts[i])
		delete(l.decided, e)
	}
	m.cfg.Exact.Settle(ctx, answers)
}

// retryExact asks the exact set about failed exact items. It returns those that stay failed, and how many URLs it offered
// that were added.
func (m *Memory) retryExact(ctx context.Context, of frontier.Failures) (stays map[bloomstore.Fingerprint]bool, offered int, err error) {
	var failed []frontier.Item
	m.mu.Lock()
	for _, e := range m.entries {
		if e.item.Class != frontier.Bulk && m.selected(&of, e) {
			failed = append(failed, e.item)
		}
	}
	m.mu.Unlock()
	stays = make(map[bloomstore.Fingerprint]bool)
	for _, it := range failed {
		what, err := m.cfg.Exact.Retry(ctx, &it)
		if err != nil {
			return nil, offered, err
		}
		stays[it.Fingerprint] = what != exact.RetryItem
		if what != exact.OfferAgain {
			continue
		}
		verdicts, err := m.Add(ctx, []frontier.Offer{it.Offer()})
		if err != nil {
			return nil, offered, err
		}
		if verdicts[0].Answer == frontier.Added {
			offered++
		}
	}
	return stays, offered, nil
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

// AddDecided implements exact.Queue.
func (m *Memory) AddDecided(_ context.Context, offers []frontier.Offer, decided []exact.Decision) ([]frontier.Verdict, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.newDraft()
	verdicts := d.offer(offers, decided)
	d.commit(m.cfg.Now())
	return verdicts, nil
}
