package proofs

import (
	"strconv"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// hardWeb serves the web of most proofs. The web has all hardships (difficulties for
// crawlers) in testweb.All, but at the small size it has no dead hosts, because a crawler
// tries for 70 s to get the robots.txt of a dead host.
func hardWeb(t *testing.T, seed uint64) *site {
	t.Helper()
	return serveSite(t, testweb.Config{
		Seed: seed, Hosts: sized(20, 200), Pages: sized(600, 20_000),
		Hardships: sized(testweb.All&^testweb.Dead, testweb.All),
		MeanBytes: sized(4<<10, 14<<10), MaxBodyBytes: maxBody, CrawlDelay: hostDelay() * 3 / 2,
		LargestShare: sized(0.02, 0.01), // the largest host decides how long a crawl of 20,000 pages takes
	}, nil)
}

const (
	maxBody     = 256 << 10
	concurrency = 64
)

// hostDelay returns the delay between two requests to one host.
func hostDelay() time.Duration { return sized(200*time.Millisecond, time.Second) }

// hardFlags returns the flags of a crawl of hardWeb, without its seeds.
func hardFlags(web *site) []string {
	return append(web.flags(), "--delay", ms(hostDelay()), "--concurrency", strconv.Itoa(concurrency), "--max-body", strconv.Itoa(maxBody)+"B",
		// The back-offs are short, because the proofs do not depend on their length.
		"--backoff", "200ms", "--backoff-max", "400ms", "--dead-after", "10", "--retries", "3",
		"--urls", strconv.Itoa(filterSize), "--log-level", "warn")
}

// TestExactSet checks a crawl of hardWeb. The crawl must record exactly the expected URLs,
// each once, and be polite to every host. Its counters must balance.
func TestExactSet(t *testing.T) {
	t.Parallel()
	web := hardWeb(t, newSeed(t))
	seeds := web.Seeds()
	c := newCrawl(t, append(hardFlags(web), seeds...)...)
	timed(t, func() { c.finish() })

	written := records(t, c.dir)
	report := compareExactly(t, web.Web, written)
	figure(t, "outcomes", "%s", formatCounts(report.Outcomes))
	lines, stats := parse(t, written), c.stats()
	checkBooks(t, stats, lines, len(seeds), 1)
	figure(t, "books", "found %d = added %d + seen %d + refused %d; added = done %d + failed %d",
		stats.Found, stats.Added, stats.Seen, stats.RefusedTotal(), stats.Done, stats.Failed)
	judgeManners(t, web, lines, 0)
	if extra := web.Judge(web.Log(), testweb.Manners{}).Refetched; extra > 0 {
		t.Errorf("%d requests were repeated without need, want 0", extra)
	}
}
