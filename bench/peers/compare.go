package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// measure is what one crawl took.
type measure struct {
	peer    string
	pages   int     // HTML pages
	seconds float64 // wall time
	rate    float64 // pages per second
	rss     float64 // largest resident set, MiB
	cpu     float64 // seconds of all cores: what the rate does not tell when others use the machine too
}

func newMeasure(peer string, pages int, seconds float64, usage *syscall.Rusage) measure {
	return measure{
		peer: peer, pages: pages, seconds: seconds,
		rate: float64(pages) / seconds,
		rss:  float64(usage.Maxrss) / 1024, // Linux counts KiB
		cpu:  time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds(),
	}
}

const measureFormat = "peer=%s pages=%d seconds=%f rate=%f rss=%fMiB cpu=%fs"

func (m measure) String() string {
	return fmt.Sprintf("peer=%s pages=%d seconds=%.3f rate=%.0f rss=%.1fMiB cpu=%.1fs", m.peer, m.pages, m.seconds, m.rate, m.rss, m.cpu)
}

func parseMeasure(line string) (m measure, err error) {
	if _, err := fmt.Sscanf(line, measureFormat, &m.peer, &m.pages, &m.seconds, &m.rate, &m.rss, &m.cpu); err != nil {
		return m, fmt.Errorf("measure %q: %w", line, err)
	}
	return m, nil
}

// contestants of compare, in the order of a round. Archiving is crawler with
// --save all.
var contestants = []string{"bare", "crawler", "archiving", "colly"}

// compare crawls one site with all contestants in turn, each in a process of
// its own, for some rounds, and prints every measure, the medians and their
// ratios to the bare loop's.
func compare(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("peers compare", flag.ContinueOnError)
	dir := flags.String("dir", "", "the folder of HTML files")
	crawler := flags.String("crawler", "", "the crawler binary")
	rounds := flags.Int("rounds", 3, "how often each crawls the site")
	packed := flags.Bool("gzip", false, "the server sends answers with gzip, as most do")
	least := flags.Float64("least", 0, "fail when crawler's share of the bare loop's rate is below this")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" || *crawler == "" || *rounds < 1 {
		return errors.New("compare: want -dir, -crawler and at least one round")
	}
	url, stop, err := serveElsewhere(ctx, *dir, *packed)
	if err != nil {
		return err
	}
	defer stop()
	measures := make(map[string][]measure)
	for range *rounds {
		for _, name := range contestants {
			m, err := contest(ctx, name, *crawler, url)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintln(stdout, m)
			measures[name] = append(measures[name], m)
		}
	}
	bare := median(measures["bare"])
	for _, name := range contestants {
		m := median(measures[name])
		fmt.Fprintf(stdout, "median %v of-bare=%.2f cpu-of-bare=%.2f\n", m, m.rate/bare.rate, m.cpu/bare.cpu)
		if m.pages != bare.pages {
			return fmt.Errorf("%s found %d pages and the bare loop %d: their rates do not compare", name, m.pages, bare.pages)
		}
	}
	fmt.Fprintf(stdout, "--save all costs %.0f %% of the pages per second, %.0f %% more processor time\n",
		100-100*median(measures["archiving"]).rate/median(measures["crawler"]).rate,
		100*median(measures["archiving"]).cpu/median(measures["crawler"]).cpu-100)
	if share := median(measures["crawler"]).rate / bare.rate; share < *least {
		return fmt.Errorf("crawler reaches %.2f of the bare loop, want %.2f or more", share, *least)
	}
	return nil
}

// median returns the measure with the median rate (the lower of two).
func median(measures []measure) measure {
	sorted := slices.SortedFunc(slices.Values(measures), func(a, b measure) int { return cmp.Compare(a.rate, b.rate) })
	return sorted[(len(sorted)-1)/2]
}

// contest lets one contestant crawl the site.
func contest(ctx context.Context, name, crawler, url string) (measure, error) {
	switch name {
	case "crawler":
		return runCrawler(ctx, name, crawler, url)
	case "archiving":
		return runCrawler(ctx, name, crawler, url, "--save", "all")
	}
	self, err := os.Executable()
	if err != nil {
		return measure{}, err
	}
	command := exec.CommandContext(ctx, self, "crawl", "-peer", name, "-url", url)
	command.Stderr = os.Stderr
	line, err := command.Output()
	if err != nil {
		return measure{}, err
	}
	return parseMeasure(string(line))
}

// runCrawler crawls with the product: 16 requests at once to one host, no
// delay, everything durable. Its time is that of the whole process.
func runCrawler(ctx context.Context, name, crawler, url string, more ...string) (measure, error) {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return measure{}, err
	}
	defer os.RemoveAll(dir)
	crawl := filepath.Join(dir, "site.crawl")
	args := append([]string{"crawl", "--dir", crawl, "--delay", "0", "--host-concurrency", "16", "--allow-private"}, more...)
	command := exec.CommandContext(ctx, crawler, append(args, url)...)
	var said strings.Builder
	command.Stderr = &said
	began := time.Now()
	if err := command.Run(); err != nil {
		return measure{}, fmt.Errorf("%w\n%s", err, said.String())
	}
	seconds := time.Since(began).Seconds()
	pages, err := countPages(filepath.Join(crawl, "pages.jsonl"))
	if err != nil {
		return measure{}, err
	}
	return newMeasure(name, pages, seconds, command.ProcessState.SysUsage().(*syscall.Rusage)), nil
}

// countPages counts the records of HTML pages.
func countPages(file string) (pages int, err error) {
	records, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer records.Close()
	for decoder := json.NewDecoder(bufio.NewReader(records)); ; {
		var record struct {
			Status      int
			ContentType string `json:"content_type"`
		}
		switch err := decoder.Decode(&record); {
		case errors.Is(err, io.EOF):
			return pages, nil
		case err != nil:
			return 0, fmt.Errorf("%s: %w", file, err)
		case record.Status == 200 && strings.HasPrefix(record.ContentType, "text/html"):
			pages++
		}
	}
}
