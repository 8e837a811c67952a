package frontiertest

import (
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
}
