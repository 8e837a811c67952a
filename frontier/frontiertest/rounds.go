package frontiertest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// Rounds makes random calls to a crawl with an exact set. It offers three URLs as bulk URLs and as exact URLs of the class
// frontier.Listed, which must have the window Window and depend on how a URL is found. It ends their items, retries them, moves
// the clock, and calls sweep, which deletes the keys whose windows are over from the set. No two items of a URL may end in the same round.
func Rounds(t testing.TB, crawl Crawl, clock *suite.Clock, sweep func(), seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	ended := map[string][]uint32{}
	var log []string
	note := func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("seed %d: %v after %q", seed, err, log)
		}
	}
	offer := func(class frontier.Class) {
		url := page("a.test", rng.IntN(3))
		url.Class, url.Priority = class, frontier.Priority(rng.IntN(frontier.Priorities))
		verdicts, err := crawl.Add(t.Context(), []frontier.Offer{url})
		must(err)
		note("offer %s as %v: %v", url.URL, class, verdicts[0].Answer)
	}
	end := func() {
		clock.Advance(time.Second)
		grant, err := crawl.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1, byte(len(log)), byte(len(log) >> 8)}}, InFlight: 1})
		must(err)
		for _, l := range grant.Leases {
			var done []frontier.Completion
			for _, it := range l.Items {
				c := brokenOff(it)
				if rng.IntN(2) == 0 {
					c = finished(it)
				}
				note("end %s as %v in round %d: %s", it.URL, it.Class, it.Round, c.Outcome)
				for _, round := range ended[it.URL] {
					if round == it.Round {
						t.Fatalf("seed %d: two items of %s ended in round %d: %q", seed, it.URL, round, log)
					}
				}
				ended[it.URL] = append(ended[it.URL], it.Round)
				done = append(done, c)
			}
			must(crawl.Complete(t.Context(), l.ID, done, frontier.HostUpdate{End: true}))
		}
	}
	for range 80 {
		switch rng.IntN(10) {
		case 0, 1:
			offer(frontier.Bulk)
		case 2, 3:
			offer(frontier.Listed)
		case 4, 5, 6:
			end()
		case 7, 8:
			n, err := crawl.Retry(t.Context(), frontier.Failures{})
			must(err)
			note("retry: %d", n)
		case 9:
			clock.Advance(Window)
			if rng.IntN(2) == 0 {
				sweep()
				note("sweep")
			}
			note("window over")
		}
	}
}
