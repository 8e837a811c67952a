package exact_test

import (
	"context"
	"errors"
	"flag"
	"net/url"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/suite"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the random run with this seed; 0: a new one")
	proof = flag.Bool("proof", false, "many long random runs")
)

// exactly is a crawl whose items are all exact.
type exactly struct{ frontiertest.Crawl }

func (c exactly) Add(ctx context.Context, items []frontier.Offer) ([]frontier.Verdict, error) {
	return c.Crawl.Add(ctx, allExact(items))
}

func (c exactly) Complete(ctx context.Context, id frontier.LeaseID, done []frontier.Completion, update frontier.HostUpdate) error {
	made := make([]frontier.Completion, len(done))
	for i, d := range done {
		d.Links = allExact(d.Links)
		made[i] = d
	}
	return c.Crawl.Complete(ctx, id, made, update)
}

func allExact(items []frontier.Offer) []frontier.Offer {
	made := make([]frontier.Offer, len(items))
	for i, item := range items {
		if item.Class == frontier.Bulk {
			item.Class = frontier.Exact
		}
		made[i] = item
	}
	return made
}

func mustRules(t testing.TB, text string) *exact.Rules {
	rules, err := exact.ParseTexts([]string{text})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// hostOf returns the host key of a URL in the tests.
func hostOf(canonical string) (string, error) {
	u, err := url.Parse(canonical)
	if err != nil {
		return "", err
	}
	if u.Hostname() == "" {
		return "", errors.New("no host")
	}
	return u.Hostname(), nil
}

// openSuite opens a frontier in memory with an exact set.
func openSuite(t testing.TB, opt frontiertest.Options, windows exact.Windows) frontiertest.Crawl {
	set := exact.NewBreaker(exacttest.NewMemory(exacttest.Options{Now: opt.Now, Windows: windows}), 0)
	output := exact.NewOutput(exact.OutputConfig{Set: set, Files: opt.Output})
	return frontiertest.NewMemory(frontiertest.MemoryConfig{
		Delay: opt.Delay, LeaseTTL: opt.LeaseTTL, MaxPerHost: opt.MaxPerHost, SeedsUnlimited: opt.SeedsUnlimited, Now: opt.Now, Output: output, Policy: opt.Policy.Load,
		Exact: &exact.Client{Set: set, Rules: mustRules(t, "all"), End: output.End, Now: opt.Now},
	})
}

func openMixed(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
	return openSuite(t, opt, exact.Windows{})
}

func openExact(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
	return exactly{openSuite(t, opt, exact.Windows{})}
}

func TestMemoryPassesSuite(t *testing.T) {
	t.Run("mixed", func(t *testing.T) { frontiertest.Run(t, openMixed) })
	t.Run("exact", func(t *testing.T) { frontiertest.Run(t, openExact) })
}

func TestSuiteOfWindows(t *testing.T) {
	frontiertest.RunWindows(t, func(t *testing.T, opt frontiertest.Options) frontiertest.Crawl {
		return openSuite(t, opt, exact.Windows{frontiertest.ClassWindow: frontiertest.Window})
	})
}

// TestRandomCallsMatchModel makes random calls and compares their results with a model. Some of
// the offered items are exact.
func TestRandomCallsMatchModel(t *testing.T) {
	runs, steps := 6, 400
	if *proof {
		runs, steps = 50, 3000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range runs {
		frontiertest.Model(t, openMixed, first+uint64(i), steps)
		if t.Failed() {
			break
		}
	}
}
