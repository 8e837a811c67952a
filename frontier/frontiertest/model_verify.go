package frontiertest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// verify compares everything that the methods of the crawl return with the ledger.
func (p *player) verify() {
	p.Note("verify")
	p.ledger.expire()
	// Some stores end expired leases only during a call of Lease.
	p.ledger.granted(frontier.LeaseRequest{}, p.grant(frontier.LeaseRequest{}), p.Clock.Now())
	p.verifyStats()
	for _, state := range []frontier.State{frontier.Queued, frontier.Leased, frontier.Failed} {
		host := ""
		if p.chance(30) {
			host = p.randomHost()
		}
		listed := p.list(state, host)
		for _, k := range p.ledger.sortedURLs() {
			item, there := listed[k.item.URL]
			p.Require(there == (k.state == state && (host == "" || k.item.Host == host)),
				"%q is listed as %s of host %q: %t, but it is %s", suite.Cut(k.item.URL), state, host, there, k.state)
			if there {
				p.ledger.wantSame(item, k)
			}
			delete(listed, k.item.URL)
		}
		p.Require(len(listed) == 0, "items that are listed as %s, but were never added: %v", state, listed)
	}
	for _, k := range p.ledger.sortedURLs() {
		if p.chance(30) {
			p.verifyStatus(k)
		}
	}
	p.verifyHosts()
	p.wantState(page("h0.test", 1000), frontier.Unknown)
	p.wantAudit()
	keys := append(slices.Sorted(maps.Keys(p.ledger.sites)), "H0.test", "")
	open, err := p.Admitted(p.Ctx, keys)
	p.Must(err, "Admitted")
	for i, key := range keys {
		p.Require(open[i] == p.ledger.admitted[key], "Admitted(%q) = %t, want %t", key, open[i], p.ledger.admitted[key])
	}
}

func (p *player) verifyStats() {
	want := p.ledger.stats
	now := p.Clock.Now()
	hosts, loose := map[string]bool{}, uint64(0)
	want.Delayed = 0
	for _, k := range p.ledger.urls {
		if k.state == frontier.Queued || k.state == frontier.Leased {
			hosts[k.item.Host] = true
		}
		if k.state == frontier.Queued && k.loose {
			loose++
		}
		if k.state == frontier.Queued && k.notBefore.After(now) {
			want.Delayed++
		}
	}
	want.Hosts = uint64(len(hosts))
	got := p.books()
	diff := statsDiff(got, want)
	p.Require(diff == "", "Stats: %s", diff)
	p.Require(got.Delayed >= want.Delayed && got.Delayed <= loose,
		"Stats: delayed is %d, want %d to %d", got.Delayed, want.Delayed, loose)
}

// verifyHosts compares what Hosts says about all hosts, or about one host.
func (p *player) verifyHosts() {
	query := frontier.HostQuery{Finished: p.chance(70)}
	if p.chance(30) {
		query.Host = p.randomHost()
	}
	want := map[string]frontier.HostState{}
	for _, k := range p.ledger.urls {
		h := want[k.item.Host]
		switch k.state {
		case frontier.Queued:
			h.Queued++
		case frontier.Leased:
			h.Leased++
		case frontier.Failed:
			h.Counts.Failed++
		}
		want[k.item.Host] = h
	}
	now, listed := p.Clock.Now(), 0
	p.Must(p.Hosts(p.Ctx, query, func(got frontier.HostState) bool {
		listed++
		h, s := want[got.Host], p.ledger.sites[got.Host]
		p.Require(s != nil && (query.Host == "" || query.Host == got.Host), "Hosts(%+v) has %q", query, got.Host)
		h.Counts.Done, h.Counts.Pages, h.Counts.Bytes, h.Counts.Causes = s.done, s.pages, s.bytes, s.causes
		if !s.last.IsZero() {
			h.Counts.Ago = max(now.Sub(s.last), 1)
		}
		p.Require(h.Queued == got.Queued && h.Leased == got.Leased && sameCounts(got.Counts, h.Counts),
			"Hosts: %s has %d queued, %d leased, %+v, want %d, %d, %+v", got.Host, got.Queued, got.Leased, got.Counts, h.Queued, h.Leased, h.Counts)
		p.Require(!got.Crowded || got.DueIn > 0 && s.lease == nil && !s.due.After(now) && p.ledger.mayCrowd(got.Host), "Hosts: %s waits for a place in its site for %v", got.Host, got.DueIn)
		return true
	}), "Hosts")
	for host, h := range want {
		if query.Host != "" && query.Host != host || h.Queued+h.Leased == 0 && !(query.Finished && !p.ledger.sites[host].last.IsZero()) {
			delete(want, host)
		}
	}
	p.Require(listed == len(want), "Hosts(%+v) visits %d hosts, want %d", query, listed, len(want))
}

// sameCounts reports whether a store counts for a host what it must. Its clock may be coarse.
func sameCounts(got, want frontier.HostCounts) bool {
	const coarse = time.Second
	ago := want.Ago == 0 && got.Ago == 0 || want.Ago > 0 && got.Ago > 0 && (got.Ago-want.Ago).Abs() <= coarse
	return ago && !got.Missing && got.Done == want.Done && got.Failed == want.Failed && got.Pages == want.Pages &&
		got.Bytes == want.Bytes && maps.Equal(got.Causes, want.Causes)
}

func (p *player) verifyStatus(k *known) {
	status := p.wantState(k.item.Offer(), k.state)
	if _, forgets := p.Crawl.(ForgetsDone); forgets && k.state == frontier.Done {
		p.Require(status.InFilter, "%q is done and not in the filter", suite.Cut(k.item.URL))
		return
	}
	p.Require(status.InFilter && status.Round == k.item.Round,
		"%q: in filter %t, round %d, want true, %d", suite.Cut(k.item.URL), status.InFilter, status.Round, k.item.Round)
	if k.state == frontier.Done || k.state == frontier.Failed {
		p.Require(status.Outcome == k.outcome && status.Status == k.status,
			"%q: outcome %s, status %d, want %s, %d", suite.Cut(k.item.URL), status.Outcome, status.Status, k.outcome, k.status)
	}
	if k.state != frontier.Done {
		p.ledger.wantSame(status.Item, k)
	}
	s, now := p.ledger.sites[k.item.Host], p.Clock.Now()
	if s.lease == nil && len(p.ledger.ready(k.item.Host, nil, now)) > 0 {
		want := max(s.due.Sub(now), 0)
		p.Require(status.HostDueIn == want || status.HostDueIn > want && p.ledger.mayCrowd(k.item.Host),
			"host %s is due in %v, want %v", k.item.Host, status.HostDueIn, want)
	}
}

// restart closes or crashes the crawl and opens it again. After that, either all leases are
// still valid, or all have ended. If the crawl is a KeepsLeases, restart waits until they
// expire.
func (p *player) restart() {
	old, ok := p.Crawl.(Reopener)
	if !ok {
		return
	}
	again, how := old.Crash, "crash"
	if p.chance(50) {
		again, how = old.Reopen, "reopen"
	}
	p.Note("%s", how)
	// Expired leases must end before the restart. Otherwise a store could let the delays of
	// their hosts begin when the store is opened.
	p.ledger.granted(frontier.LeaseRequest{}, p.grant(frontier.LeaseRequest{}), p.Clock.Now())
	crawl, err := again()
	p.Must(err, how)
	p.Crawl = crawl
	p.last = nil
	p.ledger.expire()
	if _, keeps := p.Crawl.(KeepsLeases); keeps {
		p.runOut()
		p.verify()
		return
	}
	for _, s := range p.ledger.sites { // a store may forget places
		s.share = 0
	}
	p.grant(frontier.LeaseRequest{})
	if leased := p.ledger.stats.Leased; leased > 0 && p.books().Leased == 0 || leased == 0 && p.forgot() {
		p.takenBack(how)
	}
	p.verify()
}

// runOut waits until all leases have expired.
func (p *player) runOut() {
	now := p.Clock.Now()
	last := now
	for _, h := range p.ledger.live() {
		last = later(last, h.deadline)
	}
	p.Clock.Advance((last.Sub(now) + tick).Truncate(tick))
	p.ledger.expire()
}

// forgot reports whether the store ended the leases. It is needed only if no lease has open
// items. Stats.Leased, which is 0 in that case, does not show whether the leases ended.
func (p *player) forgot() bool {
	live := p.ledger.live()
	if len(live) == 0 {
		return false
	}
	_, err := p.Extend(p.Ctx, live[0].id, frontier.TopUp{Known: len(live[0].handed)})
	if err == nil {
		live[0].deadline = p.Clock.Now().Add(p.opt.LeaseTTL)
	}
	return err != nil
}

// takenBack checks a store that ended its leases when it was opened, and updates the
// ledger. No host is allowed to be due before its delay has passed, because a request
// might have started a moment ago. Item.Deliveries may have grown only for items in flight.
func (p *player) takenBack(how string) {
	now := p.Clock.Now()
	queued := p.list(frontier.Queued, "")
	for _, h := range p.ledger.live() {
		s := p.ledger.sites[h.host]
		for i, k := range h.open() {
			got := min(queued[k.item.URL].Deliveries, frontier.MaxDeliveries)
			p.Require(got == k.item.Deliveries || i < h.inFlight && got == min(k.item.Deliveries+1, frontier.MaxDeliveries),
				"after a %s: %q has %d deliveries, had %d before", how, suite.Cut(k.item.URL), got, k.item.Deliveries)
			k.item.Deliveries = got
		}
		earliest, latest := later(s.due, now.Add(s.delay)), later(s.due, h.deadline.Add(s.delay))
		if h.inFlight == 0 { // the caller made no request
			earliest = later(s.due, now)
		}
		status, err := p.Lookup(p.Ctx, h.host, h.handed[0].item.URL)
		p.Must(err, "Lookup")
		s.due = now.Add(status.HostDueIn)
		p.Require(!s.due.Before(earliest) && !s.due.After(latest),
			"after a %s: host %s is due in %v, want %v to %v", how, h.host, status.HostDueIn, earliest.Sub(now), latest.Sub(now))
		p.ledger.release(h, now)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wantSame checks that got, which a store returned, is the item of k.
func (g *ledger) wantSame(got frontier.Item, k *known) {
	want := k.item
	if want.Fingerprint == (frontier.Item{}.Fingerprint) {
		want.Fingerprint, k.item.Fingerprint = got.Fingerprint, got.Fingerprint
	}
	if !k.returned {
		want.Added, k.item.Added, k.returned = got.Added, got.Added, true
	}
	got.Deliveries = min(got.Deliveries, frontier.MaxDeliveries)
	g.Require(got == want, "%q came back as %+v, want %+v", suite.Cut(want.URL), got, want)
}

// sortedURLs returns every known URL in a fixed order, so that equal seeds make equal
// choices.
func (g *ledger) sortedURLs() []*known {
	return slices.SortedFunc(maps.Values(g.urls), func(a, b *known) int { return cmp.Compare(a.seq, b.seq) })
}
