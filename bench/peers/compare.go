package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/bloomfrontier/crawler/bench/contest"
)

type measure struct {
	peer string
	contest.Took
}

// cpu returns the processor time in seconds. Unlike the rate, it hardly depends on what
// else the machine is doing.
func (m measure) cpu() float64 { return m.CPU.Seconds() }

func (m measure) String() string {
	return fmt.Sprintf("peer=%s pages=%d seconds=%.3f rate=%.0f rss=%.1fMiB cpu=%.1fs",
		m.peer, m.Pages, m.Seconds, m.Rate(), float64(m.Resident)/(1<<20), m.cpu())
}

// contestants are the crawlers that Compare runs in each round, in this order.
// "archiving" is crawler with --save all.
var contestants = []string{"bare", "crawler", "archiving", "colly"}

// workers is the number of concurrent requests of each contestant.
const workers = 16

// Compare crawls one site with all contestants in turn, for several rounds. Each crawl runs in
// its own process. Compare prints the measure of each crawl: peer, HTML pages, seconds, pages per
// second, the largest resident memory of the process in MiB, and its processor time. Then, for
// each contestant, it prints the crawl with the median rate, and the ratios of that crawl's rate
// and processor time to those of the bare loop.
func Compare(ctx context.Context, self, crawler contest.Program, site contest.Site, rounds int, stdout io.Writer) error {
	served, err := self.Serve(ctx, site)
	if err != nil {
		return err
	}
	defer served.Stop()
	measures := make(map[string][]measure)
	for range rounds {
		for _, name := range contestants {
			took, err := compete(ctx, name, self, crawler, served.Endpoint)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			m := measure{name, took}
			fmt.Fprintln(stdout, m)
			measures[name] = append(measures[name], m)
		}
	}
	bare := median(measures["bare"])
	for _, name := range contestants {
		m := median(measures[name])
		fmt.Fprintf(stdout, "median %v of-bare=%.2f cpu-of-bare=%.2f\n", m, m.Rate()/bare.Rate(), m.cpu()/bare.cpu())
		if m.Pages != bare.Pages {
			return fmt.Errorf("%s found %d pages and the bare loop %d: their rates cannot be compared", name, m.Pages, bare.Pages)
		}
	}
	plain, archiving := median(measures["crawler"]), median(measures["archiving"])
	fmt.Fprintf(stdout, "--save all costs %.0f %% of the pages per second, %.0f %% more processor time\n",
		100-100*archiving.Rate()/plain.Rate(), 100*archiving.cpu()/plain.cpu()-100)
	return nil
}

// median returns the measure with the median rate. If two are in the middle, it returns
// the one with the lower rate.
func median(measures []measure) measure {
	sorted := slices.SortedFunc(slices.Values(measures), func(a, b measure) int { return cmp.Compare(a.Rate(), b.Rate()) })
	return sorted[(len(sorted)-1)/2]
}

func compete(ctx context.Context, name string, self, crawler contest.Program, site contest.Endpoint) (took contest.Took, err error) {
	var flags []string
	switch name {
	case "archiving":
		flags = []string{"--save", "all"}
	case "bare", "colly":
		return self.Loop(ctx, name, contest.Order{Endpoint: site, Workers: workers})
	}
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return crawler.Crawl(ctx, site, dir, flags...)
}
