package proofs

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/bench/testweb"
)

// TestSharedSpeed measures how many of the pages that one crawler with the
// embedded store fetches two workers on one Redis fetch in the same time on this
// machine, which Redis and the web's server share with them. The better of three
// runs of each counts, by turns: what else the machine does makes single ones
// slower. It judges nothing: a rate is no promise.
func TestSharedSpeed(t *testing.T) {
	if !*proof {
		t.Skip("a rate, measured with -proof only")
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

// TestSharedOnce: workers find the same pages of a web without delays or hardships
// at the same time. No worker dies, so each page is asked for once.
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

// checkOnce wants no page of a web asked for twice.
func checkOnce(t *testing.T, web *site) {
	t.Helper()
	asked := make(map[string]int)
	for _, request := range web.pages() {
		if asked[request.url]++; asked[request.url] == 2 {
			t.Errorf("%s was fetched again", request.url)
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

// pageRate returns how many pages a second a web was asked for, from the first to
// the last of them.
func pageRate(web *site) float64 {
	log := web.pages()
	return float64(len(log)-1) / (log[len(log)-1].Start - log[0].Start).Seconds()
}
