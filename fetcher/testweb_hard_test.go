package fetcher_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// wireOnly are the hardships (difficulties for crawlers, see package testweb) that need
// sockets, because the network code enforces the limits of headers, look-ups and addresses.
const wireOnly = testweb.Headers | testweb.Addresses

// corners returns a test web with few pages and the hardships of set. These hardships add
// hosts to the web, which are called corners (see package testweb).
func corners(t *testing.T, set testweb.Hardships, canary int) *testweb.Web {
	t.Helper()
	web, err := testweb.New(testweb.Config{
		Seed: dice(t).Uint64(), Hosts: 5, Pages: 50, Hardships: set, MeanBytes: 1500, MaxBodyBytes: 256 << 10,
		Year: max(time.Now().Year(), 2026), CanaryPort: canary, KeepLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return web
}

// withoutLong removes those hardships from set that take the longest, under -short.
func withoutLong(set testweb.Hardships) testweb.Hardships {
	if testing.Short() {
		return set &^ testweb.LargeSitemaps
	}
	return set
}

// TestCorners crawls every corner of the test web (see the function corners) that needs no
// sockets. Under -short, only the crawl with little memory reads large sitemaps.
func TestCorners(t *testing.T) {
	t.Parallel()
	all := testweb.Everything &^ wireOnly
	for name, c := range map[string]struct {
		set    testweb.Hardships
		change func(*config)
	}{
		"defaults":            {withoutLong(all), func(*config) {}},
		"concurrent requests": {withoutLong(all), func(c *config) { c.HostConcurrency = 4 }},
		"little memory":       {all, func(c *config) { c.Memory = 3 * fetcher.LeastMemory(c.Client) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				web := corners(t, c.set, 0)
				w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Second})
				cfg := w.cornerConfig(web)
				c.change(&cfg)
				w.crawl(cfg, web.Seeds()...)
				judge(t, w, web, testweb.Manners{Delay: time.Second, Tolerance: time.Nanosecond})
			})
		})
	}
}

// cornerConfig returns the config of a worker that crawls web without sockets.
func (w *world) cornerConfig(web *testweb.Web) config {
	cfg := w.config()
	cfg.Client = clientOf(w.t, get.Config{Transport: streamWire{web.Handler()}, MaxBodyBytes: 256 << 10})
	cfg.Rules, cfg.Sitemaps = anywhere, true
	return cfg
}

// TestCornersByTwoWorkers: two workers crawl the corners with one store, whose leases are
// short and whose calls sometimes fail. The records are complete and the delays are kept.
func TestCornersByTwoWorkers(t *testing.T) {
	t.Parallel()
	rng := dice(t)
	synctest.Test(t, func(t *testing.T) {
		// MovedRobots is left out: if a robots.txt redirects to a host of another worker,
		// the request does not keep that host's delay (docs/reference/web-policy.md).
		web := corners(t, withoutLong(testweb.Everything&^wireOnly&^testweb.MovedRobots), 0)
		w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Second, LeaseTTL: 20 * time.Second})
		cfg := w.cornerConfig(web)
		w.seed(w.worker(cfg), web.Seeds()...)
		faults := frontiertest.Random(rng.Uint64(), 0.02, 100*time.Millisecond)
		cfg.Store = frontiertest.NewFaulty(w.store, func(op frontiertest.Op, call int) frontiertest.Fault {
			f := faults(op, call)
			if f.Err == frontier.ErrFull { // a full store would refuse sitemaps, and their pages would not be found
				f.Err = frontier.ErrUnavailable
			}
			return f
		})
		w.crawlByTwo(cfg, web)
	})
}

func clientOf(t testing.TB, cfg get.Config) *get.Client {
	t.Helper()
	cfg.MinRate = get.DefaultMinRate
	client, err := get.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// judge checks a crawl of web: its records, the delays between its requests, and the number
// of refused URLs.
func judge(t *testing.T, w *world, web *testweb.Web, promised testweb.Manners) {
	t.Helper()
	report, err := web.Compare(&w.sink.lines)
	if err == nil {
		err = report.Err()
	}
	if err != nil {
		t.Errorf("records: %v", err)
	}
	verdict := web.Judge(web.Log(), promised)
	if err := verdict.Err(); err != nil {
		t.Errorf("manners: %v", err)
	}
	refused := map[string]uint64{}
	for reason, n := range w.stats().Refused {
		refused[string(reason)] = n
	}
	if err := web.CompareRefused(refused); err != nil {
		t.Errorf("refused: %v", err)
	}
	if verdict.Refetched > 0 {
		t.Errorf("%d requests were repeated without need, want 0", verdict.Refetched)
	}
	t.Logf("%d records; %d expected, %d more optional; %d requests, outcomes %v, refused %v",
		report.Records, report.Expected, report.Optional, verdict.Requests, report.Outcomes, refused)
}

// TestFullStoreRefusesSitemaps: if the store is full, the crawl continues without sitemaps.
func TestFullStoreRefusesSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/robots.txt": {contents: "text/plain", body: "Sitemap: http://a.test/map.xml\n"},
			"http://a.test/":           links("/b"),
		}))
		cfg := w.config()
		cfg.Sitemaps = true
		w.seed(w.worker(cfg), "http://a.test/")
		cfg.Store = frontiertest.NewFaulty(w.store, frontiertest.Script(map[frontiertest.Op][]frontiertest.Fault{
			frontiertest.OpAdd: {{Err: frontier.ErrFull}},
		}))
		if end, err := w.worker(cfg).Run(t.Context()); err != nil || end != fetcher.Empty {
			t.Errorf("Run ended with %q, %v, want %q", end, err, fetcher.Empty)
		}
		w.sink.recordOf(t, "http://a.test/b")
		if n := w.wire.count("http://a.test/map.xml"); n > 0 {
			t.Errorf("a sitemap that was refused was requested %d times, want never", n)
		}
	})
}

// streamWire answers by calling a handler and passes the body on while the
// handler writes it. The body may be endless.
type streamWire struct{ handler http.Handler }

func (s streamWire) RoundTrip(r *http.Request) (*http.Response, error) {
	in := httptest.NewRequestWithContext(r.Context(), http.MethodGet, "http://"+r.URL.Host+"/", nil)
	in.RequestURI, in.Header, in.RemoteAddr = r.URL.Opaque, r.Header, ""
	ctx, hangUp := context.WithCancel(r.Context())
	in = in.WithContext(ctx)
	body, writer := io.Pipe()
	out := &streamed{header: http.Header{}, body: writer, began: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() {
			if recover() != nil || r.Context().Err() != nil {
				out.fault = errBroken
			} else {
				out.WriteHeader(http.StatusOK)
			}
			out.begin()
			_ = writer.CloseWithError(out.fault) // nil ends the body without an error
		}()
		s.handler.ServeHTTP(out, in)
	}()
	<-out.began
	if out.status == 0 {
		hangUp()
		<-ended
		return nil, errBroken
	}
	length, err := strconv.ParseInt(out.sent.Get("Content-Length"), 10, 64)
	if err != nil {
		length = -1
	}
	return &http.Response{
		StatusCode: out.status, Header: out.sent, ContentLength: length,
		Body: hanging{body, func() { hangUp(); _ = body.Close(); <-ended }},
	}, nil
}

// streamed is a ResponseWriter that writes into a pipe.
type streamed struct {
	header, sent http.Header
	status       int
	body         *io.PipeWriter
	fault        error
	once         sync.Once
	began        chan struct{} // closed when status is known
}

func (s *streamed) begin() { s.once.Do(func() { close(s.began) }) }

func (s *streamed) Header() http.Header { return s.header }
func (s *streamed) Flush()              {}

func (s *streamed) WriteHeader(status int) {
	if s.status == 0 {
		s.status, s.sent = status, s.header.Clone()
		s.begin()
	}
}

func (s *streamed) Write(b []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return s.body.Write(b)
}

// hanging is a body whose Close ends the handler that writes the body.
type hanging struct {
	io.Reader
	hangUp func()
}

func (h hanging) Close() error {
	h.hangUp()
	return nil
}

// TestCornersOnTheWire crawls over sockets. It visits the corners that need sockets (those
// with floods of headers, look-ups of names and forbidden addresses) and some others.
func TestCornersOnTheWire(t *testing.T) {
	t.Parallel()
	canaries, err := testweb.ListenCanaries()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := canaries.Close(); err != nil {
			t.Error(err)
		}
	})
	web := corners(t, withoutLong(wireOnly|testweb.Sitemaps|testweb.LargeSitemaps|testweb.Bombs|testweb.Codings), canaries.Port)
	server, names := serve(t, web, canaries.Harmless)
	w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: 5 * time.Millisecond})
	cfg := w.config()
	cfg.Client = clientOf(t, get.Config{
		MaxBodyBytes: 256 << 10, DNS: names, AllowNet: []netip.Prefix{netip.MustParsePrefix("127.8.0.1/32")},
		ConnectTo: []get.Rule{connectTo(t, "*.test="+server), connectTo(t, "*.example="+server)},
	})
	cfg.Rules, cfg.Sitemaps = anywhere, true
	cfg.Politeness = impatient(5 * time.Millisecond)
	w.crawl(cfg, web.Seeds()...)
	judge(t, w, web, testweb.Manners{})
	if err := canaries.Err(); err != nil {
		t.Error(err)
	}
	asked := map[string]int{}
	for l := range web.Lookups() {
		asked[l.Name]++
	}
	for _, name := range []string{"loopback.addresses.invalid", "rebound.addresses.invalid", "nat64.addresses.invalid"} {
		if asked[name] == 0 {
			t.Errorf("%s was never looked up, so its addresses did not test the guard", name)
		}
	}
}

// serve starts a web server for web and a name server for its names, and returns their
// addresses. It also serves web at the listener harmless, unless that is nil.
func serve(t *testing.T, web *testweb.Web, harmless net.Listener) (server, names string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	t.Cleanup(func() {
		stop()
		serving.Wait()
	})
	run := func(serve func() error) {
		serving.Go(func() {
			if err := serve(); err != nil {
				t.Error(err)
			}
		})
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	run(func() error { return web.Serve(ctx, listener) })
	if harmless != nil {
		run(func() error { return web.Serve(ctx, harmless) })
	}
	conn, err := testweb.ListenDNS(ctx)
	if err != nil {
		t.Fatal(err)
	}
	run(func() error { return web.ServeDNS(ctx, conn) })
	return listener.Addr().String(), conn.LocalAddr().String()
}

func connectTo(t *testing.T, rule string) get.Rule {
	t.Helper()
	r, err := get.ParseConnectTo(rule)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
