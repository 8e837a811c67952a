package frontiertest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Model makes random calls to a crawl, which the function open returns. steps is the number
// of calls. The crawl has a clock of its own. Model compares every answer with a model. Now and
// then it closes or crashes a Reopener, and opens it again. Equal seeds make equal calls.
// A run that fails prints its calls.
func Model(t *testing.T, open func(t *testing.T, opt Options) Crawl, seed uint64, steps int) {
	t.Helper()
	t.Logf("replay with seed %d", seed)
	if err := suite.Try(t, modelRun(seed, steps), driving(open)); err != nil {
		t.Error(err)
	}
}

// modelRun returns the random run as a case.
func modelRun(seed uint64, steps int) testCase {
	rng := rand.New(rand.NewPCG(seed, 2))
	opt := Options{
		// Leases expire between two ticks of the player's clock, so that no check
		// depends on whether a call comes before or after an expiry.
		LeaseTTL:   10*time.Second + 50*time.Millisecond,
		Delay:      []time.Duration{0, tick, time.Second, 4 * time.Second}[rng.IntN(4)],
		MaxPerHost: []uint64{0, 20}[rng.IntN(2)], SeedsUnlimited: seed/2%2 == 1,
		DomainRate: []float64{0, 1, 20}[seed/4%3],
	}
	return testCase{fmt.Sprintf("seed=%d", seed), opt, func(d *driver) {
		p := &player{driver: d, rng: rng, ledger: newLedger(d)}
		for range steps {
			p.step()
		}
		p.verify()
	}}
}

const tick = 100 * time.Millisecond

// player makes random calls. The ledger checks the answers.
type player struct {
	*driver
	rng    *rand.Rand
	ledger *ledger
	last   *completeCall
	exact  bool // offers exact items only
}

// completeCall is a call of Complete that was answered without error.
type completeCall struct {
	id       frontier.LeaseID
	done     []frontier.Completion
	update   frontier.HostUpdate
	deadline time.Time
}

func (p *player) chance(percent int) bool { return p.rng.IntN(100) < percent }

// ticks returns a random duration of 0 to n ticks.
func (p *player) ticks(n int) time.Duration { return time.Duration(p.rng.IntN(n+1)) * tick }

func (p *player) step() {
	p.ledger.expire()
	suite.Step(p.rng, []suite.Move{
		{20, p.addSome}, {20, p.leaseSome}, {8, p.extendOne}, {30, p.completeOne}, {4, p.completeAgain},
		{4, p.completeLost}, {20, p.wait}, {2, p.pause}, {6, p.retry}, {3, p.pauseSome}, {3, p.limitSites}, {3, p.leaseThese}, {2, p.dropSome}, {2, p.admit}, {4, p.verify}, {1, p.restart},
	})
}

func (p *player) wait() {
	d := p.ticks(20)
	switch p.rng.IntN(12) {
	case 0:
		d = p.ticks(300)
	case 1:
		d = p.ticks(5000)
	}
	p.Note("wait %v", d)
	p.Clock.Advance(d)
}

// randomOffer returns an offer of one of 240 URLs, or seldom of one that is longer. The class depends on the URL, and the other
// fields are random.
func (p *player) randomOffer() frontier.Offer {
	offer := page(hostName(p.rng.IntN(8)), p.rng.IntN(30))
	if p.exact || len(offer.URL)%2 == 0 {
		offer.Class = frontier.Exact
	}
	offer.Priority = frontier.Priority(p.rng.IntN(frontier.Priorities))
	offer.Depth, offer.Hops = uint16(p.rng.IntN(1<<16)), uint8(p.rng.IntN(256))
	offer.Referrer[p.rng.IntN(8)] = byte(p.rng.IntN(256))
	switch p.rng.IntN(30) {
	case 0:
		offer.URL = ""
	case 1:
		offer.Host = ""
	case 2: // of the largest length, or longer by one byte
		offer.URL += strings.Repeat("x", frontier.MaxURLBytes-len(offer.URL)+p.rng.IntN(2))
	case 3, 4, 5:
		offer.Delay = tick + p.ticks(200)
	}
	return offer
}

func (p *player) randomOffers(n int) (offers []frontier.Offer) {
	for range p.rng.IntN(n + 1) {
		offers = append(offers, p.randomOffer())
	}
	return offers
}

func (p *player) addSome() {
	offers := p.randomOffers(12)
	p.Note("add %q", offeredURLs(offers))
	want := p.ledger.offer(offers, p.Clock.Now())
	for i, got := range p.offer(offers...) {
		p.Require(got == want[i],
			"offer %d, %q: answer %v, reason %q, want %v, %q",
			i, suite.Cut(offers[i].URL), got.Answer, got.Reason, want[i].Answer, want[i].Reason)
	}
}

// maxPages returns a limit of pages. Usually it is 0, which means no limit. Otherwise at
// most 19 more items fit, or at most 2 more pages if leased items do not count.
func (p *player) maxPages() uint64 {
	if p.chance(70) {
		return 0
	}
	if p.ledger.pagesOnly {
		return p.ledger.stats.Pages + uint64(p.rng.IntN(3))
	}
	return p.ledger.stats.Pages + p.ledger.stats.Leased + uint64(p.rng.IntN(20))
}

func (p *player) leaseSome() {
	request := frontier.LeaseRequest{
		Worker: "player", IDs: p.ids(p.rng.IntN(4)), InFlight: p.rng.IntN(4), MaxPages: p.maxPages(),
	}
	if live := p.ledger.live(); len(live) > 0 && p.chance(20) {
		request.IDs = append(request.IDs, live[p.rng.IntN(len(live))].id)
	}
	for range 1 + p.rng.IntN(2) { // the second call is a repeat
		p.Note("lease %d hosts, %d in flight, max pages %d", len(request.IDs), request.InFlight, request.MaxPages)
		grant := p.grant(request)
		for _, l := range grant.Leases {
			p.Note("  = %x: %s %q", l.ID[6:8], l.Host, urls(l.Items))
		}
		p.ledger.granted(request, grant, p.Clock.Now())
		p.wantLimit(request.MaxPages, p.ledger.pagesOnly && p.ledger.allowance(request.MaxPages) == 0)
	}
}

func (p *player) extendOne() {
	id, known := p.id(), 0
	if live := p.ledger.live(); len(live) > 0 && p.chance(80) {
		h := live[p.rng.IntN(len(live))]
		id, known = h.id, len(h.handed)
	} else if len(p.ledger.lost) > 0 {
		id = p.ledger.lost[p.rng.IntN(len(p.ledger.lost))].id
	}
	topUp := frontier.TopUp{Items: p.rng.IntN(40), Known: max(known-p.rng.IntN(3), 0), MaxPages: p.maxPages()}
	for range 1 + p.rng.IntN(2) {
		p.Note("extend %x: %+v", id[6:8], topUp)
		extension, err := p.Extend(p.Ctx, id, topUp)
		p.Note("  = %q, %v", urls(extension.Items), err)
		p.ledger.extended(id, topUp, extension, err, p.Clock.Now())
	}
}

// records are the records of one item: how many were written, the link counts of the last
// one, and the links that were added or refused, each with its index and the answer.
type records struct {
	written int
	links   frontier.LinkCounts
	answers string
}

func (r *records) answer(link int, verdict frontier.Verdict) {
	r.answers += fmt.Sprintf("%d %v %s, ", link, verdict.Answer, verdict.Reason)
}

func (r *records) first(first frontier.Referrer) { r.answers += fmt.Sprintf("first %x, ", first) }

// completion returns a random completion of k. The Record of the completion updates
// *wrote.
func (p *player) completion(k *known, wrote *records) frontier.Completion {
	c := frontier.Completion{Item: k.item.Fingerprint, Links: p.randomOffers(4), LinkAnswered: wrote.answer}
	if p.chance(30) {
		c.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: uint64(p.rng.IntN(3))}}
	}
	if p.chance(50) {
		c.Showed = frontier.Showed{Content: frontier.Content{1, byte(p.rng.IntN(20))}, First: wrote.first}
		if p.chance(30) {
			c.Showed.WithLinks = frontier.Content{2, byte(p.rng.IntN(20))}
		}
	}
	c.BodyBytes = int64(p.rng.IntN(1 << 20))
	switch p.rng.IntN(8) {
	case 6:
		c.Disposition = frontier.Last
	case 7:
		c.Disposition = frontier.Hold
	case 0:
		c.Disposition, c.RetryIn = frontier.Retry, p.ticks(200)
		c.Cause = []string{"", "timeout", "status_503"}[p.rng.IntN(3)]
	case 1:
		c.Disposition, c.BodyBytes = frontier.GiveBack, 0
	default:
		c.Outcome = frontier.OK
		if p.chance(60) {
			for c.Outcome = frontier.CheckOK; c.Outcome.IsCheck(); { // the model has no checks
				c.Outcome = frontier.Outcomes[p.rng.IntN(len(frontier.Outcomes))].Outcome
			}
		}
		c.Status, c.Page = p.rng.IntN(600), c.Outcome == frontier.OK
		if p.chance(80) {
			c.Record = func(links frontier.LinkCounts) error {
				wrote.written++
				wrote.links = links
				return nil
			}
		}
	}
	return c
}

func (p *player) update() frontier.HostUpdate {
	// With a delay of 20 s, a lease has one item.
	delays := []time.Duration{0, tick, time.Second, 4 * time.Second, 20 * time.Second}
	update := frontier.HostUpdate{Due: p.ticks(30), Delay: max(delays[p.rng.IntN(len(delays))], p.opt.Delay), End: p.chance(40)}
	if p.chance(10) {
		update.Due = p.ticks(1000) // can be later than the end of the lease
	}
	if p.chance(30) {
		update.Blob = fmt.Appendf(nil, "blob %d", p.Calls())
	}
	if p.chance(5) {
		update.Blob = bytes.Repeat([]byte{0, 255}, frontier.MaxBlob/2)
	}
	return update
}

func (p *player) completeOne() {
	live := p.ledger.live()
	if len(live) == 0 {
		return
	}
	h := live[p.rng.IntN(len(live))]
	written := map[*known]*records{}
	var done []frontier.Completion
	for _, k := range h.handed {
		// Sometimes an item that was completed before is completed again.
		if p.chance(40) && (!h.settled[k] || p.chance(20)) {
			written[k] = new(records)
			done = append(done, p.completion(k, written[k]))
			if again := done[len(done)-1]; p.chance(10) { // the call names the item twice
				again.Links, again.Refused = nil, nil
				done = append(done, again)
			}
		}
	}
	call := completeCall{h.id, done, p.update(), h.deadline}
	call.update.Keep = h.inFlight == 0
	p.note(call)
	p.Must(p.Complete(p.Ctx, call.id, call.done, call.update), "Complete")
	want := p.ledger.complete(call.id, call.done, call.update, p.Clock.Now())
	for k, got := range written {
		p.Require(*got == want[k], "the records of %q are %+v, want %+v", suite.Cut(k.item.URL), *got, want[k])
	}
	for i := range done { // for completeAgain, which must not write records
		done[i].LinkAnswered = nil
		if done[i].Record != nil {
			done[i].Record = func(frontier.LinkCounts) error { return errors.New("a repeat wrote a record") }
		}
	}
	p.last = &call
}

func (p *player) note(call completeCall) {
	var done []string
	for _, c := range call.done {
		done = append(done, fmt.Sprintf("%x %d %s in %v links %q", c.Item[:2], c.Disposition, c.Outcome, c.RetryIn, offeredURLs(c.Links)))
	}
	p.Note("complete %x: %q, due %v, delay %v, end %t", call.id[6:8], done, call.update.Due, call.update.Delay, call.update.End)
}

// completeAgain repeats the last Complete. That changes nothing, except that the
// HostUpdate takes effect again while the lease is held.
func (p *player) completeAgain() {
	call := p.last
	if call == nil {
		return
	}
	p.note(*call)
	err := p.Complete(p.Ctx, call.id, call.done, call.update)
	switch {
	case p.ledger.leases[call.id] != nil:
		p.Must(err, "Complete again")
		p.ledger.complete(call.id, call.done, call.update, p.Clock.Now())
	case call.update.End && p.Clock.Now().Before(call.deadline):
		p.Must(err, "Complete again after the end")
	case err != nil && !errors.Is(err, frontier.ErrLeaseLost):
		p.Failf("Complete again = %v, want nil or ErrLeaseLost", err)
	}
}

// completeLost completes an item under a lease that has ended or expired.
func (p *player) completeLost() {
	if len(p.ledger.lost) == 0 {
		return
	}
	h := p.ledger.lost[p.rng.IntN(len(p.ledger.lost))]
	open := h.open()
	if len(open) == 0 {
		return
	}
	done := finished(open[0].item)
	done.Record = func(frontier.LinkCounts) error { return nil }
	if _, early := p.Crawl.(LinksFirst); !early {
		done.Links = p.randomOffers(4)
		done.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 5}}
		done.Record = func(frontier.LinkCounts) error { return errors.New("a lost lease wrote a record") }
	}
	p.Note("complete lost %x: %q", h.id[6:8], suite.Cut(open[0].item.URL))
	err := p.Complete(p.Ctx, h.id, []frontier.Completion{done}, frontier.HostUpdate{End: true, Blob: []byte("lost")})
	p.Require(errors.Is(err, frontier.ErrLeaseLost), "Complete of a lost lease = %v, want ErrLeaseLost", err)
}

func (p *player) pause() {
	paused := !p.ledger.stats.Paused && p.chance(50)
	p.Note("pause %t", paused)
	p.Must(p.Pause(p.Ctx, paused), "Pause")
	p.ledger.stats.Paused = paused
}

// pauseSome pauses some hosts and URLs, or ends these pauses.
func (p *player) pauseSome() {
	next := *p.opt.Policy.Load()
	next.Version++
	next.Pause = nil
	var texts []string
	for range p.rng.IntN(3) {
		text := "host=" + hostName(p.rng.IntN(8))
		if p.chance(50) {
			text = fmt.Sprintf("match=[%d-9]$", 3+p.rng.IntN(6))
		}
		target, err := policy.ParseTarget(text)
		p.Must(err, "parse")
		next.Pause, texts = append(next.Pause, target), append(texts, text)
	}
	for _, k := range p.ledger.urls {
		// Whether an item that is set aside in a lease is held is decided at the end of the lease by some stores, and by
		// others at each policy. Both are right if it is paused, then not, and then paused again.
		if k.held && !next.Paused(k.item.Host, k.item.URL) && p.ledger.sites[k.item.Host].lease != nil {
			return
		}
	}
	p.Note("pause %q", texts)
	p.opt.Policy.Store(&next)
	p.ledger.changed(&next)
	p.grant(frontier.LeaseRequest{Worker: "player"}) // the store sees each policy
}

// leaseThese leases a host whether it is due or not, as crawler drop does.
func (p *player) leaseThese() {
	p.grant(frontier.LeaseRequest{Worker: "player"}) // delayed items that are ready are queued
	host := p.randomHost()
	request := frontier.LeaseRequest{Worker: "player", IDs: p.ids(1), Hosts: []string{host}, Priority: frontier.Priority(p.rng.IntN(frontier.Priorities))}
	p.Note("lease %s, priority %d", host, request.Priority)
	grant := p.grant(request)
	s := p.ledger.sites[host]
	want := s != nil && s.lease == nil && slices.ContainsFunc(p.ledger.ready(host, nil, p.Clock.Now()), func(k *known) bool {
		return k.item.Priority == request.Priority
	})
	p.Require(want == (len(grant.Leases) == 1), "%d leases of %s, want one: %t", len(grant.Leases), host, want)
	p.ledger.granted(request, grant, p.Clock.Now())
}

// limitSites changes the rate of sites, in a crawl that was created with one.
func (p *player) limitSites() {
	if p.opt.DomainRate == 0 {
		return
	}
	next := *p.opt.Policy.Load()
	next.Version++
	next.DomainRate = []float64{0, 0.25, 1, 20}[p.rng.IntN(4)]
	p.Note("limit sites to %v requests per second", next.DomainRate)
	p.opt.Policy.Store(&next)
	p.grant(frontier.LeaseRequest{Worker: "player"}) // the store sees each policy
}

// dropSome ends some items of a host without a request, as fetcher.Crawl.Drop does: it goes once through the queue, and
// moves what stays to the end. Meanwhile other calls come.
func (p *player) dropSome() { p.dropThird(p.randomHost(), byte(p.rng.IntN(3))) }

// dropThird drops the items of a host whose URLs end with certain digits.
func (p *player) dropThird(host string, digit byte) {
	selected := func(url string) bool { return url[len(url)-1]%3 == digit }
	if s := p.ledger.sites[host]; s == nil || s.lease != nil {
		return
	}
	p.Note("drop a third of %s", host)
	p.grant(frontier.LeaseRequest{Worker: "player"}) // delayed items that are ready are queued
	ready := p.ledger.ready(host, nil, p.Clock.Now())
	for priority := range frontier.Priority(frontier.Priorities) {
		first, rounds := "", 0 // first is the first item that stays
		for more := true; more; rounds++ {
			p.Require(rounds <= len(ready)/16+10, "%d items are not seen in %d leases", len(ready), rounds)
			request := frontier.LeaseRequest{Worker: "player", IDs: p.ids(1), Hosts: []string{host}, Priority: priority}
			grant := p.grant(request)
			p.ledger.granted(request, grant, p.Clock.Now())
			if len(grant.Leases) == 0 {
				break
			}
			l, done := grant.Leases[0], []frontier.Completion(nil)
			for _, item := range l.Items {
				c := frontier.Completion{Item: item.Fingerprint, Disposition: frontier.Last}
				more = more && item.URL != first
				switch {
				case selected(item.URL):
					c.Disposition, c.Outcome = frontier.Finish, frontier.Dropped
				case !more:
					c.Disposition = frontier.GiveBack
				case first == "":
					first = item.URL
				}
				done = append(done, c)
			}
			if p.chance(20) {
				p.addSome()
			}
			update := frontier.HostUpdate{Keep: true, End: true}
			p.Must(p.Complete(p.Ctx, l.ID, done, update), "Complete")
			p.ledger.complete(l.ID, done, update, p.Clock.Now())
		}
	}
	p.last = nil
	for _, k := range ready {
		p.Require(!selected(k.item.URL) || k.state == frontier.Failed, "%q is %s after it was to be dropped", suite.Cut(k.item.URL), k.state)
	}
}

// hostName returns a host key. Those of h5, h6 and h7 are of one site.
func hostName(n int) string {
	if n >= 5 && n < 8 {
		return fmt.Sprintf("h%d.%s", n, siblings)
	}
	return fmt.Sprintf("h%d.test", n)
}

const siblings = "site.test"

// randomHost returns the key of one of nine hosts. The last one has no URLs.
func (p *player) randomHost() string { return hostName(p.rng.IntN(9)) }

func (p *player) retry() {
	var of frontier.Failures
	if p.chance(40) {
		of.Host = p.randomHost()
	}
	if p.chance(40) {
		of.Outcome = frontier.Outcomes[p.rng.IntN(len(frontier.Outcomes))].Outcome
	}
	if p.chance(50) {
		of.Within = tick + p.ticks(20)
	}
	p.Note("retry %+v", of)
	n, err := p.Retry(p.Ctx, of)
	p.Must(err, "Retry")
	want := p.ledger.retry(of, p.Clock.Now())
	p.Require(n == want, "Retry(%+v) = %d, want %d", of, n, want)
}

func (p *player) admit() {
	keys := make([]string, p.rng.IntN(3))
	for i := range keys {
		keys[i] = p.randomHost()
		if p.chance(50) {
			keys[i] = frontier.SeedHost(keys[i])
		}
		p.ledger.admitted[keys[i]] = true
	}
	p.Note("admit %q", keys)
	p.Must(p.Admit(p.Ctx, keys), "Admit")
}
