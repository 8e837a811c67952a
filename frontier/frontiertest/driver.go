package frontiertest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// driver works on one crawl as a worker would, one call at a time. It ends the test case if
// the result of a call is wrong.
type driver struct {
	Crawl
	suite.Driver
	opt    Options
	out    *output               // the output of the crawl
	open   func(Options) *driver // opens another crawl
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

func page(host string, n int) frontier.Offer {
	return frontier.Offer{URL: fmt.Sprintf("https://%s/%d", host, n), Host: host, Depth: 1, Priority: frontier.PriorityPage}
}

// classed returns an offer with a class.
func classed(class frontier.Class, offer frontier.Offer) frontier.Offer {
	offer.Class = class
	return offer
}

// pages returns the pages of a host with the numbers n for which first <= n < end.
func pages(host string, first, end int) (offers []frontier.Offer) {
	for n := first; n < end; n++ {
		offers = append(offers, page(host, n))
	}
	return offers
}

func (d *driver) offer(offers ...frontier.Offer) []frontier.Verdict {
	verdicts, err := d.Add(d.Ctx, offers)
	d.Must(err, "Add")
	d.Require(len(verdicts) == len(offers), "Add returned %d verdicts on %d offers", len(verdicts), len(offers))
	for i, verdict := range verdicts {
		d.Require(verdict.Answer != 0 && (verdict.Answer == frontier.Refused) == (verdict.Reason != ""),
			"Add answered %v with reason %q for %q, want a reason if and only if refused",
			verdict.Answer, verdict.Reason, suite.Cut(offers[i].URL))
	}
	return verdicts
}

// wantAnswer offers URLs and checks that each offer gets the wanted answer.
func (d *driver) wantAnswer(want frontier.Answer, offers ...frontier.Offer) {
	d.wantAnswers(slices.Repeat([]frontier.Answer{want}, len(offers)), offers...)
}

// wantAnswers offers URLs in one call and checks the answer of each.
func (d *driver) wantAnswers(want []frontier.Answer, offers ...frontier.Offer) {
	for i, got := range d.offer(offers...) {
		d.Require(got.Answer == want[i],
			"offer %d, %q: answer %v, reason %q, want %v",
			i, suite.Cut(offers[i].URL), got.Answer, got.Reason, want[i])
	}
}

// wantRefused offers URLs that must be refused for a reason.
func (d *driver) wantRefused(reason frontier.Reason, offers ...frontier.Offer) {
	for i, got := range d.offer(offers...) {
		d.Require(got.Reason == reason, "%q: answer %v, reason %q, want refused, %q",
			suite.Cut(offers[i].URL), got.Answer, got.Reason, reason)
	}
}

// add offers URLs that must be new.
func (d *driver) add(offers ...frontier.Offer) { d.wantAnswer(frontier.Added, offers...) }

// addHosts adds the first pages of h0.test, h1.test and so on.
func (d *driver) addHosts(hosts, pagesEach int) {
	for n := range hosts {
		d.add(pages(fmt.Sprintf("h%d.test", n), 0, pagesEach)...)
	}
}

// fillFilter offers 4000 URLs, so that a tiny filter claims to contain nearly every URL.
func (d *driver) fillFilter() frontier.Stats {
	for from := 0; from < 4000; from += 500 {
		d.offer(pages("a.test", from, from+500)...)
	}
	return d.books()
}

func (d *driver) limitsPagesOnly() bool {
	crawl, ok := d.Crawl.(LimitsPagesOnly)
	return ok && crawl.LimitsPagesOnly()
}

// wantLimit checks whether requests may start under a limit of pages.
func (d *driver) wantLimit(maxPages uint64, want bool) {
	got, err := d.LimitReached(d.Ctx, maxPages)
	d.Must(err, "LimitReached")
	d.Require(got == want, "LimitReached(%d) is %t, want %t", maxPages, got, want)
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

// addAndLease adds URLs that must be new, and leases a host.
func (d *driver) addAndLease(offers ...frontier.Offer) frontier.Lease {
	d.add(offers...)
	return d.lease()
}

// idle checks that no host is due and returns the grant.
func (d *driver) idle() frontier.Grant {
	grant := d.grant(frontier.LeaseRequest{Worker: "suite", IDs: d.ids(4)})
	d.Require(len(grant.Leases) == 0, "Lease handed out %+v, want nothing", grant.Leases)
	return grant
}

// dueIn advances the clock by the duration wait, and leases the host that is due at that
// time. It checks that no host is due earlier.
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

// complete completes items. The delay in update is at least the one of the store.
func (d *driver) complete(id frontier.LeaseID, update frontier.HostUpdate, done ...frontier.Completion) {
	update.Delay = max(update.Delay, d.opt.Delay)
	d.Must(d.Complete(d.Ctx, id, done, update), "Complete")
}

// end ends l, and sets the host's delay. Items that are not completed go back to the queue.
func (d *driver) end(l frontier.Lease, delay time.Duration) {
	d.complete(l.ID, frontier.HostUpdate{End: true, Delay: delay})
}

// endAfter completes items of a lease and ends it.
func (d *driver) endAfter(l frontier.Lease, done ...frontier.Completion) {
	d.complete(l.ID, frontier.HostUpdate{End: true}, done...)
}

// finish leases a host, completes every item of the lease as a page, and ends the lease.
func (d *driver) finish() frontier.Lease {
	l := d.lease()
	d.endAfter(l, all(l.Items, finished)...)
	return l
}

// retryFailed calls Retry, which must queue n items again.
func (d *driver) retryFailed(host string, n int) {
	got, err := d.Retry(d.Ctx, frontier.Failures{Host: host})
	d.Must(err, "Retry")
	d.Require(got == n, "Retry(%q) = %d, want %d", host, got, n)
}

// restart opens the crawl again with one of the methods of Reopener. It reports whether the
// crawl has these methods.
func (d *driver) restart(again func(Reopener) (Crawl, error)) bool {
	old, ok := d.Crawl.(Reopener)
	if !ok {
		return false
	}
	crawl, err := again(old)
	d.Must(err, "open again")
	d.Crawl = crawl
	return true
}

// ended returns the completion of an item with an outcome and an HTTP status.
func ended(item frontier.Item, outcome frontier.Outcome, status int) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Outcome: outcome, Status: status, Page: outcome == frontier.OK}
}

// finished returns a completion with the outcome OK, which counts the item as a page.
func finished(item frontier.Item) frontier.Completion { return ended(item, frontier.OK, 200) }

// linking returns finished(item) with links.
func linking(item frontier.Item, links ...frontier.Offer) frontier.Completion {
	done := finished(item)
	done.Links = links
	return done
}

func retried(item frontier.Item, in time.Duration) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Disposition: frontier.Retry, RetryIn: in}
}

// brokenOff returns a completion with the outcome Network, which makes the item failed.
func brokenOff(item frontier.Item) frontier.Completion { return ended(item, frontier.Network, 0) }

func givenBack(item frontier.Item) frontier.Completion {
	return frontier.Completion{Item: item.Fingerprint, Disposition: frontier.GiveBack}
}

// counted returns a Completion.Record that stores its link counts in links.
func counted(links *frontier.LinkCounts) func(frontier.LinkCounts) error {
	return func(counts frontier.LinkCounts) error { *links = counts; return nil }
}

func (d *driver) wantLinks(got, want frontier.LinkCounts) {
	d.Require(got == want, "the record's link counts are %+v, want %+v", got, want)
}

func (d *driver) wantBlob(l frontier.Lease, want []byte) {
	d.Require(bytes.Equal(l.Blob, want), "the blob of %s is %q (%d bytes), want %q (%d bytes)",
		l.Host, suite.Cut(string(l.Blob)), len(l.Blob), suite.Cut(string(want)), len(want))
}

// all calls the function complete for each item, and returns the completions.
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

// wantItems checks that the items in got have the URLs of the offers in want, in this
// order.
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

func (d *driver) want(what string, got, want uint64) {
	d.Require(got == want, "%s is %d, want %d", what, got, want)
}

// counts are the counters of a crawl by name. A counter that is absent is 0.
type counts = map[string]uint64

func counters(stats frontier.Stats) counts {
	named := counts{
		"found": stats.Found, "added": stats.Added, "seen": stats.Seen, "queued": stats.Queued, "leased": stats.Leased,
		"done": stats.Done, "failed": stats.Failed, "pages": stats.Pages, "retries": stats.Retries, "records": stats.Records,
		"hosts": stats.Hosts, "delayed": stats.Delayed, "recovered": stats.Recovered,
		"promoted": stats.Promoted, "repeats": stats.Repeats, "bytes": stats.Bytes,
	}
	for reason, n := range stats.Refused {
		named["refused: "+string(reason)] = n
	}
	for outcome, n := range stats.Outcomes {
		named["outcome: "+string(outcome)] = n
	}
	for cause, n := range stats.Causes {
		named["cause: "+cause] = n
	}
	return named
}

// countsDiff describes how two sets of counters differ.
func countsDiff(got, want counts) (diff []string) {
	for _, named := range []counts{got, want} {
		for name := range named {
			if got[name] != want[name] {
				diff = append(diff, fmt.Sprintf("%s is %d, want %d", name, got[name], want[name]))
			}
		}
	}
	slices.Sort(diff)
	return slices.Compact(diff)
}

func (d *driver) wantStats(want counts) {
	all := counters(d.books())
	got := counts{}
	for name := range want {
		n, there := all[name]
		d.Require(there || strings.Contains(name, ": "), "there is no counter %q", name)
		got[name] = n
	}
	diff := countsDiff(got, want)
	d.Require(len(diff) == 0, "%s", strings.Join(diff, "; "))
}

// wantPlaces checks how many items of the crawl are in each state.
func (d *driver) wantPlaces(queued, leased, done, failed uint64) {
	d.wantStats(counts{"queued": queued, "leased": leased, "done": done, "failed": failed})
}

// wantState checks the state of a URL and returns its status.
func (d *driver) wantState(offer frontier.Offer, want frontier.State) frontier.Status {
	status, err := d.Lookup(d.Ctx, offer.Host, offer.URL)
	d.Must(err, "Lookup")
	d.Require(status.State == want, "%q is %q, want %q", suite.Cut(offer.URL), status.State, want)
	return status
}

// list returns the items that are in the given state, by URL.
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
// does not compare Filter, Recovered, Promoted and Delayed. The first three depend on the
// store. Delayed depends on when the store last looked at delayed items.
func statsDiff(got, want frontier.Stats) string {
	g, w := counters(got), counters(want)
	for _, name := range []string{"delayed", "recovered", "promoted"} {
		delete(g, name)
		delete(w, name)
	}
	diff := countsDiff(g, w)
	if got.Paused != want.Paused {
		diff = append(diff, fmt.Sprintf("paused is %t, want %t", got.Paused, want.Paused))
	}
	return strings.Join(diff, "; ")
}
