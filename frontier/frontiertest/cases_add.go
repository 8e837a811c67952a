package frontiertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
)

var addCases = []testCase{
	{"AddHoldsTheHostLimit", Options{MaxPerHost: 3}, func(c *driver) {
		c.add(pages("a.test", 0, 3)...)
		c.finish()
		for range 2 { // a store that remembers the URL would answer Seen the second time
			c.wantRefused(frontier.ReasonHostLimit, page("a.test", 3), classed(frontier.Exact, page("a.test", 4)))
		}
		c.Require(!c.wantState(page("a.test", 3), frontier.Unknown).InFilter, "the filter remembers a refused URL")
		c.wantAnswer(frontier.Seen, page("a.test", 0)) // a known URL of a full host
		c.add(pages("b.test", 0, 3)...)
		c.wantStats(counts{"refused: max_per_host": 4})
	}},
	{"AddHoldsNoLimitForHostsOfSeeds", Options{MaxPerHost: 3, SeedsUnlimited: true}, func(c *driver) {
		c.Must(c.Admit(c.Ctx, []string{frontier.SeedHost("a.test")}), "Admit")
		c.add(pages("a.test", 0, 300)...)
		c.add(pages("b.test", 0, 3)...)
		c.add(pages("c.test", 0, 3)...)
		mixed := slices.Concat(pages("a.test", 300, 310), pages("b.test", 3, 10), pages("c.test", 3, 4))
		for i, verdict := range c.offer(mixed...) {
			refused := verdict == frontier.Verdict{Answer: frontier.Refused, Reason: frontier.ReasonHostLimit}
			c.Require(refused == (mixed[i].Host != "a.test"), "%s is answered with %+v", mixed[i].URL, verdict)
		}
		// A seed of a host that is full already lifts its limit.
		c.Must(c.Admit(c.Ctx, []string{frontier.SeedHost("b.test")}), "Admit")
		c.add(pages("b.test", 3, 10)...)
		c.wantRefused(frontier.ReasonHostLimit, page("c.test", 3))
		c.wantStats(counts{"added": 323, "refused: max_per_host": 9})
	}},
	{"AddNeverDropsExact", Options{Capacity: 16}, func(c *driver) {
		filled := c.fillFilter()
		for n := range 200 {
			c.add(classed(frontier.Exact, page(fmt.Sprintf("exact%d.test", n%7), n)))
		}
		c.wantStats(counts{"added": filled.Added + 200, "seen": filled.Seen})
		// The checks above find a store that drops exact items. This one finds a store that
		// answers Added for every exact item.
		c.wantAnswer(frontier.Seen, classed(frontier.Exact, page("exact1.test", 1)))
	}},
	{"AddKeepsExactOnce", Options{}, func(c *driver) {
		first, second := page("a.test", 1), page("a.test", 2)
		exactFirst, exactSecond := classed(frontier.Exact, first), classed(frontier.Exact, second)
		c.add(exactFirst, second)
		want, queued := frontier.Seen, uint64(2)
		if _, forgets := c.Crawl.(ForgetsDone); forgets {
			want, queued = frontier.Added, 3
		}
		c.wantAnswer(frontier.Seen, first, exactFirst, second) // known under another class
		c.wantAnswer(want, exactSecond)                        // a bulk item, offered as an exact one
		for range 2 {
			c.wantAnswer(frontier.Seen, exactSecond)
		}
		c.wantPlaces(queued, 0, 0, 0)
	}},
	{"AddKeepsTheItem", Options{}, func(c *driver) {
		want := frontier.Item{
			URL: "https://a.test:8443/path;p?q=1&r=%2F", Host: "a.test", Depth: 65535, Hops: 255,
			Priority: frontier.PriorityAsset, Class: frontier.Exact, Referrer: frontier.Referrer{1, 2, 3, 4, 5, 6, 7, 255},
		}
		for _, submission := range []string{"", "k", strings.Repeat("k", frontier.MaxSubmission)} {
			want.URL, want.Submission = want.URL+"x", submission
			c.add(want.Offer())
			listed := c.list(frontier.Queued, "")[want.URL]
			l := c.lease()
			got := l.Items[0]
			c.Require(got.Fingerprint == listed.Fingerprint && got.Fingerprint != (frontier.Item{}.Fingerprint),
				"the item is handed out with fingerprint %x, listed with %x", got.Fingerprint, listed.Fingerprint)
			want.Fingerprint = got.Fingerprint
			c.Require(got == want, "handed out %+v, want %+v", got, want)
			c.endAfter(l, finished(got))
		}
	}},
}
