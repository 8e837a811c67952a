package proofs

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/resolve/resolvetest"
)

// TestNamesShort crawls many hosts while the name server is slow, or refuses to answer,
// for some time. After that the crawl must continue and fetch every page. The crawl's
// report must name what limited the crawl: report.Names if the name server was slow, and
// report.Machine if it refused to answer.
func TestNamesShort(t *testing.T) {
	t.Parallel()
	slow, lasts := sized(time.Second, 3*time.Second), sized(3*time.Second, 30*time.Second)
	for _, test := range []struct {
		name  string
		limit report.Kind
		cause func(*dnsWeb) (over func())
	}{
		{"slow_names", report.Names, func(web *dnsWeb) func() {
			web.names.Delay(slow)
			return func() { web.names.Delay(0) }
		}},
		{"no_names", report.Machine, func(web *dnsWeb) func() {
			web.names.Refuse(true)
			return func() { web.names.Refuse(false) }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			web := serveNamed(t, sized(400, 10_000))
			c := newCrawl(t, web.url(0), "--scope", "any", "--delay", "100ms", "--domain-rate", "0", "--concurrency", "64", "--dns", web.names.Addr, "--allow-net", "127.0.0.1/32",
				"--log-level", "info")
			p := c.start()
			if err := await(t.Context(), web.early); err != nil {
				t.Fatal(err)
			}
			over := test.cause(web)
			before := web.requests.Load()
			time.Sleep(lasts)
			during := web.requests.Load() - before
			over()
			if e := p.wait(); e.code != 0 {
				t.Fatalf("exit code %d, want 0; stderr:\n%s", e.code, e.stderr)
			}

			share := web.judge(t, c, test.limit)
			figure(t, test.name, "for %v, in which %d requests were made; limit %s for %.0f %% of the run", lasts, during, test.limit, 100*share)
		})
	}
}

// TestLateNames crawls many hosts with a name server that takes 100 ms for each answer.
// The crawl must fetch every page. The measured number of hosts per second shows whether
// the look-up of one name delays other hosts.
func TestLateNames(t *testing.T) {
	t.Parallel()
	web := serveNamed(t, sized(400, 10_000))
	web.names.Delay(100 * time.Millisecond)
	c := newCrawl(t, web.url(0), "--scope", "any", "--delay", "100ms", "--domain-rate", "0", "--dns", web.names.Addr, "--allow-net", "127.0.0.1/32")
	began := time.Now()
	c.finish()
	took := time.Since(began)
	lines := parse(t, records(t, c.dir))
	if len(lines) != web.hosts {
		t.Errorf("%d records, want %d", len(lines), web.hosts)
	}
	figure(t, "late_names", "%d hosts in %v, %.0f/s", len(lines), took.Round(100*time.Millisecond), float64(len(lines))/took.Seconds())
}

// TestDescriptorsShort checks a crawl that can open only few files. It must fetch every
// page, and its report must name report.Descriptors as a limit.
func TestDescriptorsShort(t *testing.T) {
	t.Parallel()
	web := serveNamed(t, sized(600, 10_000))
	web.late = 300 * time.Millisecond
	c := newCrawl(t, web.url(0), "--scope", "any", "--delay", "100ms", "--domain-rate", "0", "--dns", web.names.Addr, "--allow-net", "127.0.0.1/32")
	p := command(t, "/bin/sh", slices.Concat([]string{"-c", `ulimit -n 160; exec "$0" "$@"`, c.bin, "crawl", "--dir", c.dir}, c.args)...)
	if e := p.wait(); e.code != 0 {
		t.Fatalf("exit code %d, want 0; stderr:\n%s", e.code, e.stderr)
	}
	share := web.judge(t, c, report.Descriptors)
	figure(t, "descriptors", "160; they limited %.0f %% of the run", 100*share)
}

// judge checks that c fetched every page, and that the report of c contains the given
// limit. It returns the share of the run in which this limit applied.
func (n *dnsWeb) judge(t *testing.T, c *crawl, limited report.Kind) (share float64) {
	t.Helper()
	lines := parse(t, records(t, c.dir))
	for _, l := range lines {
		if l.Outcome != "ok" {
			t.Errorf("%s has outcome %s, want ok", l.URL, l.Outcome)
		}
	}
	if len(lines) != n.hosts {
		t.Errorf("%d records, want %d", len(lines), n.hosts)
	}
	e := command(t, c.bin, "report", "--json", "--dir", c.dir).wait()
	var account report.Report
	if err := json.Unmarshal([]byte(e.stdout), &account); err != nil {
		t.Fatal(err)
	}
	for _, l := range account.Limits {
		if l.Kind == limited {
			share = l.Share
		}
	}
	if share == 0 {
		t.Errorf("the report has the limits %v, want %s among them", account.Limits, limited)
	}
	return share
}

// dnsWeb is a web of hosts with one page each, and a name server for their names. The
// page of a host links to the pages of two other hosts.
type dnsWeb struct {
	hosts    int
	port     string
	names    *resolvetest.Server
	early    chan struct{} // closed after requests for a quarter of the pages
	late     time.Duration // the latency of each answer
	requests atomic.Int64
}

func (n *dnsWeb) url(host int) string { return fmt.Sprintf("http://h%d.names.test:%s/", host, n.port) }

func serveNamed(t *testing.T, hosts int) *dnsWeb {
	t.Helper()
	n := &dnsWeb{hosts: hosts, early: make(chan struct{})}
	early := sync.OnceFunc(func() { close(n.early) })
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var host int
		if _, err := fmt.Sscanf(r.Host, "h%d.", &host); err != nil || r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		if n.requests.Add(1) >= int64(hosts/4) {
			early()
		}
		time.Sleep(n.late)
		w.Header().Set("Content-Type", "text/html")
		for next := 2*host + 1; next <= 2*host+2 && next < hosts; next++ {
			_, _ = fmt.Fprintf(w, "<a href=%q>%d</a>\n", n.url(next), next)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Start()
	t.Cleanup(server.Close)
	_, n.port, _ = net.SplitHostPort(server.Listener.Addr().String())

	address := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	n.names = resolvetest.Serve(t, func(name string, _ int) []netip.Addr {
		if !strings.HasSuffix(name, ".names.test") {
			return nil
		}
		return address
	})
	return n
}
