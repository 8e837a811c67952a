package frontiertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// driver works on one crawl as a worker would, one call at a time. It ends the case
// if a call has a result that it must not have.
type driver struct {
	Crawl
	suite.Driver
	opt    Options
	lastID atomic.Uint64
}

// id returns a lease id that was not used before.
func (d *driver) id() (id frontier.LeaseID) {
	binary.BigEndian.PutUint64(id[:], d.lastID.Add(1))
	return id
}

func (d *driver) ids(n int) []frontier.LeaseID {
	ids := make([]frontier.LeaseID, n)
	for i := range ids {
		ids[i] = d.id()
	}
	return ids
}

// page returns the n-th page of host.
func page(host string, n int) frontier.Offer {
	return frontier.Offer{URL: fmt.Sprintf("https://%s/%d", host, n), Host: host, Depth: 1, Priority: frontier.PriorityPage}
}

// pages returns the pages from, from+1, … to-1 of host.
func pages(host string, from, to int) (offers []frontier.Offer) {
	for n := from; n < to; n++ {
		offers = append(offers, page(host, n))
	}
	return offers
}

// offer calls Add and returns the verdicts.
func (d *driver) offer(offers ...frontier.Offer) []frontier.Verdict {
	verdicts, err := d.Add(d.Ctx, offers)
	d.Must(err, "Add")
	d.Require(len(verdicts) == len(offers), "Add answered %d of %d offers", len(verdicts), len(offers))
	for i, verdict := range verdicts {
		d.Require(verdict.Answer != 0, "Add gave no verdict on %q", suite.Cut(offers[i].URL))
	}
	return verdicts
}

// add offers URLs that must be new.
func (d *driver) add(offers ...frontier.Offer) {
	for i, verdict := range d.offer(offers...) {
		d.Require(verdict.Answer == frontier.Added,
			"Add(%q) = %v %q, want added", suite.Cut(offers[i].URL), verdict.Answer, verdict.Reason)
	}
}

func (d *driver) grant(request frontier.LeaseRequest) frontier.Grant {
	grant, err := d.Lease(d.Ctx, request)
	d.Must(err, "Lease")
	return grant
}

// lease leases one host, with one item in flight at a time. A host must be due.
func (d *driver) lease() frontier.Lease {
	grant := d.grant(frontier.LeaseRequest{Worker: "suite", IDs: d.ids(1), InFlight: 1})
	d.Require(len(grant.Leases) == 1,
		"Lease handed out %d hosts (wait %v, empty %t, limited %t, paused %t), want 1",
		len(grant.Leases), grant.Wait, grant.Empty, grant.Limited, grant.Paused)
	return grant.Leases[0]
}

// idle checks that no host is due and returns the grant.
func (d *driver) idle() frontier.Grant {
	grant := d.grant(frontier.LeaseRequest{Worker: "suite", IDs: d.ids(4)})
	if len(grant.Leases) > 0 {
		d.Failf("Lease handed out %q with %q, want nothing", grant.Leases[0].Host, urls(grant.Leases[0].Items))
	}
	return grant
}

// dueIn advances the clock by wait, checks that a host is due then and none before,
// and leases it.
func (d *driver) dueIn(wait time.Duration) frontier.Lease {
	const tick = 10 * time.Millisecond
	if wait > tick {
		d.idle()
		d.Clock.Advance(wait - tick)
		d.idle()
		wait = tick
	}
	d.Clock.Advance(wait)
	return d.lease()
}

func (d *driver) extend(id frontier.LeaseID, topUp frontier.TopUp) frontier.Extension {
	extension, err := d.Extend(d.Ctx, id, topUp)
	d.Must(err, "Extend")
	return extension
}

func (d *driver) complete(id frontier.LeaseID, update frontier.HostUpdate, done ...frontier.Completion) {
	d.Must(d.Complete(d.Ctx, id, done, update), "Complete")
}

// end ends l, so that items that are not completed go back, and sets the host's delay.
func (d *driver) end(l frontier.Lease, delay time.Duration) {
	d.complete(l.ID, frontier.HostUpdate{End: true, Delay: delay})
}

// lost checks that neither Extend nor Complete accepts id.
func (d *driver) lost(id frontier.LeaseID, done ...frontier.Completion) {
	if _, err := d.Extend(d.Ctx, id, frontier.TopUp{}); !errors.Is(err, frontier.ErrLeaseLost) {
		d.Failf("Extend of a lost lease = %v, want ErrLeaseLost", err)
	}
	err := d.Complete(d.Ctx, id, done, frontier.HostUpdate{End: true, Blob: []byte("lost")})
	d.Require(errors.Is(err, frontier.ErrLeaseLost), "Complete of a lost lease = %v, want ErrLeaseLost", err)
}

// finished completes an item as a page.
func finished(item frontier.Item) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Outcome: frontier.OK, Status: 200, Page: true}
}

func retried(item frontier.Item, in time.Duration) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Disposition: frontier.Retry, RetryIn: in}
}

func givenBack(item frontier.Item) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Disposition: frontier.GiveBack}
}

// all returns the completions that complete makes of items.
func all(items []frontier.Item, complete func(frontier.Item) frontier.Completion) (done []frontier.Completion) {
	for _, item := range items {
		done = append(done, complete(item))
	}
	return done
}

func urls(items []frontier.Item) (urls []string) {
	for _, item := range items {
		urls = append(urls, suite.Cut(item.URL))
	}
	return urls
}

func offeredURLs(offers []frontier.Offer) (urls []string) {
	for _, offer := range offers {
		urls = append(urls, suite.Cut(offer.URL))
	}
	return urls
}

// wantItems checks that items have the URLs of the offers want, in this order.
func (d *driver) wantItems(what string, got []frontier.Item, want []frontier.Offer) {
	d.Require(slices.Equal(urls(got), offeredURLs(want)), "%s: got %q, want %q", what, urls(got), offeredURLs(want))
}

// books returns the counters, which must balance.
func (d *driver) books() frontier.Stats {
	stats, err := d.Stats(d.Ctx)
	d.Must(err, "Stats")
	d.Must(stats.Balance(), "Stats")
	return stats
}

// want checks a number.
func (d *driver) want(what string, got, want uint64) {
	d.Require(got == want, "%s is %d, want %d", what, got, want)
}

// wantPlaces checks how many items of the crawl are in each state.
func (d *driver) wantPlaces(queued, leased, done, failed uint64) {
	b := d.books()
	d.Require(b.Queued == queued && b.Leased == leased && b.Done == done && b.Failed == failed,
		"queued, leased, done, failed are %d, %d, %d, %d, want %d, %d, %d, %d",
		b.Queued, b.Leased, b.Done, b.Failed, queued, leased, done, failed)
}

// wantState checks the state of a URL and returns its status.
func (d *driver) wantState(offer frontier.Offer, want frontier.State) frontier.Status {
	status, err := d.Lookup(d.Ctx, offer.Host, offer.URL)
	d.Must(err, "Lookup")
	d.Require(status.State == want, "%q is %q, want %q", suite.Cut(offer.URL), status.State, want)
	return status
}

// list returns the items in state by URL.
func (d *driver) list(state frontier.State, host string) map[string]frontier.Item {
	var listed []frontier.Item
	err := d.List(d.Ctx, state, host, func(item frontier.Item) bool {
		listed = append(listed, item)
		return true
	})
	d.Must(err, "List")
	items := map[string]frontier.Item{}
	for _, item := range listed {
		items[item.URL] = item
	}
	d.Require(len(items) >= len(listed), "List(%s) has a URL twice: %q", state, urls(listed))
	return items
}

// print returns the fingerprint of an offer that is queued.
func (d *driver) print(offer frontier.Offer) bloomstore.Fingerprint {
	return d.list(frontier.Queued, offer.Host)[offer.URL].Fingerprint
}

// statsDiff describes how two statistics differ. It returns "" if they are equal. It
// does not compare Filter, which depends on the store, or Delayed, which depends on
// when the store last looked at delayed items.
func statsDiff(got, want frontier.Stats) string {
	var diff []string
	compare := func(what string, got, want uint64) {
		if got != want {
			diff = append(diff, fmt.Sprintf("%s is %d, want %d", what, got, want))
		}
	}
	compare("found", got.Found, want.Found)
	compare("added", got.Added, want.Added)
	compare("seen", got.Seen, want.Seen)
	compare("queued", got.Queued, want.Queued)
	compare("leased", got.Leased, want.Leased)
	compare("done", got.Done, want.Done)
	compare("failed", got.Failed, want.Failed)
	compare("pages", got.Pages, want.Pages)
	compare("retries", got.Retries, want.Retries)
	compare("records", got.Records, want.Records)
	compare("hosts", got.Hosts, want.Hosts)
	compare("outbox", got.Outbox, want.Outbox)
	diff = append(diff, countsDiff("refused", got.Refused, want.Refused)...)
	diff = append(diff, countsDiff("outcome", got.Outcomes, want.Outcomes)...)
	if got.Paused != want.Paused {
		diff = append(diff, fmt.Sprintf("paused is %t, want %t", got.Paused, want.Paused))
	}
	return strings.Join(diff, "; ")
}

// countsDiff compares two maps in which an absent count is 0.
func countsDiff[K ~string](what string, got, want map[K]uint64) (diff []string) {
	for _, counts := range []map[K]uint64{got, want} {
		for key := range counts {
			if got[key] != want[key] {
				diff = append(diff, fmt.Sprintf("%s %s is %d, want %d", what, key, got[key], want[key]))
			}
		}
	}
	slices.Sort(diff)
	return slices.Compact(diff)
}
