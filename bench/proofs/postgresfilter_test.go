package proofs

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/sizing"
)

// The parameters of a weak filter. Its capacity is a sixth of the number of the crawl's
// URLs. At the end, the filter takes nine tenths of the new URLs for known ones.
const (
	overfill = 6
	weakRate = 0.01
)

// TestPostgresWeakFilter checks that a crawl with a weak filter finds all its URLs if they
// are exact, that is, if Postgres decides whether they are new. The crawl must count the
// URLs that the filter alone would have lost.
func TestPostgresWeakFilter(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	web := hardWeb(t, seed)
	expected := 0
	for range web.Expected() {
		expected++
	}
	r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 24)), "jsonl", "--partitions", "1",
		"--urls", strconv.Itoa(expected/overfill), "--fpr", fmt.Sprint(weakRate), "--growth", "off")
	r.work(2)
	r.judgeExact(web)
	stats := r.stats()
	options, err := redisstore.ParseURL(r.queue.URL())
	if err != nil {
		t.Fatal(err)
	}
	store, err := redisstore.Inspect(t.Context(), redisstore.Config{Redis: options, Name: crawlName})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	layers, err := store.FilterLayers(t.Context())
	if err != nil || len(layers) != 1 {
		t.Fatalf("the filter has the layers %+v (%v), want one", layers, err)
	}
	promised := swallowed(layers[0], stats.Added)
	figure(t, "recovered", "%d of %d, the filter promises %.0f; its rate is %.2f at the end", stats.Recovered, stats.Added, promised, stats.Filter.FPR)
	// The distribution of keys among blocks is also random. This makes the deviation
	// larger, especially in a small filter, which has only a few dozen blocks.
	deviation := 5*math.Sqrt(promised) + promised*sized(0.3, 0.05)
	if math.Abs(float64(stats.Recovered)-promised) > deviation {
		t.Errorf("%d keys were recovered, want %.0f ± %.0f", stats.Recovered, promised, deviation)
	}
}

// swallowed returns the expected number of false positives of a layer to which n new
// URLs are added one by one.
func swallowed(layer frontier.FilterLayer, n uint64) (sum float64) {
	for i := range n {
		if i > 0 {
			sum += sizing.ExactBlockedFalsePositiveRate(float64(layer.Bits)/float64(i), sizing.DefaultBlockBits, layer.Hashes)
		}
	}
	return sum
}

// TestPostgresBulkLoss adds new URLs to a weak filter, and checks that the filter loses as
// many of them as its stated false-positive rates predict. The number of new URLs with the
// answer "seen" must be near the sum of the rates that the filter states when the URLs are
// added. A call looks up all its URLs before it adds any of them, so one rate applies to
// all URLs of a call.
func TestPostgresBulkLoss(t *testing.T) {
	t.Parallel()
	seed := newSeed(t)
	server := servers.Redis(t, servers.RedisOptions{})
	options, err := redisstore.ParseURL(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	total, batch := sized(6_000, 200_000), sized(150, 500)
	store, err := redisstore.Open(t.Context(), redisstore.Config{
		Redis: options, Name: crawlName, Exact: new(exact.Client), Partitions: 4,
		Capacity: uint64(total / overfill), FPR: weakRate, Growth: bloomstore.GrowthOff,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	rate := func() float64 {
		stats, err := store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return stats.Filter.FPR
	}
	promised, variance, seen := 0.0, 0.0, 0
	for first := 0; first < total; first += batch {
		p := rate()
		promised, variance = promised+float64(batch)*p, variance+float64(batch)*p*(1-p)
		items := make([]frontier.Offer, batch)
		for i := range items {
			host := fmt.Sprintf("%x-%d.test", seed, first+i) // a new host for each URL, so that the partitions fill evenly
			items[i] = frontier.Offer{URL: "http://" + host + "/", Host: host, Priority: frontier.PriorityPage}
		}
		verdicts, err := store.Add(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if v.Answer == frontier.Seen {
				seen++
			}
		}
	}
	sigma, last := math.Sqrt(variance), rate()
	figure(t, "seen", "%d of %d, the fill says %.0f: %+.2f sigma; the rate is %.2f at the end", seen, total, promised, (float64(seen)-promised)/sigma, last)
	if math.Abs(float64(seen)-promised) > 5*sigma { // happens by chance about once in two million runs
		t.Errorf("Add answered \"seen\" for %d new URLs, want %.0f ± %.0f", seen, promised, 5*sigma)
	}
	// A filter for exactly a sixth of the URLs has a rate of 0.9 at the end. The filter of each
	// partition has a reserve in case the partition gets more keys than the others, so its rate
	// is lower.
	if last < 0.7 {
		t.Errorf("the rate is %.2f at the end, want more than 0.7: the filter was not filled", last)
	}
}
