// Package crawl measures whole crawls in a directory: pages per second, processor time
// per page, memory, and the stages that take the time. It compares them with the bare
// loop of package contest.
//
// It owns the sites that are crawled and the evaluation of profiles. Package contest runs
// the crawler, the loop and the site. This package only checks that a crawl found as many
// pages as the loop. Package testweb judges crawls in detail.
package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/internal/bench/report"
)

// Config describes the measurement.
type Config struct {
	Pages   uint64          // of the largest synthetic web; 0 means 10,000
	Dir     string          // parent of the temporary directories of crawls
	Self    contest.Program // serves sites and runs the loop; required, as is Crawler
	Crawler contest.Program
}

// Concurrency of the crawler and of the loop. The sites have no delay.
const (
	hostsAtOnce = 64
	loopWorkers = 64
)

// smallest is the number of pages of the smallest synthetic web.
const smallest = 10_000

// fewHosts is the number of hosts of the webs with few hosts. The webs with many hosts
// have one host for every ten pages.
const fewHosts = 10

// stages are the stages of a crawl, in the order of the report's columns.
var stages = []string{"fetch", "parse", "canonicalise", "judge", "dedup", "store", "record", garbage, other}

// Section returns the section of the measurement, with its steps.
func Section(config Config) *report.Section {
	s := &report.Section{Name: "crawl", Title: "Pages a second", About: fmt.Sprintf("`crawler crawl`"+` in a directory is compared with a bare loop. The
crawler has no delay, sends up to %d requests to a host at once, asks up to %d hosts at once, and stores everything
durably. The loop consists of net/http, html.Tokenizer and a map, and has %d workers. It ignores robots.txt, has no
limits, and stores nothing on disk. The synthetic web has pages of %d KB. The crawler, the loop and the site are three
processes on this machine. CPU is the processor time of the process of the crawler or of the loop, and memory is its
largest resident size. Only HTML answers count as pages. The crawler's processor time by stage is from a profile.`,
		contest.HostConcurrency, hostsAtOnce, loopWorkers, contest.PageBytes>>10)}
	m := &measurement{config: config}
	m.rates = s.Table("Crawls", "site", "pages", "seconds", "pages/s", "CPU µs/page", "memory MiB",
		"loop: pages/s", "CPU µs/page", "memory MiB", "rate / loop's", "CPU / loop's")
	m.times = s.Table("Where the crawler's time goes, µs of processor for each page", append([]string{"site"}, stages...)...)
	for _, site := range sites(cmp.Or(config.Pages, smallest)) {
		s.Step(nameOf(site), func(ctx context.Context, turn *report.Turn) error { return m.run(ctx, turn, site) })
	}
	return s
}

// sites returns the sites that are crawled: webs of several sizes, each with few and with
// many hosts.
func sites(pages uint64) (all []contest.Site) {
	for _, n := range report.Sizes(smallest, pages) {
		hosts := []uint64{min(fewHosts, n), max(n/10, 1)}
		for _, h := range slices.Compact(hosts) {
			all = append(all, contest.Site{Pages: n, Hosts: h})
		}
	}
	return all
}

type measurement struct {
	config       Config
	rates, times *report.Table
}

func nameOf(s contest.Site) string {
	return fmt.Sprintf("%s pages, %s hosts", report.Count(s.Pages).Text, report.Count(s.Hosts).Text)
}

// run crawls one site with the loop and with the crawler.
func (m *measurement) run(ctx context.Context, turn *report.Turn, site contest.Site) error {
	served, err := m.config.Self.Serve(ctx, site)
	if err != nil {
		return err
	}
	defer served.Stop()
	bare, err := m.config.Self.Loop(ctx, contest.BareLoop, contest.Order{Endpoint: served.Endpoint, Workers: loopWorkers})
	if err != nil {
		return err
	}
	crawl, stageTimes, err := m.config.crawl(ctx, served.Endpoint)
	if err != nil {
		return err
	}
	if crawl.Pages != bare.Pages {
		return fmt.Errorf("the crawler got %d pages and the loop %d: their rates cannot be compared", crawl.Pages, bare.Pages)
	}
	if crawl.Pages == 0 {
		return fmt.Errorf("%s has no pages", nameOf(site))
	}
	m.report(site, crawl, bare, stageTimes)
	turn.Found("%.4g pages/s, %.3g µs of processor each; the loop %.4g and %.3g", crawl.Rate(), crawl.PerPage(), bare.Rate(), bare.PerPage())
	return nil
}

// crawl runs the crawler on a site. cpuTimes holds the processor time of each stage.
func (c *Config) crawl(ctx context.Context, site contest.Endpoint) (took contest.Took, cpuTimes map[string]time.Duration, err error) {
	temp, err := os.MkdirTemp(c.Dir, "crawl-")
	if err != nil {
		return took, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	profile := filepath.Join(temp, "cpu.pprof")
	took, err = c.Crawler.Crawl(ctx, site, temp, "--cpu-profile", profile, "--log-level", "error", "--concurrency", strconv.Itoa(hostsAtOnce))
	if err != nil {
		return took, nil, err
	}
	cpuTimes, err = timesIn(profile, stageTimes)
	return took, cpuTimes, err
}

func (m *measurement) report(site contest.Site, crawl, bare contest.Took, times map[string]time.Duration) {
	m.rates.Row(report.Words(nameOf(site)), report.Count(crawl.Pages), report.Fixed(crawl.Seconds, 1), report.Fixed(crawl.Rate(), 0),
		report.Fixed(crawl.PerPage(), 0), memory(crawl), report.Fixed(bare.Rate(), 0), report.Fixed(bare.PerPage(), 0), memory(bare),
		report.Fixed(crawl.Rate()/bare.Rate(), 2), report.Fixed(crawl.PerPage()/bare.PerPage(), 2))
	row := []report.Cell{report.Words(nameOf(site))}
	for _, name := range stages {
		row = append(row, report.Fixed(float64(times[name].Nanoseconds())/1e3/float64(crawl.Pages), 1))
	}
	m.times.Row(row...)
}

// memory returns the cell for the memory of a crawl.
func memory(took contest.Took) report.Cell {
	if took.Resident == 0 {
		return report.Words("–")
	}
	return report.Fixed(float64(took.Resident)/(1<<20), 0)
}
