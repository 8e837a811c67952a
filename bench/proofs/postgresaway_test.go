package proofs

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// chains is a web whose hosts have a chain of pages each. Every page links to the next
// one. On every second host, every tenth page also links to a leaf. So a crawl finds new links all the
// time. Each link is on only one page.
type chains struct {
	addr          string
	hosts, length int
	enough        func(requests int) // called after each request; the argument is the number of requests so far

	mu     sync.Mutex
	bulk   []time.Time // times of the requests for pages of hosts without leaves
	others int         // number of requests for pages of hosts with leaves
	leaves int         // number of requests for leaves
}

func serveChains(t *testing.T, hosts, length int, enough func(requests int)) *chains {
	t.Helper()
	c := &chains{hosts: hosts, length: length, enough: enough}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		n, err := strconv.Atoi(r.URL.Path[1:])
		switch {
		case err == nil:
			leafy := hasLeaves(r.Host)
			c.note(leafy, false)
			fmt.Fprintf(w, "<a href=/%d>next</a>", (n+1)%c.length)
			if leafy && n%10 == 0 {
				fmt.Fprintf(w, "<a href=/leaf/%d>leaf</a>", n)
			}
		case strings.HasPrefix(r.URL.Path, "/leaf/"):
			c.note(true, true)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	c.addr = server.Listener.Addr().String()
	return c
}

// hasLeaves reports whether pages of a host, such as host-3.test, link to leaves.
func hasLeaves(host string) bool {
	name, _, _ := strings.Cut(host, ".")
	return strings.ContainsAny(name[len(name)-1:], "13579")
}

func (c *chains) note(leafy, leaf bool) {
	c.mu.Lock()
	switch {
	case leaf:
		c.leaves++
	case leafy:
		c.others++
	default:
		c.bulk = append(c.bulk, time.Now())
	}
	requests := len(c.bulk) + c.others + c.leaves
	c.mu.Unlock()
	c.enough(requests)
}

// rate returns the number of pages per second that were requested between two times, on hosts
// without leaves.
func (c *chains) rate(from, to time.Time) (pages float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.bulk {
		if at.After(from) && at.Before(to) {
			pages++
		}
	}
	return pages / to.Sub(from).Seconds()
}

// compare returns an error that names pages without exactly one record, and records of
// other URLs.
func (c *chains) compare(lines []line) error {
	records := make(map[string]int)
	for _, l := range lines {
		records[l.URL]++
	}
	var faults []error
	expect := func(url string) {
		if records[url] != 1 {
			faults = append(faults, fmt.Errorf("%s has %d records, want 1", url, records[url]))
		}
		delete(records, url)
	}
	for host := range c.hosts {
		for n := range c.length {
			name := fmt.Sprintf("host-%d.test", host)
			expect(fmt.Sprintf("http://%s/%d", name, n))
			if hasLeaves(name) && n%10 == 0 {
				expect(fmt.Sprintf("http://%s/leaf/%d", name, n))
			}
		}
	}
	for url := range records {
		faults = append(faults, fmt.Errorf("there is a record of %s, which is no page of the web", url))
	}
	return errors.Join(faults[:min(len(faults), 10)]...)
}

// TestPostgresAway stops Postgres for a while in the middle of a crawl. Postgres decides only
// whether leaves are new, so pages with links to leaves wait in the workers. Meanwhile the crawl must fetch
// the pages of the other hosts nearly as fast as before. After that it must also fetch all other pages, and
// each page must have one record.
func TestPostgresAway(t *testing.T) {
	t.Parallel()
	delay, away := sized(150*time.Millisecond, 300*time.Millisecond), sized(4*time.Second, time.Minute)
	begun := make(chan struct{})
	first := sync.OnceFunc(func() { close(begun) })
	// Because of the delays of the hosts, the crawl takes at least 15 s at the small size
	// and 200 s at the full size.
	web := serveChains(t, sized(25, 60), sized(90, 600), func(requests int) {
		if requests > sized(150, 1500) {
			first()
		}
	})
	flags := []string{"--scope", "any", "--connect-to", "*=" + web.addr, "--delay", ms(delay), "--partitions", "32",
		"--urls", "100000", "--log-level", "warn", "--exact", "re=/leaf/", "--allow-series", "."}
	for host := range web.hosts {
		flags = append(flags, fmt.Sprintf("http://host-%d.test/0", host))
	}
	r := newExactCrawl(t, rand.New(rand.NewPCG(1, 26)), flags...)
	var gone, back time.Time
	var leased uint64 // items that were leased at the end of the outage
	r.trouble = func() error {
		if err := await(t.Context(), begun); err != nil {
			return err
		}
		time.Sleep(away)
		gone = time.Now()
		if err := r.database.Kill(); err != nil {
			return err
		}
		time.Sleep(away)
		leased, back = r.stats().Leased, time.Now()
		return r.database.Restart()
	}
	r.run(2)

	before, meanwhile := web.rate(gone.Add(-away), gone), web.rate(gone, back)
	figure(t, "bulk", "%.1f pages/s before, %.1f while Postgres was away for %v: %.3f of that; %d items were leased then",
		before, meanwhile, back.Sub(gone).Round(time.Millisecond), meanwhile/before, leased)
	if least := sized(0.6, 0.9); meanwhile < least*before { // the rates of a short run vary more on a busy machine
		t.Errorf("%.1f pages/s while Postgres was away, %.1f before; want at least %.1f times the rate before", meanwhile, before, least)
	}
	if leased == 0 {
		t.Error("no item was leased while Postgres was away, want some: those of pages that wait")
	}
	lines := parse(t, r.export())
	if err := web.compare(lines); err != nil {
		t.Error(err)
	}
	checkOutcomes(t, r.stats(), lines)
	if audit := r.audit(); audit.code != 0 || audit.noted {
		t.Errorf("the audit has exit code %d, want 0 and no notes:\n%s", audit.code, audit.text)
	}
}

// hundredth is a value of --exact that matches all URLs of four of 400 hosts. It consists
// of patterns for hosts and not of a regular expression. A crawl would have to try a
// regular expression on every link, which would cost more than the exact keys.
const hundredth = "host=*h000100.*,host=*h000101.*,host=*h000102.*,host=*h000103.*"

// TestPostgresSpeed measures what exact keys cost. In half of the runs of two workers,
// a hundredth of all URLs is exact. In the other runs, no URL is exact. The two kinds
// of runs alternate. The load of other processes makes a larger difference than the
// keys. So the figures are the ratio of the best runs, and the median of the ratios of
// all pairs. The test checks no limit, because a rate is not a promise.
func TestPostgresSpeed(t *testing.T) {
	if !*proof {
		t.Skip("measures a rate, only with -proof")
	}
	seed := newSeed(t)
	cfg := testweb.Config{Seed: seed, Hosts: 400, Pages: 60_000, Hardships: testweb.None, LargestShare: 0.01}
	none, some := 0.0, 0.0
	var ratios []float64
	for range 7 {
		with, without := exactRate(t, cfg, hundredth), exactRate(t, cfg, "none")
		ratios = append(ratios, with/without)
		some, none = max(some, with), max(none, without)
	}
	slices.Sort(ratios)
	figure(t, "none", "%.0f pages/s", none)
	figure(t, "hundredth", "%.0f pages/s", some)
	figure(t, "ratio", "%.3f of the best runs; run by run %.3f in the middle, %.3f", some/none, ratios[len(ratios)/2], ratios)
}

// exactRate returns the pages per second of two workers with the given rules for
// --exact.
func exactRate(t *testing.T, cfg testweb.Config, rules string) float64 {
	web := serveSite(t, cfg, nil)
	queue := servers.Redis(t, servers.RedisOptions{AppendOnly: true})
	database := servers.Postgres(t, servers.PostgresOptions{FSync: true})
	m := newTeam(t, queue.URL(), rand.New(rand.NewPCG(cfg.Seed, 27)), append(speedFlags(web), "--exact", rules)...)
	m.name = append(m.name, "--postgres", database.DSN())
	m.run(2)
	checkOnce(t, web)
	return pageRate(web)
}
