package frontiertest

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var controlCases = []testCase{
	// The hosts of Model have too few URLs for several leases.
	{"DropGoesOnceThroughTheQueue", Options{}, func(c *driver) {
		p := &player{driver: c, rng: rand.New(rand.NewPCG(1, 2)), ledger: newLedger(c), exact: true}
		offers := pages("a.test", 0, 200)
		for i := range offers {
			offers[i].Class = frontier.Exact // some crawls make all items exact
		}
		c.add(offers...)
		p.ledger.offer(offers, c.Clock.Now())
		p.dropThird("a.test", 1)
		p.verify()
	}},
	{"ListStops", Options{}, func(c *driver) {
		c.add(pages("a.test", 0, 5)...)
		visited := 0
		err := c.List(c.Ctx, frontier.Queued, "", func(frontier.Item) bool { visited++; return visited < 3 })
		c.Must(err, "List")
		c.want("number of items that List visited until false", uint64(visited), 3)
	}},
	{"HostsAreThoseWithWork", Options{LeaseTTL: 30 * time.Second, Delay: 5 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 9)...)
		c.complete(l.ID, frontier.HostUpdate{Due: time.Minute, Delay: 7 * time.Second, Blob: []byte("a")},
			finished(l.Items[0]), retried(l.Items[1], time.Hour), givenBack(l.Items[2]))
		c.add(pages("b.test", 0, 2)...)
		done := c.lease()
		c.complete(done.ID, frontier.HostUpdate{End: true}, finished(done.Items[0]), finished(done.Items[1])) // b.test has no work
		c.add(pages("c.test", 0, 3)...)
		back := c.lease()
		c.complete(back.ID, frontier.HostUpdate{End: true, Due: time.Minute, Delay: 5 * time.Second, Blob: []byte("c")}, finished(back.Items[0]))
		held := uint64(len(l.Items) - 3)
		want := map[string]frontier.HostState{
			"a.test": {Host: "a.test", Queued: 8 - held, Delayed: 1, Leased: held, Delay: 7 * time.Second, Blob: []byte("a")},
			"c.test": {Host: "c.test", Queued: 2, DueIn: time.Minute, Delay: 5 * time.Second, Blob: []byte("c")},
		}
		visited := 0
		c.Must(c.Hosts(c.Ctx, frontier.HostQuery{}, func(h frontier.HostState) bool {
			visited++
			w := want[h.Host]
			c.Require(string(h.Blob) == string(w.Blob), "the blob of %s is %q, want %q", h.Host, h.Blob, w.Blob)
			c.Require(h.Counts.Done == 1 && h.Counts.Ago > 0, "the counts of %s are %+v, want one done item", h.Host, h.Counts)
			c.Require(h.EndsIn >= 0 && h.EndsIn <= 30*time.Second, "the lease of %s ends in %v", h.Host, h.EndsIn)
			h.Blob, h.Counts, h.EndsIn, h.Worker = w.Blob, w.Counts, 0, ""
			c.Require(reflect.DeepEqual(h, w), "Hosts: %+v, want %+v", h, w)
			return true
		}), "Hosts")
		c.want("number of hosts with work", uint64(visited), 2)
		visited = 0
		c.Must(c.Hosts(c.Ctx, frontier.HostQuery{}, func(frontier.HostState) bool { visited++; return false }), "Hosts")
		c.want("number of hosts that Hosts visited until false", uint64(visited), 1)
	}},
	{"HostsCountWhatWasCompleted", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 4)...)
		page, gone := finished(l.Items[0]), brokenOff(l.Items[1])
		page.Page, page.BodyBytes, gone.Cause = true, 1234, "reset"
		again := retried(l.Items[2], 0)
		again.Cause, again.BodyBytes = "status_503", 66
		c.complete(l.ID, frontier.HostUpdate{End: true}, page, gone, again, givenBack(l.Items[3]))
		c.add(pages("b.test", 0, 1)...)
		for range 2 { // only hosts that are due have items
			l := c.lease()
			done := make([]frontier.Completion, len(l.Items))
			for i, item := range l.Items {
				done[i] = finished(item)
			}
			c.complete(l.ID, frontier.HostUpdate{End: true}, done...)
		}
		c.Clock.Advance(time.Minute)
		c.add(pages("new.test", 0, 2)...)
		want := map[string]frontier.HostCounts{
			"a.test":   {Done: 3, Failed: 1, Pages: 3, Bytes: 1300, Causes: map[string]uint64{"reset": 1, "status_503": 1}, Ago: time.Minute},
			"b.test":   {Done: 1, Pages: 1, Ago: time.Minute},
			"new.test": {},
		}
		c.wantCounts(frontier.HostQuery{Finished: true}, want)
		c.wantCounts(frontier.HostQuery{}, map[string]frontier.HostCounts{"new.test": {}})
		c.wantCounts(frontier.HostQuery{Finished: true, Host: "b.test"}, map[string]frontier.HostCounts{"b.test": want["b.test"]})
		c.wantCounts(frontier.HostQuery{Host: "b.test"}, nil)
		c.wantCounts(frontier.HostQuery{Finished: true, Host: "b"}, nil)
		if n, err := c.Retry(c.Ctx, frontier.Failures{Host: "a.test"}); err != nil || n != 1 {
			c.Require(false, "Retry = %d, %v, want 1", n, err)
		}
		a := want["a.test"]
		a.Failed = 0
		c.wantCounts(frontier.HostQuery{Host: "a.test"}, map[string]frontier.HostCounts{"a.test": a})
	}},
	{"HostsShowsTheFirst", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		const hosts = 6
		c.addHosts(hosts, 2)
		for i := range hosts {
			if l := c.lease(); i < hosts-1 { // the last host stays leased
				c.complete(l.ID, frontier.HostUpdate{Due: time.Duration(i+1) * time.Minute, End: true}, finished(l.Items[0]))
			}
		}
		l := c.addAndLease(page("delayed.test", 0))
		c.complete(l.ID, frontier.HostUpdate{End: true}, retried(l.Items[0], time.Hour))
		idle := c.addAndLease(page("idle.test", 0)) // a lease without items
		c.complete(idle.ID, frontier.HostUpdate{}, finished(idle.Items[0]))
		for _, most := range []int{3, hosts, 100} {
			sum, visited := time.Duration(0), 0
			c.Must(c.Hosts(c.Ctx, frontier.HostQuery{First: most}, func(h frontier.HostState) bool {
				visited++
				sum += h.DueIn
				c.Require(h.Host != "delayed.test", "the first %d hosts have one with a delayed item only", most)
				return true
			}), "Hosts")
			want, first := min(most, hosts), time.Duration(0)
			for i := range want {
				first += time.Duration(i) * time.Minute
			}
			c.want(fmt.Sprintf("number of the first %d hosts", most), uint64(visited), uint64(want))
			c.Require(sum == first, "the first %d hosts are due in %v together, want %v", most, sum, first)
		}
	}},
	{"HostsCountFewCausesApart", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		const causes = frontier.MaxHostCauses + 3
		c.add(page("many.test", 0))
		for i := range causes {
			l := c.lease()
			done := retried(l.Items[0], 0)
			done.Cause = fmt.Sprintf("status_%d", 500+i)
			c.complete(l.ID, frontier.HostUpdate{End: true}, done)
		}
		many := map[string]uint64{frontier.OtherCauses: causes - frontier.MaxHostCauses}
		for i := range frontier.MaxHostCauses {
			many[fmt.Sprintf("status_%d", 500+i)] = 1
		}
		c.wantCounts(frontier.HostQuery{Host: "many.test"}, map[string]frontier.HostCounts{"many.test": {Causes: many, Ago: 1}})
	}},
	{"HostsHaveAnOldestURL", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		first, second, asset := page("a.test", 1), page("a.test", 2), page("a.test", 3)
		asset.Priority = frontier.PriorityAsset
		c.Clock.Advance(time.Hour)
		c.add(asset)
		c.Clock.Advance(50 * time.Hour)
		c.add(first)
		c.Clock.Advance(time.Hour)
		c.add(second)
		c.Clock.Advance(2 * time.Hour)
		c.wantOldest(asset, 53*time.Hour)
		l := c.lease()
		c.wantOldest(asset, 53*time.Hour) // it is leased
		c.complete(l.ID, frontier.HostUpdate{Keep: true}, finished(l.Items[2]))
		c.wantOldest(first, 3*time.Hour)
		c.complete(l.ID, frontier.HostUpdate{Keep: true, End: true}, retried(l.Items[0], time.Minute), retried(l.Items[1], time.Hour))
		c.wantOldest(frontier.Offer{}, 0) // both are delayed
		c.Clock.Advance(time.Minute)
		l = c.lease()
		c.wantOldest(first, 3*time.Hour+time.Minute) // it keeps its time
		c.endAfter(l, brokenOff(l.Items[0]))
		c.Clock.Advance(time.Hour)
		l = c.lease()
		c.endAfter(l, givenBack(l.Items[0]))
		c.restart(Reopener.Reopen)
		c.wantOldest(second, 3*time.Hour+time.Minute)
		l = c.lease()
		c.endAfter(l, finished(l.Items[0]))
		c.retryFailed("", 1)
		c.Clock.Advance(time.Minute)
		c.wantOldest(first, time.Minute) // Retry sets the time
	}},
	{"RetryDuringALease", Options{LeaseTTL: 30 * time.Second}, func(c *driver) {
		c.add(pages("a.test", 0, 6)...)
		first := c.lease()
		c.complete(first.ID, frontier.HostUpdate{End: true},
			brokenOff(first.Items[0]), brokenOff(first.Items[1]), givenBack(first.Items[2]), brokenOff(first.Items[3]),
			givenBack(first.Items[4]), givenBack(first.Items[5]))
		second := c.lease()
		c.complete(second.ID, frontier.HostUpdate{}, brokenOff(second.Items[0]), ended(second.Items[1], frontier.ServerError, 500))
		// A retry that selects nothing, or other items, does not change which items failed under the second lease.
		for want, outcome := range []frontier.Outcome{frontier.Blocked, frontier.ServerError} {
			n, err := c.Retry(c.Ctx, frontier.Failures{Outcome: outcome})
			c.Must(err, "Retry")
			c.want("number of retried items", uint64(n), uint64(want))
		}
		c.retryFailed("", 4)
		more := c.extend(second.ID, frontier.TopUp{Items: 30, Known: 3})
		c.wantItems("the extension", more.Items, []frontier.Offer{first.Items[0].Offer(), first.Items[1].Offer(), first.Items[3].Offer()})
		c.complete(second.ID, frontier.HostUpdate{End: true}, all(append(more.Items, second.Items[2:]...), finished)...)
		third := c.lease()
		c.want("number of items that failed under the second lease", uint64(len(third.Items)), 2)
		c.complete(third.ID, frontier.HostUpdate{End: true}, all(third.Items, finished)...)
		c.wantPlaces(0, 0, 6, 0)
		c.wantAudit()
	}},
	{"RacersRetryByOutcome", Options{}, func(c *driver) {
		const urls = 600
		c.add(pages("a.test", 0, urls)...)
		outcomes := []frontier.Outcome{frontier.Network, frontier.ServerError, frontier.Blocked}
		for failed := 0; failed < urls; {
			l := c.lease()
			var done []frontier.Completion
			for _, item := range l.Items {
				done = append(done, ended(item, outcomes[failed%len(outcomes)], 0))
				failed++
			}
			c.endAfter(l, done...)
		}
		c.Race(2, func(racer int) error {
			n, err := c.Retry(c.Ctx, frontier.Failures{Outcome: outcomes[racer]})
			if err == nil && n != urls/len(outcomes) {
				err = fmt.Errorf("Retry = %d, want %d", n, urls/len(outcomes))
			}
			return err
		})
		c.wantPlaces(urls*2/3, 0, 0, urls/3)
		c.wantAudit()
	}},
	{"ReopenKeepsEverything", kept, func(c *driver) { restartKeeps(c, Reopener.Reopen) }},
	{"CrashKeepsWhatWasAnswered", kept, func(c *driver) { restartKeeps(c, Reopener.Crash) }},
}

// kept are the options of restartKeeps.
var kept = Options{LeaseTTL: 30 * time.Second, Delay: 5 * time.Second, MaxPerHost: 12}

// wantAudit checks that an audit agrees with the counters. Added is an estimate. A correct
// estimate is off by more than 6 standard errors about once in a hundred million audits, and
// Model makes thousands of audits.
func (d *driver) wantAudit() {
	audit, err := d.Audit(d.Ctx)
	d.Must(err, "Audit")
	books := audit.Counters
	d.Must(books.Balance(), "Audit")
	counted := [6]uint64{audit.Queued, audit.Delayed, audit.Leased, audit.Done, audit.Failed, audit.Hosts}
	want := [6]uint64{books.Queued, books.Delayed, books.Leased, books.Done, books.Failed, books.Hosts}
	d.Require(counted == want,
		"queued, delayed, leased, done, failed, hosts: the audit counts %d, the counters say %d", counted, want)
	checks := frontier.Checks{Added: books.Checks.Added, Queued: audit.Checks.Queued, Leased: audit.Checks.Leased}
	d.Require(checks == books.Checks, "the audit counts checks %+v, the counters say %+v", checks, books.Checks)
	d.Require(len(audit.Faults) == 0, "the audit finds faults: %q", audit.Faults)
	d.Require(math.Abs(audit.Added-float64(books.Added)) <= 6*audit.AddedErr+0.5,
		"the audit estimates %.1f ± %.1f added, the counter says %d", audit.Added, audit.AddedErr, books.Added)
}

// wantOldest checks the oldest URL of the only host, which has waited for age, or less than a minute more.
func (d *driver) wantOldest(want frontier.Offer, age time.Duration) {
	hosts := 0
	d.Must(d.Hosts(d.Ctx, frontier.HostQuery{Oldest: true}, func(h frontier.HostState) bool {
		hosts++
		d.Require(h.OldestURL == want.URL && h.OldestAge >= age && (h.OldestAge < age+time.Minute || want.URL == ""),
			"the oldest URL is %q, added %v ago, want %q, %v", h.OldestURL, h.OldestAge, want.URL, age)
		return true
	}), "Hosts")
	d.want("number of hosts", uint64(hosts), 1)
}

// wantCounts checks the hosts that a query selects, and their counts.
func (d *driver) wantCounts(query frontier.HostQuery, want map[string]frontier.HostCounts) {
	visited := 0
	d.Must(d.Hosts(d.Ctx, query, func(h frontier.HostState) bool {
		w, is := want[h.Host]
		d.Require(is && sameCounts(h.Counts, w), "Hosts(%+v): %s has counts %+v, want %+v", query, h.Host, h.Counts, w)
		visited++
		return true
	}), "Hosts")
	d.want(fmt.Sprintf("number of hosts of Hosts(%+v)", query), uint64(visited), uint64(len(want)))
}

// restartKeeps checks that everything in a crawl is the same after a restart. No host is
// leased at the restart, because some stores end all leases when they are opened. Model
// also restarts crawls that have leases.
func restartKeeps(c *driver, again func(Reopener) (Crawl, error)) {
	l := c.addAndLease(pages("a.test", 0, 12)...)
	c.complete(l.ID, frontier.HostUpdate{Due: time.Minute, Delay: 5 * time.Second, Blob: []byte("b")},
		ended(l.Items[0], frontier.Redirect, 301), ended(l.Items[1], frontier.ServerError, 503),
		retried(l.Items[2], time.Hour), givenBack(l.Items[3]))
	c.add(page("b.test", 0))
	for grant := c.grant(frontier.LeaseRequest{IDs: c.ids(1)}); len(grant.Leases) > 0; {
		l := grant.Leases[0]
		c.complete(l.ID, frontier.HostUpdate{End: true, Due: time.Minute, Delay: 3 * time.Second, Blob: []byte("kept")})
		grant = c.grant(frontier.LeaseRequest{IDs: c.ids(1)})
	}
	c.Clock.Advance(30 * time.Second) // the lease of a.test expires; the host is due after its back-off
	c.idle()
	c.Must(c.Admit(c.Ctx, []string{"a.test"}), "Admit")
	c.Must(c.Pause(c.Ctx, true), "Pause")
	before, queued, failed := c.books(), c.list(frontier.Queued, ""), c.list(frontier.Failed, "")
	hosts := map[string]frontier.HostCounts{}
	c.Must(c.Hosts(c.Ctx, frontier.HostQuery{Finished: true}, func(h frontier.HostState) bool { hosts[h.Host] = h.Counts; return true }), "Hosts")
	due := c.wantState(page("a.test", 6), frontier.Queued).HostDueIn

	if !c.restart(again) {
		return
	}
	diff := statsDiff(c.books(), before)
	c.Require(diff == "", "after a restart the counters differ: %s", diff)
	c.wantCounts(frontier.HostQuery{Finished: true}, hosts)
	got := c.list(frontier.Queued, "")
	c.Require(maps.Equal(got, queued), "after a restart the queued items are %v, want %v", got, queued)
	got = c.list(frontier.Failed, "")
	c.Require(maps.Equal(got, failed), "after a restart the failed items are %v, want %v", got, failed)
	c.wantState(page("a.test", 0), frontier.Done)
	dueAgain := c.wantState(page("a.test", 6), frontier.Queued).HostDueIn
	c.Require(dueAgain == due, "after a restart the host is due in %v, want %v", dueAgain, due)
	admitted, err := c.Admitted(c.Ctx, []string{"a.test", "b.test"})
	c.Must(err, "Admitted")
	c.Require(admitted[0] && !admitted[1], "after a restart Admitted = %v, want true and false", admitted)
	c.wantAnswer(frontier.Seen, page("a.test", 0), page("a.test", 1), page("a.test", 2), page("a.test", 6))
	c.wantAnswer(frontier.Refused, page("a.test", 50))
	c.Require(c.idle().Paused, "after a restart the crawl is not paused any more")
	c.Must(c.Pause(c.Ctx, false), "Pause")
	c.Clock.Advance(time.Minute)
	for range 2 {
		l := c.lease()
		c.wantBlob(l, []byte(map[string]string{"a.test": "b", "b.test": "kept"}[l.Host]))
	}
}
