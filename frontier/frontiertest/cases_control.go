package frontiertest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

var controlCases = []testCase{
	{Name: "PauseStopsLeases", Check: pauseStopsLeases},
	{Name: "RetryOffersFailedAgain", Check: retryOffersFailedAgain},
	{Name: "RetryOfOneHost", Check: retryOfOneHost},
	{Name: "LookupFindsEachState", Check: lookupFindsEachState},
	{Name: "ListShowsEachState", Check: listShowsEachState},
	{Name: "AuditAgreesWithTheCounters", Check: auditAgreesWithTheCounters},
	{Name: "AdmitOpensScopeKeys", Check: admitOpensScopeKeys},
	{Name: "ReopenKeepsEverything", Check: reopenKeepsEverything},
	{Name: "CrashKeepsWhatWasAnswered", Check: crashKeepsWhatWasAnswered},
}

func pauseStopsLeases(open opener) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 10 * time.Second})
	c.add(append(pages("a.test", 0, 9), pages("b.test", 0, 9)...)...)
	request := frontier.LeaseRequest{IDs: c.ids(1)}
	l := c.grant(request).Leases[0]
	c.Must(c.Pause(c.Ctx, true), "Pause")
	if grant := c.idle(); !grant.Paused || grant.Empty {
		c.Failf("paused %t, empty %t, want true, false", grant.Paused, grant.Empty)
	}
	c.Require(c.books().Paused, "the statistics do not say that the crawl is paused")
	if again := c.grant(request); len(again.Leases) != 1 || again.Leases[0].Host != l.Host {
		c.Failf("a repeat got %d leases while paused, want the one it has", len(again.Leases))
	}
	if got := c.extend(l.ID, frontier.TopUp{Items: 9, Known: 3}); len(got.Items) > 0 {
		c.Failf("topped up with %q while paused", urls(got.Items))
	}
	c.complete(l.ID, frontier.HostUpdate{End: true}, all(l.Items, finished)...)
	c.Must(c.Pause(c.Ctx, false), "Pause")
	c.lease()
	c.want("done", c.books().Done, 3)
}

// fail leases a host, and finishes every item of the lease as failed.
func (d *driver) fail(update frontier.HostUpdate) frontier.Lease {
	l := d.lease()
	update.End = true
	d.complete(l.ID, update, all(l.Items, func(item frontier.Item) frontier.Completion {
		return frontier.Completion{Item: item.Fingerprint, Outcome: frontier.Network}
	})...)
	return l
}

func retryOffersFailedAgain(open opener) {
	c := open(Options{})
	c.add(page("a.test", 1))
	l := c.lease()
	c.complete(l.ID, frontier.HostUpdate{End: true}, retried(l.Items[0], 0))
	for round := range uint32(3) {
		c.fail(frontier.HostUpdate{Due: time.Minute, Blob: []byte("it is dead")})
		c.wantPlaces(0, 0, 0, 1)
		n, err := c.Retry(c.Ctx, "")
		c.Must(err, "Retry")
		c.want("items offered again", uint64(n), 1)
		c.wantPlaces(1, 0, 0, 0)
		l := c.dueIn(time.Minute) // the host's due time is kept
		item := l.Items[0]
		c.Require(item.Round == round+1 && item.Attempts == 0 && len(l.Blob) == 0,
			"round %d, %d attempts, blob %q, want round %d and none", item.Round, item.Attempts, l.Blob, round+1)
		if got := c.offer(page("a.test", 1))[0].Answer; got != frontier.Seen {
			c.Failf("offered by a page: %v, want seen", got)
		}
		c.end(l, 0)
	}
	stats := c.books()
	c.want("added", stats.Added, 1)
	c.want("outcomes of all rounds", stats.Outcomes[frontier.Network], 3)
	n, err := c.Retry(c.Ctx, "")
	c.Must(err, "Retry")
	c.want("items offered again when none failed", uint64(n), 0)
}

func retryOfOneHost(open opener) {
	c := open(Options{})
	c.add(append(pages("a.test", 0, 3), pages("b.test", 0, 2)...)...)
	c.fail(frontier.HostUpdate{Blob: []byte("blob")})
	c.fail(frontier.HostUpdate{Blob: []byte("blob")})
	n, err := c.Retry(c.Ctx, "b.test")
	c.Must(err, "Retry")
	c.want("items offered again", uint64(n), 2)
	c.wantPlaces(2, 0, 0, 3)
	if l := c.lease(); l.Host != "b.test" || len(l.Items) != 2 || len(l.Blob) > 0 {
		c.Failf("handed out %q of %s with blob %q", urls(l.Items), l.Host, l.Blob)
	}
	c.add(page("a.test", 3))
	if l := c.lease(); string(l.Blob) != "blob" {
		c.Failf("the blob of the other host is %q", l.Blob)
	}
}

// spread puts items of one host into every state, and returns their offers.
func spread(c *driver) map[frontier.State][]frontier.Offer {
	c.add(pages("a.test", 0, 12)...)
	l := c.lease()
	failed := finished(l.Items[1])
	failed.Outcome, failed.Status, failed.Page = frontier.ServerError, 503, false
	redirect := finished(l.Items[0])
	redirect.Outcome, redirect.Status = frontier.Redirect, 301
	c.complete(l.ID, frontier.HostUpdate{Due: time.Minute, Delay: 5 * time.Second, Blob: []byte("b")},
		redirect, failed, retried(l.Items[2], time.Hour), givenBack(l.Items[3]))
	c.add(page("b.test", 0))
	return map[frontier.State][]frontier.Offer{
		frontier.Done:   pages("a.test", 0, 1),
		frontier.Failed: pages("a.test", 1, 2),
		frontier.Queued: slices.Concat(pages("b.test", 0, 1), pages("a.test", 2, 4), pages("a.test", 6, 12)),
		frontier.Leased: pages("a.test", 4, 6),
	}
}

func lookupFindsEachState(open opener) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 5 * time.Second})
	for state, items := range spread(c) {
		for _, item := range items {
			status := c.wantState(item, state)
			c.Require(status.InFilter, "%q is %s and not in the filter", item.URL, state)
			c.Require(state == frontier.Done || status.Item.URL == item.URL && status.Item.Host == item.Host,
				"%q is shown as %q of %q", item.URL, status.Item.URL, status.Item.Host)
		}
	}
	if status := c.wantState(page("a.test", 1), frontier.Failed); status.Outcome != frontier.ServerError || status.Status != 503 {
		c.Failf("failed with %q, status %d, want server_error, 503", status.Outcome, status.Status)
	}
	_, forgets := c.Crawl.(ForgetsDone)
	if status := c.wantState(page("a.test", 0), frontier.Done); !forgets && (status.Outcome != frontier.Redirect || status.Status != 301) {
		c.Failf("done with %q, status %d, want redirect, 301", status.Outcome, status.Status)
	}
	if status := c.wantState(page("a.test", 2), frontier.Queued); status.Item.Attempts != 1 {
		c.Failf("a retried item has %d attempts, want 1", status.Item.Attempts)
	}
	c.Require(!c.wantState(page("a.test", 99), frontier.Unknown).InFilter && !c.wantState(page("c.test", 1), frontier.Unknown).InFilter,
		"the filter claims a URL that was never offered")
}

func listShowsEachState(open opener) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 5 * time.Second})
	for state, items := range spread(c) {
		for _, host := range []string{"", "a.test", "b.test", "c.test"} {
			var want []string
			for _, item := range items {
				if state != frontier.Done && (host == "" || item.Host == host) {
					want = append(want, item.URL)
				}
			}
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(c.list(state, host))); !slices.Equal(got, want) {
				c.Failf("%s of host %q: %q, want %q", state, host, got, want)
			}
		}
	}
	visited := 0
	err := c.List(c.Ctx, frontier.Queued, "", func(frontier.Item) bool { visited++; return visited < 3 })
	c.Must(err, "List")
	c.want("items visited until false", uint64(visited), 3)
}

func auditAgreesWithTheCounters(open opener) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 5 * time.Second})
	spread(c)
	c.Must(c.audit(), "Audit")
}

// audit returns an error if the audit differs from the counters. Added is an
// estimate; a correct one is off by more than 5 standard errors once in two
// million runs.
func (d *driver) audit() error {
	audit, err := d.Audit(d.Ctx)
	if err != nil {
		return err
	}
	books := audit.Counters
	if err := books.Balance(); err != nil {
		return err
	}
	counted := [6]uint64{audit.Queued, audit.Delayed, audit.Leased, audit.Done, audit.Failed, audit.Hosts}
	if want := [6]uint64{books.Queued, books.Delayed, books.Leased, books.Done, books.Failed, books.Hosts}; counted != want {
		return fmt.Errorf("the audit counts %d queued, delayed, leased, done, failed, hosts, the counters say %d", counted, want)
	}
	if len(audit.Faults) > 0 {
		return fmt.Errorf("the audit finds faults: %q", audit.Faults)
	}
	if math.Abs(audit.Added-float64(books.Added)) > 5*audit.AddedErr+0.5 {
		return fmt.Errorf("the audit estimates %.1f ± %.1f added, the counter says %d", audit.Added, audit.AddedErr, books.Added)
	}
	return nil
}

func admitOpensScopeKeys(open opener) {
	c := open(Options{})
	keys := []string{"a.test", "b.test", "A.test", ""}
	check := func(want ...bool) {
		got, err := c.Admitted(c.Ctx, keys)
		c.Must(err, "Admitted")
		c.Require(slices.Equal(got, want), "Admitted(%q) = %v, want %v", keys, got, want)
	}
	check(false, false, false, false)
	for range 2 {
		c.Must(c.Admit(c.Ctx, []string{"b.test", "c.test"}), "Admit")
		check(false, true, false, false)
	}
	c.Must(c.Admit(c.Ctx, nil), "Admit")
	if got, err := c.Admitted(c.Ctx, nil); err != nil || len(got) != 0 {
		c.Failf("Admitted(nil) = %v, %v", got, err)
	}
}

func reopenKeepsEverything(open opener) { restart(open, Reopener.Reopen) }

func crashKeepsWhatWasAnswered(open opener) { restart(open, Reopener.Crash) }

// restart checks that everything in a crawl is the same after a restart. No host
// is leased, because a restart ends leases. The model test restarts at any point.
func restart(open opener, again func(Reopener) (Crawl, error)) {
	c := open(Options{LeaseTTL: 30 * time.Second, Delay: 5 * time.Second, MaxPerHost: 12})
	if _, ok := c.Crawl.(Reopener); !ok {
		return // the store cannot be reopened
	}
	spread(c)
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
	due := c.wantState(page("a.test", 6), frontier.Queued).HostDueIn

	crawl, err := again(c.Crawl.(Reopener))
	c.Must(err, "open again")
	c.Crawl = crawl
	if diff := statsDiff(c.books(), before); diff != "" {
		c.Failf("after a restart: %s", diff)
	}
	if got := c.list(frontier.Queued, ""); !maps.Equal(got, queued) {
		c.Failf("after a restart queued are %v, want %v", got, queued)
	}
	if got := c.list(frontier.Failed, ""); !maps.Equal(got, failed) {
		c.Failf("after a restart failed are %v, want %v", got, failed)
	}
	c.wantState(page("a.test", 0), frontier.Done)
	if got := c.wantState(page("a.test", 6), frontier.Queued).HostDueIn; got != due {
		c.Failf("after a restart the host is due in %v, want %v", got, due)
	}
	if open, err := c.Admitted(c.Ctx, []string{"a.test", "b.test"}); err != nil || !open[0] || open[1] {
		c.Failf("after a restart Admitted = %v, %v, want true and false", open, err)
	}
	for n, want := range map[int]frontier.Answer{0: frontier.Seen, 1: frontier.Seen, 2: frontier.Seen, 6: frontier.Seen, 50: frontier.Refused} {
		if got := c.offer(page("a.test", n))[0].Answer; got != want {
			c.Failf("after a restart page %d offered again: %v, want %v", n, got, want)
		}
	}
	c.Require(c.idle().Paused, "after a restart the crawl is not paused any more")
	c.Must(c.Pause(c.Ctx, false), "Pause")
	c.Clock.Advance(time.Minute)
	for range 2 {
		if l := c.lease(); string(l.Blob) != map[string]string{"a.test": "b", "b.test": "kept"}[l.Host] {
			c.Failf("after a restart the blob of %s is %q", l.Host, l.Blob)
		}
	}
}
