package proofs

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestSharedSpeed compares the rate of two workers on one Redis server with the rate of
// one crawler with the embedded store. Redis and the web's server run on the same
// machine. The two kinds of runs alternate. The test reports the best of three runs of
// each kind, because other load of the machine makes single runs slower. The test checks
// no limit, because a rate is not a promise.
func TestSharedSpeed(t *testing.T) {
	if !*proof {
		t.Skip("measures a rate, only with -proof")
	}
	seed := newSeed(t)
	cfg := testweb.Config{Seed: seed, Hosts: 400, Pages: 20_000, Hardships: testweb.None, LargestShare: 0.01}
	embedded, shared := 0.0, 0.0
	for range 3 {
		embedded = max(embedded, embeddedRate(t, cfg))
		shared = max(shared, sharedRate(t, cfg))
	}
	figure(t, "embedded", "%.0f pages/s", embedded)
	figure(t, "two-workers", "%.0f pages/s", shared)
	figure(t, "ratio", "%.2f", shared/embedded)
}

// TestSharedOnce runs workers on a web without delays and without difficulties for crawlers
// (testweb.None), so that the workers find the same pages at the same time. No worker dies,
// so each page must be requested only once.
func TestSharedOnce(t *testing.T) {
	seed := newSeed(t)
	for i := range sized(2, 8) {
		web := serveSite(t, testweb.Config{Seed: seed + uint64(i), Hosts: sized(60, 400), Pages: sized(2000, 20_000),
			Hardships: testweb.None, LargestShare: 0.01}, nil)
		server := servers.Redis(t, servers.RedisOptions{})
		m := newTeam(t, server.URL(), rand.New(rand.NewPCG(seed, uint64(i))), speedFlags(web)...)
		m.run(4)
		checkOnce(t, web)
	}
}

// checkOnce checks that no page of a web was requested twice.
func checkOnce(t *testing.T, web *site) {
	t.Helper()
	asked := make(map[string]int)
	for _, request := range web.pages() {
		if asked[request.url]++; asked[request.url] == 2 {
			t.Errorf("%s was requested twice, want once", request.url)
		}
	}
}

func speedFlags(web *site) []string {
	return append(web.flags(), append([]string{"--delay", "0", "--urls", strconv.Itoa(filterSize), "--log-level", "warn"}, web.Seeds()...)...)
}

func embeddedRate(t *testing.T, cfg testweb.Config) float64 {
	web := serveSite(t, cfg, nil)
	c := newCrawl(t, speedFlags(web)...)
	c.finish()
	return pageRate(web)
}

func sharedRate(t *testing.T, cfg testweb.Config) float64 {
	web := serveSite(t, cfg, nil)
	server := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	m := newTeam(t, server.URL(), rand.New(rand.NewPCG(cfg.Seed, 9)), speedFlags(web)...)
	m.run(2)
	checkOnce(t, web)
	return pageRate(web)
}

// pageRate returns the number of requests for pages per second, from the first request
// to the last.
func pageRate(web *site) float64 {
	log := web.pages()
	return float64(len(log)-1) / (log[len(log)-1].Start - log[0].Start).Seconds()
}
