package proofs

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestWholeWeb checks a crawl of a web with every hardship (difficulty for crawlers) of
// package testweb. The crawl must have the expected records, refuse as many links for each
// reason as a correct crawl, be polite to every host, and connect to no forbidden address.
func TestWholeWeb(t *testing.T) {
	t.Parallel()
	// A small run has no hardships that make a crawl wait: an unreachable robots.txt takes
	// 70 s, a body that comes byte by byte takes 10 s, and a page with retries takes 20 s.
	waits := sized(testweb.Dead|testweb.FailingRobots|testweb.Endless|testweb.ServerErrors|testweb.Throttling|testweb.Resets, testweb.None)
	canaries, err := testweb.ListenCanaries()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = canaries.Close() })
	seed := newSeed(t)
	web := serveSite(t, testweb.Config{
		Seed: seed, Hosts: sized(5, 200), Pages: sized(60, 20_000), Hardships: testweb.Everything &^ waits,
		MeanBytes: sized(4<<10, 14<<10), MaxBodyBytes: maxBody, CrawlDelay: hostDelay() * 3 / 2, LargestShare: sized(0.3, 0.01),
		CanaryPort: canaries.Port,
	}, nil)
	names := web.serveNames(t, canaries.Harmless)
	flags := append(hardFlags(web), "--sitemaps", "--dns", names, "--allow-net", "127.8.0.1/32")
	for i, flag := range flags { // --connect-to must not match the hosts of testweb.Addresses, which test the address guard
		if flag == "*="+web.addr {
			flags[i] = "*.test=" + web.addr
		}
	}
	flags = append(flags, "--connect-to", "*.example="+web.addr)
	seeds := web.Seeds()
	c := newCrawl(t, append(flags, seeds...)...)
	timed(t, func() { c.finish() })

	written := records(t, c.dir)
	report := compareRecords(t, web.Web, written)
	figure(t, "records", "%d, expected %d and %d that depend on the order: %d missing, %d unexpected, %d twice",
		report.Records, report.Expected, report.Optional, report.Missing, report.Unexpected, report.Duplicates)
	figure(t, "outcomes", "%s", formatCounts(report.Outcomes))
	lines, stats := parse(t, written), c.stats()
	// The function checkBooks would also compare the number of links in the records with the
	// books. That does not fit here: the sitemaps in robots.txt count as found, but no record
	// counts them as its links.
	checkOutcomes(t, stats, lines)
	refused, byReason := make(map[string]uint64), make(map[string]int)
	for reason, n := range stats.Refused {
		refused[string(reason)], byReason[string(reason)] = n, int(n)
	}
	if err := web.CompareRefused(refused); err != nil {
		t.Error(err)
	}
	figure(t, "refused", "%s", formatCounts(byReason))
	judgeManners(t, web, lines, 0)
	if err := canaries.Err(); err != nil {
		t.Error(err)
	}
	lookups := 0
	for _, n := range web.Lookups() {
		lookups += n
	}
	figure(t, "look-ups", "%d; no address dialled that must not be", lookups)
	if e := command(t, c.bin, "status", "--audit", "--dir", c.dir).wait(); e.code != 0 {
		t.Errorf("the audit has exit code %d, want 0:\n%s%s", e.code, e.stdout, e.stderr)
	}
}

// serveNames serves the names of a web and returns the address of the name server. It
// also serves the web on the given listener.
func (s *site) serveNames(t *testing.T, more net.Listener) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	t.Cleanup(func() {
		stop()
		serving.Wait()
	})
	conn, err := testweb.ListenDNS(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, serve := range []func() error{
		func() error { return s.ServeDNS(ctx, conn) }, func() error { return s.Web.Serve(ctx, more) },
	} {
		serving.Go(func() {
			if err := serve(); err != nil {
				t.Error(err)
			}
		})
	}
	return conn.LocalAddr().String()
}
