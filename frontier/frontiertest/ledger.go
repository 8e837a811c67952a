package frontiertest

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// ledger is a model of a crawl. It has no queues, only the state of every URL. It
// computes the answer that a store must give. Where the contract leaves the choice to
// the store, the ledger checks the answer and updates its own state accordingly.
type ledger struct {
	*suite.Driver // ends the run at a wrong answer
	opt           Options
	pagesOnly     bool // leased items do not count towards MaxPages
	urls          map[string]*known
	sites         map[string]*site
	leases        map[frontier.LeaseID]*ledgerLease // leases that have not ended or expired
	showed        map[frontier.Content]frontier.Referrer
	lost          []*ledgerLease // the last 10 leases that ended or expired
	admitted      map[string]bool
	stats         frontier.Stats // without Delayed, Hosts and Filter
	seq           int
}

// known is a URL that was added.
type known struct {
	item      frontier.Item // as the next lease must return it
	returned  bool          // in this round; only then item has Added
	state     frontier.State
	outcome   frontier.Outcome
	status    int
	ended     time.Time // for a failed item
	held      bool      // for a queued item: see frontier.Hold
	seq       int
	loose     bool      // the store chooses the item's place within its priority
	notBefore time.Time // for a queued item: when it is ready
}

// site is a host that ever had a URL.
type site struct {
	added  uint64
	due    time.Time
	delay  time.Duration
	blob   []byte
	fading bool // Retry was called while the host was leased; the blob might be gone
	lease  *ledgerLease

	share  float64 // requests per second of its place in its site, which it has while it is leased, and until leaves
	leaves time.Time

	done, pages, bytes uint64
	causes             map[string]uint64
	last               time.Time // when an item was last done, failed or retried; zero means never
}

// ledgerLease is a lease, as the ledger knows it.
type ledgerLease struct {
	only     *frontier.Priority // see frontier.LeaseRequest.Priority; set only while the lease is granted
	id       frontier.LeaseID
	host     string
	handed   []*known // all items that the lease got, in order
	settled  map[*known]bool
	inFlight int
	deadline time.Time
}

func newLedger(d *driver) *ledger {
	return &ledger{
		Driver: &d.Driver, opt: d.opt, pagesOnly: d.limitsPagesOnly(), urls: map[string]*known{}, sites: map[string]*site{},
		leases: map[frontier.LeaseID]*ledgerLease{}, admitted: map[string]bool{},
		showed: map[frontier.Content]frontier.Referrer{},
		stats: frontier.Stats{
			Books:    frontier.Books{Refused: map[frontier.Reason]uint64{}},
			Outcomes: map[frontier.Outcome]uint64{}, Causes: map[string]uint64{},
		},
	}
}

// open returns the items of h that are not completed, in the order in which h got them.
func (h *ledgerLease) open() (open []*known) {
	for _, k := range h.handed {
		if !h.settled[k] {
			open = append(open, k)
		}
	}
	return open
}

// offer returns the verdicts that a store must give on offers, and updates the ledger.
func (g *ledger) offer(offers []frontier.Offer, now time.Time) []frontier.Verdict {
	verdicts := make([]frontier.Verdict, len(offers))
	for i, offer := range offers {
		verdicts[i] = g.offerOne(offer, now)
		g.stats.Found++
		switch verdicts[i].Answer {
		case frontier.Added:
			g.stats.Added++
			g.stats.Queued++
		case frontier.Seen:
			g.stats.Seen++
		case frontier.Refused:
			g.stats.Refused[verdicts[i].Reason]++
		}
	}
	return verdicts
}

func (g *ledger) offerOne(offer frontier.Offer, now time.Time) frontier.Verdict {
	switch {
	case offer.URL == "" || offer.Host == "":
		return frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonMalformed}
	case len(offer.URL) > frontier.MaxURLBytes:
		return frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonTooLong}
	case g.urls[offer.URL] != nil:
		return frontier.Verdict{Answer: frontier.Seen}
	}
	s := g.sites[offer.Host]
	if s == nil {
		s = &site{delay: g.opt.Delay, causes: map[string]uint64{}}
	}
	unlimited := g.opt.SeedsUnlimited && g.admitted[frontier.SeedHost(offer.Host)]
	if g.opt.MaxPerHost > 0 && s.added >= g.opt.MaxPerHost && !unlimited {
		return frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonHostLimit}
	}
	g.sites[offer.Host] = s
	s.added++
	g.seq++
	g.urls[offer.URL] = &known{
		item: itemOf(offer), state: frontier.Queued, seq: g.seq, loose: offer.Delay > 0, notBefore: now.Add(offer.Delay),
	}
	return frontier.Verdict{Answer: frontier.Added}
}

// itemOf returns the item of an offer, without a fingerprint. It does not call
// frontier.Offer.Item, because the stores that are tested call that method.
func itemOf(offer frontier.Offer) frontier.Item {
	return frontier.Item{
		URL: offer.URL, Host: offer.Host, Depth: offer.Depth, Hops: offer.Hops, Priority: offer.Priority,
		Class: offer.Class, Referrer: offer.Referrer,
	}
}

// live returns the leases that have not ended or expired, in a fixed order.
func (g *ledger) live() []*ledgerLease {
	return slices.SortedFunc(maps.Values(g.leases), func(a, b *ledgerLease) int {
		return bytes.Compare(a.id[:], b.id[:])
	})
}

// expire ends the expired leases.
func (g *ledger) expire() {
	now := g.Clock.Now()
	for _, h := range g.live() {
		if now.Before(h.deadline) {
			continue
		}
		for i, k := range h.open() {
			if i < h.inFlight {
				k.item.Deliveries = min(k.item.Deliveries+1, frontier.MaxDeliveries)
			}
		}
		s := g.sites[h.host]
		if h.inFlight > 0 {
			s.due = later(s.due, h.deadline.Add(s.delay))
		}
		g.release(h, h.deadline)
	}
}

// release returns the open items of a lease, which ended at a time, to the queue, and removes the lease.
func (g *ledger) release(h *ledgerLease, ended time.Time) {
	if s := g.sites[h.host]; h.inFlight > 0 {
		s.leaves = ended.Add(min(s.due.Sub(ended), seconds(1/s.share)))
	}
	for _, k := range h.open() {
		k.state, k.notBefore = frontier.Queued, time.Time{}
		g.stats.Leased--
		g.stats.Queued++
	}
	g.sites[h.host].lease = nil
	delete(g.leases, h.id)
	if g.lost = append(g.lost, h); len(g.lost) > 10 {
		g.lost = g.lost[1:]
	}
}

// ready returns the items of host that a lease can get now, if the host is due. settled
// are the items that the lease has completed.
func (g *ledger) ready(host string, settled map[*known]bool, now time.Time) (ready []*known) {
	for _, k := range g.urls {
		if k.item.Host == host && k.state == frontier.Queued && !k.notBefore.After(now) && !k.held && !settled[k] {
			ready = append(ready, k)
		}
	}
	return ready
}

// wake returns the time at which host can be leased next, if its present lease expires.
// waiting is false if the host has no queued or leased items.
func (g *ledger) wake(host string) (at time.Time, waiting bool) {
	s := g.sites[host]
	for _, k := range g.urls {
		if k.item.Host != host || k.held || k.state != frontier.Queued && k.state != frontier.Leased {
			continue
		}
		if !waiting || k.notBefore.Before(at) {
			at, waiting = k.notBefore, true
		}
	}
	at = later(at, s.due)
	if s.lease != nil && s.lease.inFlight > 0 {
		at = later(at, s.lease.deadline.Add(s.delay))
	} else if s.lease != nil {
		at = later(at, s.lease.deadline)
	}
	return at, waiting
}

// hand checks that got contains the items that h must get, at most n of them, and updates
// the ledger.
func (g *ledger) hand(h *ledgerLease, got []frontier.Item, n int, maxPages uint64, now time.Time) {
	ready := g.ready(h.host, h.settled, now)
	if h.only != nil {
		ready = slices.DeleteFunc(ready, func(k *known) bool { return k.item.Priority != *h.only })
	}
	left := g.allowance(maxPages)
	want := min(n, len(ready))
	g.Require(len(got) <= want && len(got) >= min(want, left),
		"%d items of %s handed out, want %d (%d ready, %d pages left)", len(got), h.host, min(want, left), len(ready), left)
	g.Require(len(got) <= left, "%d items of %s handed out with %d pages left", len(got), h.host, left)
	taken := map[*known]bool{}
	for i, item := range got {
		k := g.urls[item.URL]
		g.Require(k != nil && !taken[k] && slices.Contains(ready, k), "%q handed out, which is not ready", suite.Cut(item.URL))
		g.wantSame(item, k)
		// Each ready item that comes before k must be among the taken items.
		for _, before := range ready {
			earlier := before.item.Priority < k.item.Priority ||
				before.item.Priority == k.item.Priority && before.seq < k.seq && !before.loose && !k.loose
			g.Require(before == k || taken[before] || !earlier,
				"item %d: %q handed out before %q", i, suite.Cut(item.URL), suite.Cut(before.item.URL))
		}
		taken[k] = true
	}
	for _, item := range got {
		k := g.urls[item.URL]
		k.state, k.notBefore = frontier.Leased, time.Time{}
		h.handed = append(h.handed, k)
		g.stats.Queued--
		g.stats.Leased++
	}
}

func (g *ledger) allowance(maxPages uint64) int {
	if maxPages == 0 {
		return 1 << 30
	}
	if g.pagesOnly && g.stats.Pages < maxPages {
		return 1 << 30
	}
	return int(maxPages) - min(int(maxPages), int(g.stats.Pages+g.stats.Leased))
}

// granted checks the answer of Lease and updates the ledger.
func (g *ledger) granted(request frontier.LeaseRequest, grant frontier.Grant, now time.Time) {
	g.Require(len(grant.Leases) <= len(request.IDs), "Lease granted %d leases for %d ids",
		len(grant.Leases), len(request.IDs))
	ids := map[frontier.LeaseID]bool{}
	for _, l := range grant.Leases {
		g.Require(!ids[l.ID] && slices.Contains(request.IDs, l.ID), "lease %x was not asked for, or came twice", l.ID)
		ids[l.ID] = true
		g.grantedOne(request, l, now)
	}
	for _, id := range request.IDs {
		g.Require(g.leases[id] == nil || ids[id], "a repeat of Lease did not return lease %x, which its worker holds", id)
	}
	g.checkRest(request, grant, now)
}

func (g *ledger) grantedOne(request frontier.LeaseRequest, l frontier.Lease, now time.Time) {
	s := g.sites[l.Host]
	g.Require(s != nil, "unknown host %q handed out", l.Host)
	g.Require(string(l.Blob) == string(s.blob) || s.fading && len(l.Blob) == 0,
		"%s handed out with blob %q, want %q", l.Host, suite.Cut(string(l.Blob)), suite.Cut(string(s.blob)))
	if h := g.leases[l.ID]; h != nil {
		g.repeated(h, l, now)
		return
	}
	these := request.Hosts != nil
	may := these && slices.Contains(request.Hosts, l.Host) ||
		!these && !g.stats.Paused && !s.due.After(now) && !g.opt.Policy.Load().HostPaused(l.Host)
	g.Require(may && s.lease == nil && len(l.Items) > 0 && l.TTL == g.opt.LeaseTTL,
		"host %s handed out for %v with %d items; crawl paused: %t, host leased: %t, due in %v",
		l.Host, l.TTL, len(l.Items), g.stats.Paused, s.lease != nil, s.due.Sub(now))
	if !these {
		g.enterSite(l.Host, now)
	}
	h := &ledgerLease{
		id: l.ID, host: l.Host, settled: map[*known]bool{},
		inFlight: max(request.InFlight, 1), deadline: now.Add(l.TTL),
	}
	most := batch(g.opt.LeaseTTL, s.delay)
	if these {
		h.inFlight, h.only, most = 0, &request.Priority, 32
	}
	g.hand(h, l.Items, most, request.MaxPages, now)
	h.only = nil
	s.lease, g.leases[l.ID] = h, h
	s.blob, s.fading = l.Blob, false
}

// enterSite checks that there is a place for a host in its site.
func (g *ledger) enterSite(host string, now time.Time) {
	s, load := g.sites[host], 0.0
	for other, o := range g.sites {
		if policy.Site(other) == policy.Site(host) && (o.lease != nil && o.lease.inFlight > 0 || o.leaves.After(now)) {
			load += o.share
		}
	}
	own := g.opt.Policy.Load().Host(host)
	if s.share = 0; own.DomainRate > 0 && s.delay > 0 {
		s.share = 1 / s.delay.Seconds()
		g.Require(load == 0 || load+s.share <= own.DomainRate+1e-6,
			"host %s handed out, with %v requests per second, while its site has %v of %v", host, s.share, load, own.DomainRate)
	}
}

func seconds(s float64) time.Duration { return time.Duration(min(s, 1e6) * float64(time.Second)) }

// mayCrowd reports whether a host can wait for a place in its site. The store chooses when it is tried again.
func (g *ledger) mayCrowd(host string) bool {
	return g.opt.DomainRate > 0 && strings.HasSuffix(host, "."+siblings)
}

// repeated checks the answer to a repeated request for a lease. The answer must have all
// items of the lease, or all items that are not completed.
func (g *ledger) repeated(h *ledgerLease, l frontier.Lease, now time.Time) {
	left := h.deadline.Sub(now)
	g.Require(l.Host == h.host && (l.TTL == left || l.TTL == g.opt.LeaseTTL),
		"repeat of the lease of %s: host %s with TTL %v, want this host with %v or %v",
		h.host, l.Host, l.TTL, left, g.opt.LeaseTTL)
	h.deadline = now.Add(l.TTL)
	want := h.handed
	if len(l.Items) != len(want) {
		want = h.open()
	}
	same := slices.EqualFunc(l.Items, want, func(item frontier.Item, k *known) bool { return item.URL == k.item.URL })
	g.Require(same, "repeat of the lease of %s: items %q, want all, or all not completed", h.host, urls(l.Items))
}

// checkRest checks the fields of a grant other than Leases.
func (g *ledger) checkRest(request frontier.LeaseRequest, grant frontier.Grant, now time.Time) {
	exhausted := g.allowance(request.MaxPages) == 0
	empty := g.stats.Queued+g.stats.Leased == 0
	mustLimit := exhausted && g.stats.Queued > 0 && !grant.Paused && len(grant.Leases) < len(request.IDs)
	g.Require(grant.Paused == g.stats.Paused, "Grant.Paused is %t, want %t", grant.Paused, g.stats.Paused)
	g.Require(grant.Empty == empty,
		"Grant.Empty is %t with %d queued, %d leased", grant.Empty, g.stats.Queued, g.stats.Leased)
	g.Require((exhausted || !grant.Limited) && (grant.Limited || !mustLimit),
		"Grant.Limited is %t with %d pages, %d leased, limit %d",
		grant.Limited, g.stats.Pages, g.stats.Leased, request.MaxPages)
	g.Require(grant.Reached == (grant.Limited && g.stats.Pages >= request.MaxPages),
		"Grant.Reached is %t, Limited %t with %d pages, limit %d",
		grant.Reached, grant.Limited, g.stats.Pages, request.MaxPages)
	if grant.Paused || exhausted || grant.Empty || request.Hosts != nil {
		return
	}
	due, first, crowded := 0, time.Time{}, false
	for host, s := range g.sites {
		at, waiting := g.wake(host)
		if !waiting {
			continue
		}
		if g.opt.Policy.Load().HostPaused(host) { // a store can find a host due that is paused, and look once more
			crowded = crowded || s.lease == nil && !at.After(now)
			continue
		}
		if g.mayCrowd(host) {
			crowded = crowded || s.lease == nil && !at.After(now)
			continue
		}
		if s.lease == nil && !at.After(now) {
			due++
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	if due == 0 {
		g.Require((grant.Wait > 0 || crowded) && (first.IsZero() || !now.Add(grant.Wait).After(first)),
			"Grant.Wait is %v, want more than 0 and no more than %v, when the first host is due", grant.Wait, first.Sub(now))
		return
	}
	g.Require(grant.Wait == 0, "Grant.Wait is %v with %d hosts due, want 0", grant.Wait, due)
	g.Require(len(grant.Leases) > 0 || len(request.IDs) == 0, "nothing handed out with %d hosts due", due)
}

// extended checks the answer of Extend and updates the ledger.
func (g *ledger) extended(id frontier.LeaseID, topUp frontier.TopUp, got frontier.Extension, err error, now time.Time) {
	h := g.leases[id]
	if h == nil {
		g.Require(errors.Is(err, frontier.ErrLeaseLost), "Extend of a lost lease = %v, want ErrLeaseLost", err)
		return
	}
	g.Require(err == nil && got.TTL == g.opt.LeaseTTL,
		"Extend of the lease of %s: TTL %v, error %v, want TTL %v", h.host, got.TTL, err, g.opt.LeaseTTL)
	h.deadline = now.Add(got.TTL)
	old := h.handed[topUp.Known:]
	g.Require(len(got.Items) >= len(old),
		"Extend of the lease of %s with %d known items: items %q, want at least %d",
		h.host, topUp.Known, urls(got.Items), len(old))
	for i, k := range old {
		g.Require(got.Items[i].URL == k.item.URL,
			"Extend of the lease of %s with %d known items: item %d is %q, want %q",
			h.host, topUp.Known, i, got.Items[i].URL, k.item.URL)
	}
	n := max(topUp.Items-len(h.open()), 0)
	if g.stats.Paused {
		n = 0
	}
	g.hand(h, got.Items[len(old):], n, topUp.MaxPages, now)
}

// complete updates the ledger after a Complete without error. It returns the records that
// must have been written for each item.
func (g *ledger) complete(id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate, now time.Time) map[*known]records {
	h := g.leases[id]
	written := map[*known]records{}
	for _, c := range done {
		k := h.find(c)
		if k == nil || h.settled[k] {
			continue
		}
		h.settled[k] = true
		told, c := g.show(c)
		counts, answers := g.follow(c, now)
		answers = told + answers
		written[k] = records{answers: answers}
		g.stats.Leased--
		s := g.sites[h.host]
		g.stats.Bytes += uint64(c.BodyBytes)
		s.bytes += uint64(c.BodyBytes)
		if c.Cause != "" {
			g.stats.Causes[c.Cause]++
			s.causes[c.Cause]++
		}
		if c.Disposition != frontier.GiveBack {
			s.last = now
		}
		switch c.Disposition {
		case frontier.GiveBack:
			k.state = frontier.Queued
			g.stats.Queued++
		case frontier.Last, frontier.Hold:
			k.state, k.loose = frontier.Queued, true
			k.held = c.Disposition == frontier.Hold && g.opt.Policy.Load().Paused(k.item.Host, k.item.URL)
			g.stats.Queued++
		case frontier.Retry:
			k.state, k.loose, k.notBefore = frontier.Queued, true, now.Add(c.RetryIn)
			k.item.Attempts++
			g.stats.Queued++
			g.stats.Retries++
		case frontier.Finish:
			g.finish(k, c, now)
			if c.Record != nil {
				g.stats.Records++
				written[k] = records{1, counts, answers}
			}
		}
	}
	s := g.sites[h.host]
	if !update.Keep {
		s.due, s.delay = now.Add(update.Due), update.Delay
	}
	if update.Blob != nil {
		s.blob, s.fading = slices.Clone(update.Blob), false
	}
	if update.End {
		g.release(h, now)
	}
	return written
}

func (h *ledgerLease) find(c frontier.Completion) *known {
	for _, k := range h.handed {
		if k.item.Fingerprint == c.Item {
			return k
		}
	}
	return nil
}

// show notes what the item of a completion showed. It returns what the item was told, and the completion with the links that are followed.
func (g *ledger) show(c frontier.Completion) (told string, followed frontier.Completion) {
	if c.Disposition != frontier.Finish || c.Showed.Content == (frontier.Content{}) {
		return "", c
	}
	first := func(content frontier.Content) frontier.Referrer {
		if _, known := g.showed[content]; !known {
			g.showed[content] = frontier.ReferrerOf(c.Item)
		}
		return g.showed[content]
	}
	var wrote records
	wrote.first(first(c.Showed.Content))
	if c.Showed.WithLinks != (frontier.Content{}) && first(c.Showed.WithLinks) != frontier.ReferrerOf(c.Item) && len(c.Links) > 0 {
		for i := range c.Links {
			wrote.answer(i, frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonDuplicate})
		}
		c.Refused = append(slices.Clone(c.Refused), frontier.Refusal{Reason: frontier.ReasonDuplicate, Count: uint64(len(c.Links))})
		c.Links = nil
	}
	return wrote.answers, c
}

func (g *ledger) follow(c frontier.Completion, now time.Time) (counts frontier.LinkCounts, answers string) {
	var wrote records
	for i, verdict := range g.offer(c.Links, now) {
		counts.Count(verdict.Answer, 1)
		if verdict.Answer != frontier.Seen {
			wrote.answer(i, verdict)
		}
	}
	for _, refusal := range c.Refused {
		counts.Count(frontier.Refused, refusal.Count)
		g.stats.Found += refusal.Count
		g.stats.Refused[refusal.Reason] += refusal.Count
	}
	return counts, wrote.answers
}

func (g *ledger) finish(k *known, c frontier.Completion, now time.Time) {
	k.state, k.outcome, k.status, k.ended = c.Outcome.State(), c.Outcome, c.Status, now
	g.stats.Outcomes[c.Outcome]++
	if k.item.Round > 0 {
		g.stats.Repeats++
	}
	s := g.sites[k.item.Host]
	if k.state == frontier.Done {
		g.stats.Done++
		s.done++
	} else {
		g.stats.Failed++
	}
	if c.Page {
		g.stats.Pages++
		s.pages++
	}
}

// retry updates the ledger for Control.Retry and returns the number of items that it must
// queue again.
func (g *ledger) retry(of frontier.Failures, now time.Time) (n int) {
	for _, k := range g.urls {
		if k.state != frontier.Failed || of.Host != "" && k.item.Host != of.Host || !of.Select(k.outcome, now.Sub(k.ended)) {
			continue
		}
		n++
		k.state, k.loose, k.notBefore = frontier.Queued, true, time.Time{}
		k.item.Round++
		k.returned = false
		k.item.Attempts, k.item.Deliveries = 0, 0
		if s := g.sites[k.item.Host]; s.lease != nil {
			s.fading = true
		} else {
			s.blob = nil
		}
		g.stats.Failed--
		g.stats.Queued++
	}
	return n
}

// changed updates the ledger after a change of the policy.
func (g *ledger) changed(p *policy.Policy) {
	for _, k := range g.urls {
		k.held = k.held && p.Paused(k.item.Host, k.item.URL)
	}
}
