package fetcher_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// Most tests of crawls run under testing/synctest. Hours take no time, the starts of
// requests are compared to the nanosecond, and a goroutine that outlives Run fails its
// test. Tests that need sockets run in real time.

var _ = flag.Uint64("seed", 0, "replay random tests with this seed") // read by bloomtest.Seed

// dice returns the random number generator of a test and logs its seed, so that the numbers
// can be repeated.
func dice(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(bloomtest.Seed(t), 2))
}

// fewer returns a quarter of n under -short.
func fewer(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// reply is the answer to a request. The zero reply is an empty page.
type reply struct {
	status   int // 0 means 200
	header   map[string]string
	body     string
	contents string        // content type; empty means text/html
	wait     time.Duration // before the answer
	broken   error         // returned instead of an answer
	cut      bool          // the body breaks off
}

func page(body string) reply { return reply{body: body} }

// links returns a page that links to refs.
func links(refs ...string) reply {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><title>links</title>")
	for _, ref := range refs {
		fmt.Fprintf(&b, `<a href="%s">x</a>`, ref)
	}
	return page(b.String())
}

func status(code int) reply { return reply{status: code} }

func redirect(to string) reply {
	return reply{status: http.StatusFound, header: map[string]string{"Location": to}}
}

// call is one request that the wire received.
type call struct {
	url        string
	host       string // without port
	start, end time.Time
	reply      reply
	aborted    bool // by the crawler
}

func (c *call) robots() bool { return strings.HasSuffix(c.url, "/robots.txt") }

var errBroken = errors.New("connection broken")

// wire is a network without sockets. If answer is nil, robots.txt is missing
// and each page is empty.
type wire struct {
	answer func(r *http.Request, url string, try int) (reply, bool)

	mu    sync.Mutex
	calls []*call
	tries map[string]int
}

// pages returns a wire with a fixed answer for each URL.
func pages(answers map[string]reply) *wire {
	return &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
		r, ok := answers[url]
		return r, ok
	}}
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	url := r.URL.Scheme + "://" + r.URL.Host + r.URL.Opaque
	c := &call{url: url, host: r.URL.Hostname(), start: time.Now()}
	w.mu.Lock()
	if w.tries == nil {
		w.tries = map[string]int{}
	}
	try := w.tries[url]
	w.tries[url]++
	w.calls = append(w.calls, c)
	w.mu.Unlock()

	found := false
	var answer reply
	if w.answer != nil {
		answer, found = w.answer(r, url, try)
	}
	switch {
	case found:
	case c.robots():
		answer = status(http.StatusNotFound)
	default:
		answer = reply{}
	}
	err := answer.broken
	if ctxErr := wait(r.Context(), answer.wait); ctxErr != nil {
		err = ctxErr
	}
	w.mu.Lock()
	c.end, c.reply, c.aborted = time.Now(), answer, errors.Is(err, context.Canceled)
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return answer.response(), nil
}

// wait waits for d. If ctx ends first, it returns the error of ctx. If d is 0, it makes
// no timer: under synctest, the race detector of Go 1.26 crashed when two timers without
// a delay fired at the same time.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a reply) response() *http.Response {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if a.contents == "" {
		a.contents = "text/html"
	}
	header := http.Header{"Content-Type": {a.contents}}
	for name, value := range a.header {
		header.Set(name, value)
	}
	var body io.Reader = strings.NewReader(a.body)
	if a.cut {
		body = io.MultiReader(body, brokenReader{})
	}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(body), ContentLength: -1}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

// log returns the calls so far, in the order of their starts.
func (w *wire) log() []call {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []call
	for _, c := range w.calls {
		all = append(all, *c)
	}
	return all
}

// urls returns the requested URLs, in order.
func (w *wire) urls() []string {
	var all []string
	for _, c := range w.log() {
		all = append(all, c.url)
	}
	return all
}

// count returns how many requests for url there were.
func (w *wire) count(url string) (n int) {
	for _, c := range w.log() {
		if c.url == url {
			n++
		}
	}
	return n
}

// sink keeps records, also as JSON, so that tests can check the written form.
type sink struct {
	mu      sync.Mutex
	records []record.Record
	lines   bytes.Buffer
}

func (s *sink) Append(r *record.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, *r)
	line, err := r.AppendLine(nil)
	s.lines.Write(line)
	return err
}

// recordOf returns the record of url. It fails the test unless there is exactly one.
func (s *sink) recordOf(t *testing.T, url string) record.Record {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []record.Record
	for _, r := range s.records {
		if r.URL == url {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d records, want 1", url, len(found))
	}
	return found[0]
}

// world is the environment of a crawl: a wire, a store and records.
type world struct {
	t     testing.TB
	wire  *wire
	store *frontiertest.Memory
	sink  *sink
}

func newWorld(t *testing.T, w *wire) *world { return newWorldOf(t, w, frontiertest.MemoryConfig{}) }

func newWorldOf(t *testing.T, w *wire, cfg frontiertest.MemoryConfig) *world {
	return &world{t: t, wire: w, store: frontiertest.NewMemory(cfg), sink: &sink{}}
}

// config has the fields of fetcher.Config and those of its policy.
type config struct {
	fetcher.Config
	policy.Policy
}

// config returns the config of a worker of this world, with the defaults, and without jitter.
func (w *world) config() config {
	w.t.Helper()
	// HeaderTimeout is longer than the limit of the whole request, so it has no effect. If
	// both limits ended at the same moment, the error would depend on chance.
	client, err := get.New(get.Config{Transport: w.wire, HeaderTimeout: 2 * get.DefaultTimeout, MinRate: get.DefaultMinRate})
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := config{fetcher.Config{Store: w.store, Scope: w.store, Client: client, Sink: w.sink, Grace: 30 * time.Second}, *policy.Default(time.Now())}
	cfg.Politeness = calm()
	return cfg
}

// calm returns the default politeness without jitter.
func calm() politeness.Policy {
	p := politeness.Default()
	p.Jitter = 0
	return p
}

// every returns calm with another delay.
func every(delay time.Duration) politeness.Policy {
	p := calm()
	p.Delay = delay
	return p
}

// impatient returns calm with another delay, and with back-offs and retries of a few milliseconds.
func impatient(delay time.Duration) politeness.Policy {
	p := every(delay)
	p.BackoffBase, p.BackoffMax, p.RetryBase = time.Millisecond, 5*time.Millisecond, time.Millisecond
	return p
}

// newWorker returns a worker whose policy is cfg.Policy, unless cfg.Config has one.
func newWorker(cfg config) (*fetcher.Crawl, error) {
	if cfg.Config.Policy == nil {
		cfg.Config.Policy = policy.NewLive(&cfg.Policy).Load
	}
	return fetcher.New(cfg.Config)
}

func (w *world) worker(cfg config) *fetcher.Crawl {
	w.t.Helper()
	c, err := newWorker(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	c.SetDearTime(time.Hour) // no page of a test is dear because the machine is slow
	return c
}

// crawl crawls from seeds. The test fails unless Run ends with Empty.
func (w *world) crawl(cfg config, seeds ...string) {
	w.t.Helper()
	w.crawlTo(fetcher.Empty, cfg, seeds...)
}

func (w *world) crawlTo(want fetcher.End, cfg config, seeds ...string) {
	w.t.Helper()
	w.crawlWith(w.worker(cfg), want, seeds...)
}

func (w *world) crawlWith(c *fetcher.Crawl, want fetcher.End, seeds ...string) {
	w.t.Helper()
	w.seed(c, seeds...)
	if end, err := c.Run(w.t.Context()); err != nil || end != want {
		w.t.Fatalf("Run ended with %q, %v, want %q", end, err, want)
	}
	w.balanced()
}

func (w *world) seed(c *fetcher.Crawl, seeds ...string) {
	w.t.Helper()
	answers, err := c.Seeds(w.t.Context(), seeds)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range answers {
		if a.Verdict.Answer != frontier.Added {
			w.t.Fatalf("seed %q: verdict %v, error %v, want Added", a.Raw, a.Verdict, a.Err)
		}
	}
}

func (w *world) stats() frontier.Stats {
	w.t.Helper()
	stats, err := w.store.Stats(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return stats
}

// balanced checks that the books, which are the counters of the store, match the content of
// the store and the records (P6 in docs/design/promises.md). It also checks that no URL has
// two records of the same round (P5). A URL that is queued again begins a new round.
func (w *world) balanced() {
	w.t.Helper()
	stats := w.stats()
	if err := stats.Balance(); err != nil {
		w.t.Error(err)
	}
	audit, err := w.store.Audit(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if audit.Queued != stats.Queued || audit.Leased != stats.Leased || audit.Done != stats.Done || audit.Failed != stats.Failed {
		w.t.Errorf("the audit counts %+v, the books have %+v", audit, stats.Books)
	}
	w.sink.mu.Lock()
	defer w.sink.mu.Unlock()
	if got, want := uint64(len(w.sink.records)), stats.Done+stats.Failed-stats.Outcomes[frontier.Stale]; got != want {
		w.t.Errorf("%d records, but %d URLs are done or failed", got, want)
	}
	seen := map[string]bool{}
	for _, r := range w.sink.records {
		key := fmt.Sprintf("%s in round %d", r.URL, r.Round)
		if seen[key] {
			w.t.Errorf("%s is recorded twice", key)
		}
		seen[key] = true
		if r.LinksAdded > r.LinksFound {
			w.t.Errorf("%s: LinksAdded is %d, more than LinksFound, %d", r.URL, r.LinksAdded, r.LinksFound)
		}
	}
}

// slack is how much too early a request may start according to judgeStarts. Between two
// leases, the store keeps the latency of a host only in whole microseconds. So the delay of
// the worker can be a little shorter than the delay that judgeStarts computes.
const slack = 4 * time.Microsecond

// judgeStarts compares the calls with policy: no host was requested before it
// was due. It replays every call through package politeness, independent of
// leases and workers.
func judgeStarts(t testing.TB, calls []call, policy func(host string) politeness.Policy) {
	t.Helper()
	byHost := map[string][]call{}
	for _, c := range calls {
		byHost[c.host] = append(byHost[c.host], c)
	}
	for host, calls := range byHost {
		judgeHost(t, host, calls, politeness.New(policy(host)))
	}
}

// oneMoment is the moment of an answer or of a start.
type oneMoment struct {
	at     time.Time
	answer bool
	call   *call
}

func judgeHost(t testing.TB, host string, calls []call, oracle *politeness.Host) {
	t.Helper()
	var moments []oneMoment
	for i := range calls {
		moments = append(moments, oneMoment{calls[i].start, false, &calls[i]})
		if !calls[i].aborted && !calls[i].end.IsZero() {
			moments = append(moments, oneMoment{calls[i].end, true, &calls[i]})
		}
	}
	slices.SortStableFunc(moments, func(a, b oneMoment) int { return a.at.Compare(b.at) })
	delays := map[string]time.Duration{} // by origin
	var last *call
	for i, m := range moments {
		if m.answer {
			tell(oracle, m.call, delays)
			continue
		}
		wait := oracle.Due(m.at)
		if wait > slack { // an answer at this moment may have shortened the wait
			later := *oracle
			for _, n := range moments[i+1:] {
				if n.at.Equal(m.at) && n.answer && n.call != m.call {
					tell(&later, n.call, delays)
				}
			}
			wait = min(wait, later.Due(m.at))
		}
		if wait > slack {
			t.Errorf("%s: %s started %v too early, %v after %s; delay %v, back-off until %v, %d failures",
				host, m.call.url, wait, m.at.Sub(last.start), last.url, oracle.Delay(), oracle.BackoffUntil(), oracle.Failures())
		}
		oracle.Start(m.at)
		last = m.call
	}
}

// tell passes an answer to oracle, which computes when the host is due.
func tell(oracle *politeness.Host, c *call, delays map[string]time.Duration) {
	never := func() float64 { return 0 }
	if c.reply.broken != nil || c.reply.cut || c.end.Sub(c.start) >= get.DefaultTimeout {
		oracle.Broken(c.end, never)
		return
	}
	code := c.reply.status
	if code == 0 {
		code = http.StatusOK
	}
	oracle.Answered(c.end, c.end.Sub(c.start), code, retryAfterOf(c), never)
	if seconds, found := strings.CutPrefix(c.reply.body, "User-agent: *\nCrawl-delay: "); found && c.robots() {
		delay, err := time.ParseDuration(strings.TrimSpace(seconds) + "s")
		if err != nil {
			panic(err)
		}
		origin, _ := url.Parse(c.url)
		delays[origin.Host] = delay
		longest := time.Duration(0)
		for _, d := range delays {
			longest = max(longest, d)
		}
		oracle.CrawlDelay(longest)
	}
}

func crawlDelay(seconds string) reply {
	return reply{contents: "text/plain", body: "User-agent: *\nCrawl-delay: " + seconds + "\n"}
}

func retryAfterOf(c *call) time.Duration {
	after := c.reply.header["Retry-After"]
	if d, err := time.ParseDuration(after + "s"); err == nil {
		return d
	}
	if at, err := http.ParseTime(after); err == nil {
		return max(0, at.Sub(c.end))
	}
	return 0
}

// same returns a function that returns p for every host.
func same(p politeness.Policy) func(string) politeness.Policy {
	return func(string) politeness.Policy { return p }
}

// anywhere is the scope of crawls that follow every link.
var anywhere = func() policy.Rules {
	rules := policy.DefaultRules(time.Now())
	rules.Scope = canon.ScopeAny
	return rules
}()
