package crawl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/internal/bench/report"
)

// MixConfig describes the crawl of a web like the one that a broad crawl meets: testweb.MixWeb.
type MixConfig struct {
	BroadConfig          // Hosts 0 means 20,000; Concurrency nil means 4,000 and auto; Time 0 means 40 s; TLS has no meaning
	CoreHour    float64  // price of a core for an hour, in dollars; 0 means 0.02
	More        []string // further flags of the crawler
}

const (
	mixTime     = 40 * time.Second
	mixCoreHour = 0.02
	dayCores    = 16 // of the machine in which days are counted
	// fullBelow is the idle share of the machine below which a crawl counts as limited by it.
	fullBelow = 0.20
)

// parts are the parts of the processor time, in the order of the report's columns.
var parts = []string{"TLS", "HTTP", "gunzip", "parse", "canonicalise", "judge", "dedup", "store", "record", garbage, other}

type mixed struct {
	config          MixConfig
	crawls, parts   *report.Table
	costs           *report.Table
	loops, embedded map[string]contest.Took // by concurrency
}

// MixSection returns the section of the mix, with its steps.
func MixSection(config MixConfig) *report.Section {
	config.Hosts, config.Time = cmp.Or(config.Hosts, broadHosts), cmp.Or(config.Time, mixTime)
	config.CoreHour = cmp.Or(config.CoreHour, mixCoreHour)
	if len(config.Concurrency) == 0 {
		config.Concurrency = []string{"4000", AutoConcurrency}
	}
	s := &report.Section{Name: "mix", Title: "A web like the real one", About: fmt.Sprintf("`crawler crawl`"+` crawls the synthetic web "--mix web" over
TLS, with --delay %v. Its sizes, links, failures, redirects, latencies and refusals are those that a real crawl met
(package internal/testweb, MixWeb, has the table and its source). It has %s hosts; the root pages of %s of them are the
seeds. Pages are answers with a status of 2xx. Each crawl ends after %v. The bare loop is net/http, html.Tokenizer and a
map, with as many workers as the crawler asks hosts at once. It ignores robots.txt, tries nothing again, and stores nothing.
The crawler, the loop, the site and Redis share this machine, so "idle" and "iowait" are those of all together; less than
%.0f %% idle counts as full. CPU is that of the process of the crawler, or of the loop, divided by its pages; its parts are
from a profile. Dollars are for a billion pages, with the measured processor time alone and %g dollars for an hour of a
core; days are those of one machine of %d cores.`,
		broadDelay, report.Count(config.Hosts).Text, report.Count(uint64(config.seeds())).Text, config.Time, 100*fullBelow, config.CoreHour, dayCores)}
	m := &mixed{config: config, loops: make(map[string]contest.Took), embedded: make(map[string]contest.Took)}
	m.crawls = s.Table("Crawls", "crawl, hosts at once", "seconds", "pages", "pages/s", "CPU µs/page", "pages/s per core", "memory MiB",
		"rate / loop's", "rate / directory's", "idle %", "iowait %", "limited by")
	m.parts = s.Table("Where the crawler's time goes, µs of processor for each page", append([]string{"crawl, hosts at once"}, parts...)...)
	m.costs = s.Table("What it costs", "crawl, hosts at once", "requests/page", "GC %", "hosts that wait", "KB of memory for each",
		"Redis: CPU µs/page", "days for 10⁹ pages", "dollars")
	for _, c := range broadCases(config.BroadConfig) {
		s.Step(c.name(), func(ctx context.Context, turn *report.Turn) error { return m.run(ctx, turn, c) })
	}
	return s
}

func (m *mixed) run(ctx context.Context, turn *report.Turn, c broadCase) error {
	served, err := m.config.Self.Serve(ctx, contest.Site{Hosts: m.config.Hosts, Seeds: m.config.seeds(), Mix: true})
	if err != nil {
		return err
	}
	defer served.Stop()
	long := max(min(m.config.Time, turn.Left()-broadOverhead), shortestBroad)
	before, err := readMachine()
	if err != nil {
		return err
	}
	var took broadTook
	var times map[string]time.Duration
	if c.subject == bareLoop {
		workers, err := strconv.Atoi(c.concurrency)
		if err != nil {
			return err
		}
		took.Took, err = m.config.Self.Loop(ctx, contest.BareLoop, contest.Order{
			Endpoint: served.Endpoint, Workers: workers, Delay: broadDelay, Time: long, Lenient: true,
		})
		if err != nil {
			return err
		}
	} else if took, times, err = m.crawl(ctx, served.Endpoint, c, long); err != nil {
		return err
	}
	after, err := readMachine()
	if err != nil {
		return err
	}
	if took.Pages == 0 {
		return fmt.Errorf("no page was fetched in %v", long)
	}
	m.report(c, took, times, after.since(before))
	turn.Found("%.4g pages/s, %.3g µs of processor each", took.Rate(), took.PerPage())
	return nil
}

// crawl runs the crawler. Took.Pages are the answers of 2xx.
func (m *mixed) crawl(ctx context.Context, site contest.Endpoint, c broadCase, long time.Duration) (took broadTook, times map[string]time.Duration, err error) {
	temp, err := os.MkdirTemp(m.config.Dir, "mix-")
	if err != nil {
		return took, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	profile := filepath.Join(temp, "cpu.pprof")
	took, err = m.config.BroadConfig.crawl(ctx, site, c, long, append([]string{"--cpu-profile", profile}, m.config.More...)...)
	if err != nil {
		return took, nil, err
	}
	took.finished, took.Pages = took.Pages, took.html
	times, err = timesIn(profile, partTimes)
	return took, times, err
}

func (m *mixed) report(c broadCase, took broadTook, times map[string]time.Duration, use machineUse) {
	name, none := report.Words(c.name()), report.Words("")
	perCore := 1e6 / max(took.PerPage(), 1e-9)
	row := []report.Cell{name, report.Fixed(took.Seconds, 1), report.Count(took.Pages), report.Fixed(took.Rate(), 0), report.Fixed(took.PerPage(), 0),
		report.Fixed(perCore, 0), memory(took.Took), none, none, report.Fixed(100*use.idle, 0), report.Fixed(100*use.iowait, 1), none}
	switch c.subject {
	case bareLoop:
		m.loops[c.concurrency] = took.Took
	case embedded:
		m.embedded[c.concurrency] = took.Took
	case onRedis:
		if directory, have := m.embedded[c.concurrency]; have {
			row[8] = report.Fixed(took.Rate()/directory.Rate(), 2)
		}
	}
	if loop, have := m.loops[c.concurrency]; have && c.subject != bareLoop {
		row[7] = report.Fixed(took.Rate()/loop.Rate(), 2)
	}
	limits := took.limits
	if use.idle < fullBelow {
		limits = append([]string{"the machine is full"}, limits...)
	}
	row[11] = report.Words(strings.Join(limits, ", "))
	m.crawls.Row(row...)
	if c.subject == bareLoop {
		return
	}
	row = []report.Cell{name}
	for _, part := range parts {
		row = append(row, report.Fixed(float64(times[part].Nanoseconds())/1e3/float64(took.Pages), 1))
	}
	m.parts.Row(row...)
	coreHours := (took.PerPage() + took.redisCPU) * 1e9 / 1e6 / 3600
	redis := none
	if c.subject == onRedis {
		redis = report.Fixed(took.redisCPU, 0)
	}
	m.costs.Row(name, report.Fixed(float64(took.finished)/float64(took.Pages), 2), report.Fixed(100*took.GC, 1), report.Count(uint64(took.hosts)),
		report.Fixed(float64(took.Resident)/1e3/max(took.hosts, 1), 1), redis, report.Fixed(coreHours/24/dayCores, 1), report.Fixed(coreHours*m.config.CoreHour, 0))
}

// machine has the times of all processors since the start, in ticks.
type machine struct{ all, idle, iowait uint64 }

// machineUse has shares of the time of all processors.
type machineUse struct{ idle, iowait float64 }

// readMachine reads /proc/stat (proc_stat(5)).
func readMachine() (m machine, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return m, fmt.Errorf("/proc/stat begins with %q, want the times of cpu", line)
	}
	for i, field := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal; guests are in user
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			return m, fmt.Errorf("/proc/stat: %w", err)
		}
		m.all += n
		switch i {
		case 3:
			m.idle = n
		case 4:
			m.iowait = n
		}
	}
	return m, nil
}

func (m machine) since(before machine) machineUse {
	all := float64(max(m.all-before.all, 1))
	return machineUse{float64(m.idle-before.idle) / all, float64(m.iowait-before.iowait) / all}
}
