package frontiertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

// siblingHosts adds pages of hosts of one site: h0.site.test, h1.site.test and so on.
func (d *driver) siblingHosts(hosts int) {
	for n := range hosts {
		d.add(pages(fmt.Sprintf("h%d.%s", n, siblings), 0, 2)...)
	}
}

// leaseAll leases up to n hosts.
func (d *driver) leaseAll(n int) []frontier.Lease {
	return d.grant(frontier.LeaseRequest{Worker: "suite", IDs: d.ids(n)}).Leases
}

// wantLeased checks how many hosts can be leased.
func (d *driver) wantLeased(when string, want int) []frontier.Lease {
	leases := d.leaseAll(20)
	d.Require(len(leases) == want, "%s: %d hosts leased, want %d", when, len(leases), want)
	return leases
}

// wantTurn checks that a host is leased between two times from now.
func (d *driver) wantTurn(when string, earliest, latest time.Duration) frontier.Lease {
	const step = 100 * time.Millisecond
	for passed := time.Duration(0); ; passed += step {
		if leases := d.leaseAll(1); len(leases) > 0 {
			d.Require(passed >= earliest, "%s: a host is leased after %v, want %v or later", when, passed, earliest)
			return leases[0]
		}
		d.Require(passed < latest, "%s: no host is leased within %v", when, latest)
		d.Clock.Advance(step)
	}
}

// setRate changes the rate of sites.
func (d *driver) setRate(rate float64) {
	next := *d.opt.Policy.Load()
	next.Version++
	next.DomainRate = rate
	d.opt.Policy.Store(&next)
}

// leave ends a lease after some requests.
func (d *driver) leave(l frontier.Lease, due, delay time.Duration) {
	d.complete(l.ID, frontier.HostUpdate{End: true, Due: due, Delay: delay})
}

// siblingLeases leases hosts for some time, and ends each lease at once.
func (d *driver) siblingLeases(long time.Duration, check func(frontier.Lease)) {
	d.add(page("h9."+siblings, 1))
	for passed := time.Duration(0); passed < long; passed += time.Second {
		for _, l := range d.leaseAll(3) {
			check(l)
			d.leave(l, 0, time.Second)
		}
		d.Clock.Advance(time.Second)
	}
}

// siteCases are about the places of hosts in their site.
var siteCases = []testCase{
	{"SiteHasItsRate", Options{Delay: time.Second, DomainRate: 3}, func(c *driver) {
		c.siblingHosts(9)
		c.addHosts(4, 1) // of other sites
		leases := c.wantLeased("at first", 7)
		leases = slices.DeleteFunc(leases, func(l frontier.Lease) bool { return policy.Site(l.Host) != siblings })
		c.Require(len(leases) == 3, "%d hosts of the site are leased, want 3", len(leases))
		c.wantCrowded(6)
		c.Clock.Advance(time.Second)
		c.wantLeased("while all places are taken", 0)
		c.leave(leases[0], 700*time.Millisecond, time.Second)
		c.wantTurn("after the end of a lease, when its host is due", 700*time.Millisecond, 3*time.Second)
		c.leave(leases[1], time.Hour, time.Second) // as in a back-off
		c.wantTurn("after the end of a lease and the delay of its host", time.Second, 3500*time.Millisecond)
	}},
	// Each host gets a turn before one of them gets many.
	{"SiteGivesEachHostItsTurn", Options{Delay: time.Second, DomainRate: 2}, func(c *driver) {
		const hosts = 10
		for n := range hosts {
			c.add(pages(fmt.Sprintf("h%d.%s", n, siblings), 0, 40)...)
		}
		turns := map[string]int{}
		for range 4 * hosts {
			for _, l := range c.leaseAll(4) {
				turns[l.Host]++
				c.complete(l.ID, frontier.HostUpdate{End: true, Due: time.Second, Delay: time.Second}, finished(l.Items[0]))
			}
			c.Clock.Advance(500 * time.Millisecond)
		}
		most := 0
		for _, n := range turns {
			most = max(most, n)
		}
		c.Require(len(turns) == hosts && most <= 10, "turns of %d hosts: %v", hosts, turns)
	}},
	{"SiteHasOneHostAtLeast", Options{Delay: time.Second, DomainRate: 0.1}, func(c *driver) {
		c.siblingHosts(3)
		l := c.wantLeased("a rate below that of one host", 1)[0]
		c.leave(l, time.Second, time.Second)
		c.wantTurn("the next host", time.Second, 5*time.Second)
	}},
	{"SiteAddsUpTheDelays", Options{Delay: time.Second, DomainRate: 1.5}, func(c *driver) {
		c.siblingHosts(3)
		for range 3 { // two of them are slow
			l := c.wantTurn("alone", 0, 10*time.Second)
			delay := 4 * time.Second
			if l.Host == "h0."+siblings {
				delay = time.Second
			}
			c.complete(l.ID, frontier.HostUpdate{End: true, Delay: delay, Due: delay})
			c.Clock.Advance(delay)
		}
		c.Clock.Advance(20 * time.Second)
		for range 3 {
			c.wantTurn("1 + 1/4 + 1/4 requests per second", 0, 0)
		}
	}},
	{"SiteKeepsPlacesOfLostAndLongLeases", Options{Delay: 4 * time.Second, DomainRate: 0.5, LeaseTTL: 30 * time.Second}, func(c *driver) {
		c.siblingHosts(4)
		leases := c.wantLeased("at first", 2)
		c.Clock.Advance(20 * time.Second)
		c.extend(leases[0].ID, frontier.TopUp{})
		c.wantTurn("when the lease that was not extended has expired, and its host is due", 14*time.Second, 20*time.Second)
		for range 12 {
			c.Clock.Advance(time.Second)
			c.wantLeased("while the other lease lasts", 0)
		}
	}},
	// The place of a host ends when it is due, also if its delay became shorter under a lease that was lost.
	{"SiteForgetsThePlaceOfADueHost", Options{Delay: time.Second, DomainRate: 1, LeaseTTL: 30 * time.Second}, func(c *driver) {
		c.siblingHosts(1)
		l := c.wantLeased("at first", 1)[0]
		c.leave(l, 0, 20*time.Second)
		l = c.wantTurn("again", 0, time.Second)
		c.complete(l.ID, frontier.HostUpdate{Delay: time.Second})
		c.Clock.Advance(30 * time.Second)
		c.wantTurn("the lost lease and the delay are over", 0, 2*time.Second)
	}},
	// Hosts that are paused while they wait do not hold up the others.
	{"SiteSkipsPausedHosts", Options{Delay: time.Second, DomainRate: 1}, func(c *driver) {
		const hosts = 24
		c.siblingHosts(hosts)
		l := c.wantLeased("at first", 1)[0]
		next := *c.opt.Policy.Load()
		next.Version++
		for n := range hosts {
			if n == 8 || n == 9 { // the last names, because a store can sort hosts that began to wait at once
				continue
			}
			target, err := policy.ParseTarget(fmt.Sprintf("host=h%d.%s", n, siblings))
			c.Must(err, "parse")
			next.Pause = append(next.Pause, target)
		}
		c.opt.Policy.Store(&next)
		c.leave(l, time.Hour, time.Second)
		for range 2 {
			l := c.wantTurn("a host that is not paused", 0, 6*time.Minute)
			c.leave(l, time.Hour, time.Second)
		}
	}},
	// A host that others of its site were before, which do not wait any more, is tried as soon as another one comes.
	{"SiteTriesTheFirst", Options{Delay: time.Minute, DomainRate: 0.01, LeaseTTL: time.Hour}, func(c *driver) {
		const hosts = 10
		c.siblingHosts(hosts)
		l := c.wantLeased("at first", 1)[0]
		for n := range hosts - 1 {
			these := frontier.LeaseRequest{Worker: "suite", IDs: c.ids(1), Hosts: []string{fmt.Sprintf("h%d.%s", n, siblings)}, Priority: frontier.PriorityPage}
			for _, l := range c.grant(these).Leases {
				c.complete(l.ID, frontier.HostUpdate{Keep: true, End: true}, finished(l.Items[0]), finished(l.Items[1]))
			}
		}
		c.leave(l, time.Hour, time.Minute)
		c.Clock.Advance(time.Minute)
		c.add(page("h99."+siblings, 1))
		c.wantTurn("the host that waits", 0, time.Second)
	}},
	// A caller that makes no request takes no place.
	{"SiteCountsOnlyRequests", Options{Delay: time.Second, DomainRate: 1}, func(c *driver) {
		c.siblingHosts(2)
		l := c.wantLeased("at first", 1)[0]
		other := "h0." + siblings
		if l.Host == other {
			other = "h1." + siblings
		}
		these := frontier.LeaseRequest{Worker: "suite", IDs: c.ids(1), Hosts: []string{other}, Priority: frontier.PriorityPage}
		dropper := c.grant(these).Leases
		c.Require(len(dropper) == 1, "a crowded host is not leased to a caller that makes no request")
		c.leave(l, 0, time.Second)
		c.wantTurn("the place is free", 0, time.Second)
		c.complete(dropper[0].ID, frontier.HostUpdate{Keep: true, End: true})
		c.wantLeased("the site has its host", 0)
	}},
	{"SiteObeysANewRate", Options{Delay: time.Second, DomainRate: 0.01, LeaseTTL: time.Hour}, func(c *driver) {
		c.siblingHosts(20)
		leases := c.wantLeased("at first", 1)
		c.wantLeased("crowded", 0)
		c.setRate(3)
		leases = append(leases, c.wantTurn("with a higher rate", 0, 5*time.Minute))
		leases = append(leases, c.wantTurn("with a higher rate", 0, 5*time.Minute))
		c.setRate(2)
		c.leave(leases[0], 0, time.Second)
		for range 10 {
			c.Clock.Advance(time.Minute / 2)
			c.wantLeased("with a lower rate", 0)
		}
		c.setRate(0)
		for range 17 {
			c.wantTurn("without a rate", 0, 5*time.Minute)
		}
	}},
	// A host that waits in the queue of its site can become due later, which a free place must not change.
	{"SiteMakesNoHostDueEarly", Options{Delay: time.Second, DomainRate: 1}, func(c *driver) {
		c.siblingHosts(3)
		c.wantLeased("at first", 1)
		c.setRate(0)
		late := map[string]bool{}
		for range 2 {
			l := c.wantTurn("without a rate", 0, 5*time.Minute)
			late[l.Host] = true
			c.leave(l, 10*time.Minute, time.Second)
		}
		c.setRate(1)
		c.siblingLeases(5*time.Minute, func(l frontier.Lease) {
			c.Require(!late[l.Host], "%s is leased before it is due", l.Host)
		})
	}},
	// The hosts of checks have a limit of their own, and addresses have no siblings.
	{"SiteLeavesOutChecksAndAddresses", Options{Delay: time.Second, DomainRate: 1}, func(c *driver) {
		for n := range 3 {
			c.add(page(fmt.Sprintf("10.0.0.%d", n), 1))
			check := page(frontier.CheckHost(siblings), n)
			check.Host = frontier.CheckHost(fmt.Sprintf("h%d.%s", n, siblings))
			check.URL = frontier.CheckURL(check.URL)
			c.add(check)
		}
		c.wantLeased("three checks and three addresses", 6)
	}},
}

// wantCrowded checks how many hosts wait for a place in their site, and that they are tried again.
func (d *driver) wantCrowded(want int) {
	got := 0
	d.Must(d.Hosts(d.Ctx, frontier.HostQuery{}, func(state frontier.HostState) bool {
		if state.Crowded {
			got++
			d.Require(state.DueIn > 0, "%s is tried again in %v", state.Host, state.DueIn)
		}
		return true
	}), "Hosts")
	d.Require(got == want, "%d hosts wait for a place in their site, want %d", got, want)
}
