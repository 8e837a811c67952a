package frontiertest

import (
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// check returns the offer of a check of a page.
func check(domain string, n int) frontier.Offer {
	o := page(domain, n)
	o.URL, o.Host = frontier.CheckURL(o.URL), frontier.CheckHost(domain)
	return o
}

// checks returns the checks of the pages with the numbers n for which first <= n < end.
func checks(domain string, first, end int) (offers []frontier.Offer) {
	for n := first; n < end; n++ {
		offers = append(offers, check(domain, n))
	}
	return offers
}

var checkCases = []testCase{
	{"CheckedURLIsStillNew", Options{}, func(c *driver) {
		l := c.addAndLease(check("a.test", 1))
		c.wantItems("leased", l.Items, []frontier.Offer{check("a.test", 1)})
		c.complete(l.ID, frontier.HostUpdate{End: true}, ended(l.Items[0], frontier.CheckBroken, 404))
		c.wantState(page("a.test", 1), frontier.Unknown)
		c.wantAnswer(frontier.Seen, check("a.test", 1))
		c.add(classed(frontier.Exact, page("a.test", 1)), page("a.test", 2))
		c.wantAnswer(frontier.Added, check("a.test", 2)) // and the other way round
		c.wantState(check("a.test", 1), frontier.Done)
		c.wantAudit()
	}},
	{"ChecksHaveCountersOfTheirOwn", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		want := func(added, queued, leased uint64) {
			got := c.books().Checks
			c.Require(got == frontier.Checks{Added: added, Queued: queued, Leased: leased},
				"checks are %+v, want added %d, queued %d, leased %d", got, added, queued, leased)
			c.wantAudit()
		}
		later := check("a.test", 9)
		later.Delay = time.Minute
		c.add(append(checks("a.test", 0, 5), later)...)
		want(6, 6, 0)
		l := c.lease()
		want(6, 1, 5)
		c.complete(l.ID, frontier.HostUpdate{}, givenBack(l.Items[0]), retried(l.Items[1], time.Minute), ended(l.Items[2], frontier.CheckOK, 200))
		want(6, 3, 2)
		c.add(pages("a.test", 0, 3)...)
		want(6, 3, 2)
		c.Clock.Advance(31 * time.Second)
		c.grant(frontier.LeaseRequest{}) // the lease expires
		want(6, 5, 0)
		for range 2 {
			l := c.lease()
			c.end(l, 0)
		}
		c.Require(c.books().Leased == 0, "items are leased after the ends of all leases")
		c.wantAudit()
	}},
	{"MaxPagesDoesNotLimitChecks", Options{LeaseTTL: 10 * time.Second, Delay: 5 * time.Second}, func(c *driver) {
		for n := range 5 {
			c.add(page(fmt.Sprintf("p%d.test", n), 1))
		}
		request := func() frontier.LeaseRequest {
			return frontier.LeaseRequest{Worker: "suite", IDs: c.ids(8), InFlight: 1, MaxPages: 2}
		}
		first := c.grant(request())
		for len(first.Leases) < 2 { // a store may lease fewer hosts than are due
			more := c.grant(request())
			c.Require(len(more.Leases) > 0, "the limit is not reached, and nothing is leased")
			first.Leases = append(first.Leases, more.Leases...)
		}
		endFirst := func() {
			for _, l := range first.Leases[:2] {
				c.complete(l.ID, frontier.HostUpdate{End: true}, finished(l.Items[0]))
			}
		}
		if c.limitsPagesOnly() {
			endFirst()
			for _, l := range first.Leases[2:] {
				c.end(l, 0)
			}
		} else {
			c.Require(len(first.Leases) == 2, "%d pages are leased, want 2", len(first.Leases))
		}
		c.Clock.Advance(time.Second) // the hosts of pages have been due longer than those of checks
		c.add(checks("x.test", 0, 4)...)
		c.add(check("y.test", 1))
		grant := c.grant(request())
		c.Require(len(grant.Leases) == 2 && grant.Limited && !grant.Reached,
			"at the limit: %d hosts leased, limited %t, reached %t; want both hosts of checks, limited", len(grant.Leases), grant.Limited, grant.Reached)
		for _, l := range grant.Leases {
			c.Require(frontier.IsCheck(l.Host), "%q is leased at the limit", l.Host)
			if l.Host == frontier.CheckHost("x.test") {
				got := c.extend(l.ID, frontier.TopUp{Items: 4, Known: len(l.Items), MaxPages: 2})
				c.Require(len(l.Items)+len(got.Items) == 4, "a lease of checks has %d items, want 4", len(l.Items)+len(got.Items))
				l.Items = append(l.Items, got.Items...)
			}
			var done []frontier.Completion
			for _, item := range l.Items {
				done = append(done, ended(item, frontier.CheckOK, 200))
			}
			c.complete(l.ID, frontier.HostUpdate{End: true}, done...)
		}
		if !c.limitsPagesOnly() {
			endFirst()
		}
		last := c.grant(request())
		c.Require(len(last.Leases) == 0 && last.Reached, "%d hosts leased, reached %t after 2 pages, want 0, true", len(last.Leases), last.Reached)
		c.wantStats(counts{"pages": 2, "outcome: check_ok": 5, "done": 7, "queued": 3})
	}},
	{"LeasedChecksLeaveRoomForPages", Options{LeaseTTL: 10 * time.Second}, func(c *driver) {
		c.addAndLease(checks("x.test", 0, 9)...)
		c.add(pages("a.test", 0, 9)...)
		grant := c.grant(frontier.LeaseRequest{Worker: "suite", IDs: c.ids(1), MaxPages: 3})
		want := 3
		if c.limitsPagesOnly() {
			want = 9
		}
		c.Require(len(grant.Leases) == 1 && len(grant.Leases[0].Items) == want, "leased %+v, want %d pages", grant.Leases, want)
	}},
	{"ChecksHaveNoMaximum", Options{MaxPerHost: 2}, func(c *driver) { c.add(checks("a.test", 0, 5)...) }},
	{"RestartKeepsChecks", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		l := c.addAndLease(checks("a.test", 0, 3)...)
		c.complete(l.ID, frontier.HostUpdate{End: true}, ended(l.Items[0], frontier.CheckUnknown, 403))
		for _, again := range []func(Reopener) (Crawl, error){Reopener.Reopen, Reopener.Crash} {
			if !c.restart(again) {
				return
			}
			c.Require(c.books().Checks == frontier.Checks{Added: 3, Queued: 2}, "after a restart the checks are %+v", c.books().Checks)
			c.wantAnswer(frontier.Seen, checks("a.test", 0, 3)...)
			c.wantAudit()
		}
	}},
}
