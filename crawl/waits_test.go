package crawl

import (
	"testing"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestWaitsForRetries: hosts that came or went while the hosts were counted do not count as hosts that wait for
// another attempt, but those that are in no list of hosts because all their URLs are delayed do.
func TestWaitsForRetries(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, c Config) {
		run, err := Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		waitingURLs(t, run.ses)
		for delayed, want := range map[uint64]uint64{0: 0, 7: 7, 100: 97} {
			waits, err := run.ses.waits(t.Context(), &frontier.Stats{Hosts: 100, Delayed: delayed})
			if got := waits.By[report.WaitRetry].Hosts; err != nil || got != want {
				t.Errorf("of 100 hosts, of which 3 were seen, and %d delayed URLs: %d hosts wait for another attempt, %v; want %d",
					delayed, got, err, want)
			}
		}
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
}
