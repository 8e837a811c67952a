package frontiertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

var completeCases = []testCase{
	// This case checks that a call that is refused has no effect.
	{"CompleteRefusesBadCalls", Options{Delay: 30 * time.Second}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		good := finished(l.Items[0])
		unleased, queued, noOutcome, nonsense := good, good, good, good
		unleased.Item, queued.Item = bloomstore.Fingerprint{1, 2, 3}, c.print(page("a.test", 1))
		noOutcome.Outcome, nonsense.Outcome = "", "nonsense"
		for what, call := range map[string]struct {
			done []frontier.Completion
			blob []byte
		}{
			"an unknown item":        {[]frontier.Completion{good, unleased}, nil},
			"an item that is queued": {[]frontier.Completion{good, queued}, nil},
			"no outcome":             {[]frontier.Completion{noOutcome}, nil},
			"an unknown outcome":     {[]frontier.Completion{nonsense}, nil},
			"a large blob":           {[]frontier.Completion{good}, make([]byte, frontier.MaxBlob+1)},
		} {
			err := c.Complete(c.Ctx, l.ID, call.done, frontier.HostUpdate{Blob: call.blob, End: true})
			c.Require(err != nil, "Complete accepted %s", what)
			c.wantPlaces(1, 1, 0, 0)
		}
		c.endAfter(l, good)
	}},
	{"CompleteAddsLinks", Options{MaxPerHost: 5}, func(c *driver) {
		l := c.addAndLease(pages("a.test", 0, 2)...)
		first, second := finished(l.Items[0]), finished(l.Items[1])
		first.Links = []frontier.Offer{page("a.test", 0), page("b.test", 0), page("b.test", 0), page("a.test", 2)}
		second.Links = append(pages("b.test", 0, 7), frontier.Offer{Host: "b.test"})
		second.Refused = []frontier.Refusal{{Reason: frontier.ReasonScope, Count: 4}, {Reason: frontier.ReasonMalformed, Count: 1}}
		var firstLinks, secondLinks frontier.LinkCounts
		first.Record, second.Record = counted(&firstLinks), counted(&secondLinks)
		refused := noteRefused(&second)
		c.endAfter(l, first, second)
		want := []string{"5 max_per_host", "6 max_per_host", "7 malformed"}
		c.Require(slices.Equal(*refused, want), "the links %q were refused, want %q", *refused, want)
		c.wantLinks(firstLinks, frontier.LinkCounts{Found: 4, Added: 2, Seen: 2})
		c.wantLinks(secondLinks, frontier.LinkCounts{Found: 13, Added: 4, Seen: 1, Refused: 8})
		c.wantStats(counts{
			"found": 2 + 4 + 13, "seen": 3, "records": 2,
			"refused: max_per_host": 2, "refused: scope": 4, "refused: malformed": 2,
		})
		c.wantPlaces(6, 0, 2, 0)
	}},
}

// noteRefused sets done.LinkRefused. The returned slice receives the index of
// each refused link, and the reason.
func noteRefused(done *frontier.Completion) *[]string {
	refused := new([]string)
	done.LinkRefused = func(link int, reason frontier.Reason) {
		*refused = append(*refused, fmt.Sprint(link, " ", reason))
	}
	return refused
}
