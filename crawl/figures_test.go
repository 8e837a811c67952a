package crawl

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/sizing"
)

var seedFlag = flag.Uint64("seed", 0, "seed of the random tests; 0: a new one")

// filterCrawl is a store with a filter that does not grow. It counts the new URLs that
// the filter claims to contain.
type filterCrawl struct {
	*localstore.Store
	dir     string
	chain   sizing.Chain
	prefix  string
	offered int
	lost    float64 // new URLs that the store took for known ones
}

func newFilterCrawl(t *testing.T, keys uint64, p float64) *filterCrawl {
	s := *seedFlag
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("replay with -seed=%d (except that the key of the filter is always random)", s)
	c := &filterCrawl{dir: t.TempDir() + "/crawl", chain: sizing.Chain{Keys: keys, FPR: p}, prefix: fmt.Sprintf("http://a.test/%x/", s)}
	c.open(t)
	return c
}

func (c *filterCrawl) open(t *testing.T) {
	t.Helper()
	var err error
	c.Store, err = localstore.Open(localstore.Config{Dir: c.dir,
		Filter: membits.Config{Capacity: c.chain.Keys, FPR: c.chain.FPR, Growth: membits.GrowthOff, Shards: 16}})
	if err != nil {
		t.Fatal(err)
	}
}

// offer offers the URLs with the numbers from first to end-1. If fresh is true, these URLs
// are new.
func (c *filterCrawl) offer(t *testing.T, first, end int, fresh bool) {
	t.Helper()
	for first < end {
		var items []frontier.Offer
		for ; first < end && len(items) < 2000; first++ {
			items = append(items, frontier.Offer{URL: fmt.Sprint(c.prefix, first), Host: "a.test", Priority: frontier.PriorityPage})
		}
		verdicts, err := c.Add(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range verdicts {
			if fresh && v.Answer == frontier.Seen {
				c.lost++
			}
		}
		if fresh {
			c.offered += len(items)
		}
	}
}

// figures returns the three estimates of the false-positive rate. It makes n probes.
func (c *filterCrawl) figures(t *testing.T, n uint64) (*report.FalsePositives, frontier.Stats) {
	t.Helper()
	stats, err := c.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claimed, asked, err := c.Probe(context.Background(), n)
	if err != nil || asked != n {
		t.Fatalf("%d probes were made, want %d: %v", asked, n, err)
	}
	return falsePositives(stats, probes{claimed, asked}, c.chain), stats
}

// deviation returns the difference between the hits of f and the expected number of hits at a
// probability of p, in standard deviations.
func deviation(f *report.Figure, p float64) float64 {
	n := float64(f.Trials)
	return (float64(f.Hits) - n*p) / math.Sqrt(n*p*(1-p))
}

const sigmas = 5 // a correct filter exceeds this about once in two million tests

// TestFalsePositiveFiguresAgree: at p = 1 %, the estimates agree with each other, with
// the configured rate and with the real rate.
func TestFalsePositiveFiguresAgree(t *testing.T) {
	t.Parallel()
	const keys, p = 60_000, 0.01
	c := newFilterCrawl(t, keys, p)
	defer func() { _ = c.Close() }()
	c.offer(t, 0, keys, true)
	f, _ := c.figures(t, 20*probesFor(p))
	if got := f.Estimated.P; math.Abs(got-p) > 0.1*p { // the sizes and loads of the sub-filters vary by some percent
		t.Errorf("estimated rate %g, configured rate %g", got, p)
	}
	if by := deviation(f.Probed, f.Estimated.P); math.Abs(by) > sigmas {
		t.Errorf("probed rate %g, %.1f standard deviations from the estimate %g", f.Probed.P, by, f.Estimated.P)
	}
	if f.Probed.Low > f.Probed.P || f.Probed.P > f.Probed.High || f.Probed.High-f.Probed.Low > 0.001 {
		t.Errorf("the interval of the probed rate is %g to %g, want one around %g and at most 0.001 wide", f.Probed.Low, f.Probed.High, f.Probed.P)
	}
	expected := f.Lost.Expected
	if by := (c.lost - expected) / math.Sqrt(expected); math.Abs(by) > sigmas {
		t.Errorf("%v of %d URLs were lost, expected %g: %.1f standard deviations away", c.lost, c.offered, expected, by)
	}
	if f.Lost.Low >= expected || f.Lost.High <= expected {
		t.Errorf("the interval of lost URLs is not around the expected number: %+v", f.Lost)
	}

	// The shadow sample is one URL in 1,024. The store also keeps the fingerprints of these URLs
	// outside the filter. Far beyond its capacity, the filter loses so many URLs that some are
	// in this sample.
	c.offer(t, keys, 3*keys, true)
	f, stats := c.figures(t, probesFor(p))
	share := c.lost / float64(c.offered)
	if by := deviation(f.Shadow, share); math.Abs(by) > sigmas || f.Shadow.Hits == 0 {
		t.Errorf("%d of %d URLs of the shadow sample were lost, %.1f standard deviations from the real share %g", f.Shadow.Hits, f.Shadow.Trials, by, share)
	}
	if f.Estimated.P < 10*p || math.Abs(deviation(f.Probed, f.Estimated.P)) > sigmas {
		t.Errorf("overfilled: estimated rate %g, want at least %g; probed rate %g, want the same", f.Estimated.P, 10*p, f.Probed.P)
	}
	if err := Promises(stats); err != nil {
		t.Error(err)
	}
}

// TestBrokenFilter: if a filter has lost half of its bits, the estimated and the probed
// false-positive rates are lower, and Promises returns an error after the URLs are
// offered again.
func TestBrokenFilter(t *testing.T) {
	t.Parallel()
	const keys, p = 60_000, 0.01
	c := newFilterCrawl(t, keys, p)
	c.offer(t, 0, keys, true)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	zeroFilter(t, c.dir)
	c.open(t)
	defer func() { _ = c.Close() }()
	f, stats := c.figures(t, probesFor(p))
	made := c.chain.At(stats.Filter.Keys).FPR
	if f.Estimated.P > made/2 {
		t.Errorf("estimated rate %g after half of the bits were lost, want at most half of %g", f.Estimated.P, made)
	}
	if f.Probed.High > made {
		t.Errorf("probed rate %g to %g after half of the bits were lost, want less than %g", f.Probed.Low, f.Probed.High, made)
	}
	c.offer(t, 0, keys, false)
	_, stats = c.figures(t, 1)
	if err := Promises(stats); err == nil || stats.Shadow.Forgotten == 0 {
		t.Errorf("after all URLs were offered again: shadow sample %+v, error %v; want forgotten URLs and an error", stats.Shadow, err)
	}
}

func TestPoissonRange(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ mean, low, high float64 }{ // from tables of the distribution
		{0, 0, 0}, {1e-6, 0, 0}, {0.025, 0, 0}, {0.03, 0, 1}, {1, 0, 3}, {10, 4, 17}, {100, 81, 120}, {1e6, 998040, 1001960},
	} {
		if low, high := poissonRange(test.mean); low != test.low || high != test.high {
			t.Errorf("poissonRange(%g) = %g to %g, want %g to %g", test.mean, low, high, test.low, test.high)
		}
	}
}

// TestLostWithKnown: the URLs of --known were never new, so none of them counts as lost.
func TestLostWithKnown(t *testing.T) {
	t.Parallel()
	chain := sizing.Chain{Keys: 1000, FPR: 0.1}
	lost := func(added, recovered uint64) float64 {
		stats := frontier.Stats{Books: frontier.Books{Added: added}, Recovered: recovered, Filter: frontier.FilterStats{Keys: 1000, FPR: 0.1}}
		return expectedLost(stats, chain).Expected
	}
	all, known, late := lost(1000, 0), lost(0, 0), lost(10, 1)
	if known != 0 || all < 10 || late < 0.5 || late > all/10 {
		t.Errorf("lost %g of 1000 new URLs, %g of 1000 known ones, %g of 10 new ones after 990 known ones; want 10 or more, 0, 0.5 or more", all, known, late)
	}
}

// TestLostOfSmallFilter: a small filter has more bits than its number of URLs needs, so it loses
// fewer URLs than sizing.Chain predicts. Here it gets four times as many URLs as its capacity.
func TestLostOfSmallFilter(t *testing.T) {
	t.Parallel()
	stats := frontier.Stats{Books: frontier.Books{Added: 400}, Filter: frontier.FilterStats{Keys: 400, FPR: 5e-5}}
	chain := sizing.Chain{Keys: 100, FPR: 1e-6}
	if lost, predicted := expectedLost(stats, chain).Expected, chain.At(400).LostKeys; lost > 0.021 || predicted < 10 {
		t.Errorf("lost %g of 400 URLs, want 0.02 at most; the chain predicts %g, want 10 or more", lost, predicted)
	}
}

// zeroFilter makes the saved filter of a crawl lose half of its bits.
func zeroFilter(t *testing.T, dir string) {
	name := filterFile(t, dir)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	bloomtest.ZeroHalf(b)
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func filterFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "filter-*.bits"))
	if err != nil || len(names) != 1 {
		t.Fatalf("filter files are %q (%v), want one", names, err)
	}
	return names[0]
}
