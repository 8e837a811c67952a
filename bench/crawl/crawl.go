// Package crawl measures whole crawls: pages a second, processor time for each
// page and memory of the embedded crawl, beside a loop that promises nothing, and
// where the time goes.
//
// It owns the sites, the loop and the reading of profiles. Crawler, loop and site
// are processes of their own, so that none counts for the others. It does not
// judge a crawl, but that it found as many pages as the loop; package testweb
// does.
package crawl

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/report"
)

// Config says what to crawl.
type Config struct {
	Pages   uint64  // of the largest made-up web; 0 means 100,000
	HTML    string  // a folder of HTML files, crawled besides; empty: none
	Dir     string  // for what crawls leave; they are removed
	Program Program // required
}

// Program makes the command that runs this program with arguments.
type Program func(ctx context.Context, args ...string) *exec.Cmd

// What the program is asked to do besides crawling: Serve and Loop.
const (
	ServeCommand = "site"
	LoopCommand  = "loop"
)

// smallest is how many pages the first made-up web has; each next ten times as
// many.
const smallest = 10_000

// fewHosts is how many hosts the webs of few hosts have. Those of many have one
// for each ten pages.
const fewHosts = 10

// perPage is roughly what a page takes of all three: it decides the shares of
// the budget.
const perPage = 600 * time.Microsecond

// stages are the columns of where the time goes.
var stages = []string{"fetch", "parse", "canonicalise", "judge", "dedup", "store", "record", garbage, other}

// Steps returns the steps of the whole measurement, and their section.
func Steps(config Config) (*report.Section, []*agenda.Step) {
	config.Pages = cmp.Or(config.Pages, 100_000)
	m := newMeasurement(config)
	var steps []*agenda.Step
	for _, site := range sites(config) {
		cost := time.Second + time.Duration(site.Pages)*perPage
		if site.Folder != "" {
			cost = 10 * time.Second
		}
		steps = append(steps, &agenda.Step{Section: m.section, Name: site.name(), Cost: cost, Long: site.Pages > smallest,
			Run: func(ctx context.Context, turn *agenda.Turn) error { return m.run(ctx, turn, site) }})
	}
	return m.section, steps
}

// sites are what is crawled: webs with powers of ten of pages, on few and on
// many hosts, and the folder.
func sites(config Config) (all []Site) {
	var sizes []uint64
	for n := uint64(smallest); n < config.Pages; n *= 10 {
		sizes = append(sizes, n)
	}
	for _, n := range append(sizes, config.Pages) {
		hosts := []uint64{min(fewHosts, n), max(n/10, 1)}
		for _, h := range slices.Compact(hosts) {
			all = append(all, Site{Pages: n, Hosts: h})
		}
	}
	if config.HTML != "" {
		all = append(all, Site{Folder: config.HTML})
	}
	return all
}

// measurement is a run under way.
type measurement struct {
	config  Config
	section *report.Section
	rates   *report.Table
	times   *report.Table
	plot    *report.Plot
}

func newMeasurement(config Config) *measurement {
	s := report.NewSection("crawl", "Pages a second", fmt.Sprintf(
		`crawler crawl, embedded and without delay, %d requests at once to a host and %d hosts at once, everything
durable, against a loop of net/http, html.Tokenizer and a map with %d workers, which promises nothing: no robots.txt, no
limits, nothing on disk. The made-up web has pages of %d KB. Each runs in a process of its own, the site in a third, all
on this machine. CPU is the processor time of the crawler's process, memory the most of it that was resident. Pages are
answers that are HTML; the crawler's processor time by stages is from a profile.`,
		hostConcurrency, hostsAtOnce, loopWorkers, pageBytes>>10))
	m := &measurement{config: config, section: s}
	m.rates = s.Table("Crawls", "site", "pages", "seconds", "pages/s", "CPU µs/page", "memory MiB",
		"loop: pages/s", "CPU µs/page", "memory MiB", "rate / loop's", "CPU / loop's")
	m.times = s.Table("Where the crawler's time goes, µs of processor for each page", append([]string{"site"}, stages...)...)
	m.plot = s.Plot(report.Plot{Title: "Pages a second, over the pages of the site", X: "pages", Y: "pages/s"})
	return m
}

// run crawls one site with both.
func (m *measurement) run(ctx context.Context, turn *agenda.Turn, site Site) error {
	served, err := m.config.Program.serve(ctx, site)
	if err != nil {
		return err
	}
	defer served.stop()
	loop, err := m.config.Program.loop(ctx, Order{Place: served.Place, Workers: loopWorkers})
	if err != nil {
		return err
	}
	turn.Progress(0.4)
	crawl, stageTimes, err := m.config.crawl(ctx, served.Place)
	if err != nil {
		return err
	}
	if crawl.Pages != loop.Pages {
		return fmt.Errorf("the crawler got %d pages and the loop %d: their rates do not compare", crawl.Pages, loop.Pages)
	}
	if crawl.Pages == 0 {
		return fmt.Errorf("%s has no pages", site.name())
	}
	m.report(site, crawl, loop, stageTimes)
	turn.Found("%.4g pages/s, %.3g µs of processor each; the loop %.4g and %.3g", crawl.rate(), crawl.perPage(), loop.rate(), loop.perPage())
	return nil
}

// report adds the rows of a site.
func (m *measurement) report(site Site, crawl, loop Took, times map[string]time.Duration) {
	m.rates.Row(report.Words(site.name()), report.Count(crawl.Pages), report.Fixed(crawl.Seconds, 1), report.Fixed(crawl.rate(), 0),
		report.Fixed(crawl.perPage(), 0), crawl.memory(), report.Fixed(loop.rate(), 0), report.Fixed(loop.perPage(), 0), loop.memory(),
		report.Fixed(crawl.rate()/loop.rate(), 2), report.Fixed(crawl.perPage()/loop.perPage(), 2))
	row := []report.Cell{report.Words(site.name())}
	for _, name := range stages {
		row = append(row, report.Fixed(float64(times[name].Nanoseconds())/1e3/float64(crawl.Pages), 1))
	}
	m.times.Row(row...)
	if site.Folder == "" {
		hosts := "few hosts"
		if site.Hosts > fewHosts {
			hosts = "many hosts"
		}
		m.plot.Line("crawler, "+hosts, report.Solid).Add(report.Point{X: float64(crawl.Pages), Y: crawl.rate()})
		m.plot.Line("loop, "+hosts, report.Dashed).Add(report.Point{X: float64(loop.Pages), Y: loop.rate()})
	}
}
