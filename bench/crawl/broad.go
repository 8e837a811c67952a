package crawl

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
)

// BroadConfig describes the broad crawl: many hosts with high latency at once.
type BroadConfig struct {
	Hosts       uint64          // of the web; 0 means 20,000
	Concurrency []string        // values of --concurrency: numbers, or AutoConcurrency; nil means 64, 1,000 and 4,000
	Time        time.Duration   // of each crawl; less if the budget is short; 0 means 15 s
	TLS         bool            // also crawl over TLS
	Dir         string          // parent of the temporary directories of crawls
	Self        contest.Program // serves sites and runs the loop; required, as is Crawler
	Crawler     contest.Program
	Redis       *sets.Redis // nil means no crawls in Redis
}

// AutoConcurrency lets the crawler choose the concurrency.
const AutoConcurrency = "auto"

// Fixed parameters of the broad crawl.
const (
	broadHosts    = 20_000
	broadTime     = 15 * time.Second
	broadLatency  = 300 * time.Millisecond
	broadDelay    = time.Second
	broadLinks    = 12
	broadSeeds    = 1000 // at most
	pagesPerHost  = 100  // more than a crawl can fetch in its time
	shortestBroad = 2 * time.Second
	broadOverhead = 5 * time.Second // time that a crawl takes to start, and to finish its requests
)

// Names of the programs that are compared. The loop runs first, because the rates of the
// other programs are reported as shares of the loop's rate.
const (
	bareLoop = "bare loop"
	embedded = "embedded"
	onRedis  = "Redis"
)

type broadCase struct {
	subject     string
	tls         bool
	concurrency string
}

func (c broadCase) name() string {
	name := c.subject
	if c.tls {
		name += ", TLS"
	}
	if n, err := strconv.ParseUint(c.concurrency, 10, 64); err == nil {
		return name + ", " + report.Count(n).Text
	}
	return name + ", " + c.concurrency
}

// broadCases returns all crawls of a measurement, in order.
func broadCases(config BroadConfig) (all []broadCase) {
	transports := []bool{false}
	if config.TLS {
		transports = append(transports, true)
	}
	for _, tls := range transports {
		for _, concurrency := range config.Concurrency {
			if concurrency != AutoConcurrency {
				all = append(all, broadCase{bareLoop, tls, concurrency})
			}
			all = append(all, broadCase{embedded, tls, concurrency})
			if config.Redis != nil {
				all = append(all, broadCase{onRedis, tls, concurrency})
			}
		}
	}
	return all
}

type broad struct {
	config        BroadConfig
	crawls, costs *report.Table
	loops         map[string]contest.Took // by broadCase.name
}

// BroadSection returns the section of the broad crawl, with its steps.
func BroadSection(config BroadConfig) *report.Section {
	config.Hosts, config.Time = cmp.Or(config.Hosts, broadHosts), cmp.Or(config.Time, broadTime)
	if len(config.Concurrency) == 0 {
		config.Concurrency = []string{"64", "1000", "4000"}
	}
	s := &report.Section{Name: "broad", Title: "Many late hosts", About: fmt.Sprintf("`crawler crawl`"+` crawls a synthetic web, with --delay %v. The web has
%s hosts, which answer after %v on average (log-normal, spread %g). The root pages of %s of the hosts are the seeds. On
average a page has %d KB and, in addition to the links that make every page reachable, %d links. Each crawl ends when its
time is over. A crawl named "embedded" is in a directory, and one named "Redis" has its queue in Redis. They are compared
with a bare loop, which consists of net/http, html.Tokenizer and a map. The loop has as many workers as the crawler asks
hosts at once, keeps as many idle connections, and has the same delay for each host. It ignores robots.txt, has no limits,
and stores nothing on disk. The crawler, the loop, the site and Redis are separate processes on this machine. Each crawl
has a new site. All crawls use one Redis, which syncs its log each second.

CPU is the processor time of the process of the crawler or of the loop, and memory is its largest resident size.
Connections are those that the site accepted, for each request that it got, robots.txt among them. "GC %%" is the share of
the processor time that garbage collection took, as the runtime estimates it. Round trips are counted in two ways: in a
directory, how often the store synced a group of changes, and with Redis, how often the server read requests. The column
"limited by" is from the crawl's report.`,
		broadDelay, report.Count(config.Hosts).Text, broadLatency, contest.LateSpread, report.Count(uint64(config.seeds())).Text, contest.PageBytes>>10, broadLinks)}
	b := &broad{config: config, loops: make(map[string]contest.Took)}
	b.crawls = s.Table("Crawls", "crawl, hosts at once", "seconds", "pages", "pages/s", "CPU µs/page", "memory MiB",
		"rate / loop's", "CPU / loop's")
	b.costs = s.Table("What a page takes, and what limits", "crawl, hosts at once", "connections/request", "GC %", "round trips/page",
		"Redis: CPU µs/page", "limited by")
	for _, c := range broadCases(config) {
		s.Step(c.name(), func(ctx context.Context, turn *report.Turn) error { return b.run(ctx, turn, c) })
	}
	return s
}

// seeds returns the number of seeds of a crawl.
func (c *BroadConfig) seeds() int { return int(min(broadSeeds, c.Hosts)) }

func (b *broad) run(ctx context.Context, turn *report.Turn, c broadCase) error {
	served, err := b.config.Self.Serve(ctx, contest.Site{
		Pages: pagesPerHost * b.config.Hosts, Hosts: b.config.Hosts, Latency: broadLatency, Links: broadLinks,
		Seeds: b.config.seeds(), TLS: c.tls,
	})
	if err != nil {
		return err
	}
	defer served.Stop()
	long := max(min(b.config.Time, turn.Left()-broadOverhead), shortestBroad)
	var took broadTook
	if c.subject == bareLoop {
		workers, err := strconv.Atoi(c.concurrency)
		if err != nil {
			return err
		}
		took.Took, err = b.config.Self.Loop(ctx, contest.BareLoop, contest.Order{Endpoint: served.Endpoint, Workers: workers, Delay: broadDelay, Time: long})
		if err != nil {
			return err
		}
		b.loops[c.name()] = took.Took
	} else if took, err = b.config.crawl(ctx, served.Endpoint, c, long); err != nil {
		return err
	}
	if took.Pages == 0 {
		return fmt.Errorf("no page was fetched in %v", long)
	}
	traffic := served.Stop()
	b.report(c, took, float64(traffic.Connections)/float64(max(traffic.Requests, 1)))
	turn.Found("%.4g pages/s, %.3g µs of processor each", took.Rate(), took.PerPage())
	return nil
}

func (b *broad) report(c broadCase, took broadTook, connections float64) {
	name := report.Words(c.name())
	row := []report.Cell{name, report.Fixed(took.Seconds, 1), report.Count(took.Pages), report.Fixed(took.Rate(), 0),
		report.Fixed(took.PerPage(), 0), memory(took.Took)}
	if loop, have := b.loops[broadCase{bareLoop, c.tls, c.concurrency}.name()]; have && c.subject != bareLoop {
		row = append(row, report.Fixed(took.Rate()/loop.Rate(), 2), report.Fixed(took.PerPage()/loop.PerPage(), 2))
	}
	b.crawls.Row(row...)
	costs := []report.Cell{name, report.Fixed(connections, 2), report.Fixed(100*took.GC, 1)}
	if c.subject != bareLoop {
		costs = append(costs, report.Number(took.trips, 2), report.Words(""), report.Words(strings.Join(took.limits, ", ")))
		if c.subject == onRedis {
			costs[4] = report.Fixed(took.redisCPU, 0)
		}
	}
	b.costs.Row(costs...)
}
