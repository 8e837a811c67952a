package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
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

// contestants are the crawlers that the function compare runs in each round, in this order.
// "archiving" is crawler with --save all.
var contestants = []string{"bare", "crawler", "archiving", "colly"}

// workers is the number of concurrent requests of each contestant.
const workers = 16

// compare crawls one site with all contestants in turn, for several rounds. Each crawl
// runs in its own process. compare prints the measure of each crawl. Then, for each
// contestant, it prints the crawl with the median rate, and the ratios of that crawl's rate
// and processor time to those of the bare loop.
func compare(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("peers compare", flag.ContinueOnError)
	dir := flags.String("dir", "", "the folder of HTML files")
	crawler := flags.String("crawler", "", "the crawler binary")
	rounds := flags.Int("rounds", 3, "how often each crawls the site")
	packed := flags.Bool("gzip", false, "the server sends answers with gzip, as most do")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *crawler == "" || *rounds < 1 {
		return errors.New("compare: want -dir, -crawler and at least one round")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ours, product := program(self), program(*crawler)
	served, err := ours.Serve(ctx, contest.Site{Folder: *dir, Packed: *packed})
	if err != nil {
		return err
	}
	defer served.Stop()
	measures := make(map[string][]measure)
	for range *rounds {
		for _, name := range contestants {
			took, err := compete(ctx, name, ours, product, served.Endpoint)
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

// program returns a function that makes commands of a binary.
func program(name string) contest.Program {
	return func(ctx context.Context, args ...string) *exec.Cmd { return exec.CommandContext(ctx, name, args...) }
}

// median returns the measure with the median rate. If two are in the middle, it returns
// the one with the lower rate.
func median(measures []measure) measure {
	sorted := slices.SortedFunc(slices.Values(measures), func(a, b measure) int { return cmp.Compare(a.Rate(), b.Rate()) })
	return sorted[(len(sorted)-1)/2]
}

func compete(ctx context.Context, name string, ours, product contest.Program, site contest.Endpoint) (took contest.Took, err error) {
	var flags []string
	switch name {
	case "archiving":
		flags = []string{"--save", "all"}
	case "bare", "colly":
		return ours.Loop(ctx, contest.Order{Endpoint: site, Workers: workers}, name)
	}
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return took, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return product.Crawl(ctx, site, dir, flags...)
}
