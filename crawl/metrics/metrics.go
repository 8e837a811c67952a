// Package metrics exports the counters of a crawl to Prometheus, and its health.
//
// It owns the names and descriptions of the metrics, and the paths that monitoring asks for.
// It does not listen, and does not decide who may ask. docs/reference/metrics.md lists the
// metrics and the paths.
package metrics

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// Handler serves /metrics, /healthz and /readyz for a crawl that this process runs. /metrics
// also has the metrics of Go's runtime and of the process. /healthz fails after a write to the
// store has failed. /readyz fails if the crawl is stopping or its store does not answer.
func Handler(c *crawl.Crawl) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(c), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		health(w, c.Err())
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, request *http.Request) {
		select {
		case <-c.Stopping():
			health(w, fmt.Errorf("stopping: %w", c.StoppedBy()))
			return
		default:
		}
		ctx, cancel := context.WithTimeout(request.Context(), answerTime)
		defer cancel()
		health(w, c.Ready(ctx))
	})
	return mux
}

func health(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

func newRegistry(c *crawl.Crawl) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	// The additional metrics are the share of the processor time that garbage collection takes.
	runtimeMetrics := collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/cpu/classes/(total|idle|gc/total):`)})
	registry.MustRegister(collectors.NewGoCollector(runtimeMetrics),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collector{c, new(top)})
	return registry
}

// collector implements prometheus.Collector for a crawl. The counters of the store are about
// the whole crawl. The counters of the worker are about this process. Each scrape reads all
// counters of the store at one moment.
type collector struct {
	crawl *crawl.Crawl
	top   *top
}

// answerTime is how long a request waits for an answer of the store.
const answerTime = 5 * time.Second

// family is one metric.
type family struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

// families are all metrics, in the order of docs/reference/metrics.md.
var families []family

// newFamily adds a metric to families.
func newFamily(kind prometheus.ValueType, name, help string, labels ...string) family {
	f := family{prometheus.NewDesc("crawler_"+name, help, labels, nil), kind}
	families = append(families, f)
	return f
}

func counter(name, help string, labels ...string) family {
	return newFamily(prometheus.CounterValue, name, help, labels...)
}

// histogram is the kind of families that are sent with sendHistogram.
const histogram = prometheus.UntypedValue

func gauge(name, help string, labels ...string) family {
	return newFamily(prometheus.GaugeValue, name, help, labels...)
}

// Metrics of the whole crawl.
var (
	found        = counter("urls_found_total", "URLs that were offered, seeds too: added + seen + refused")
	added        = counter("urls_added_total", "URLs that were new and queued: the sum of crawler_urls")
	seen         = counter("urls_seen_total", "URLs that were known, or that the filter claimed to know")
	refused      = counter("urls_refused_total", "URLs that a rule refused", "reason")
	urls         = gauge("urls", "URLs that were added, by where they are", "state")
	delayed      = gauge("urls_delayed", "queued URLs that wait for another try")
	outcomes     = counter("outcomes_total", "final answers, of all rounds", "outcome")
	causes       = counter("errors_total", "attempts that failed, and URLs that failed without one", "cause")
	pages        = counter("pages_total", "answers that count against --max-pages")
	retries      = counter("retries_total", "URLs queued again after an attempt that failed")
	records      = counter("records_total", "records written")
	hosts        = gauge("hosts", "hosts with queued or leased URLs")
	hostsWaiting = gauge("hosts_waiting", "hosts with queued or leased URLs by what they wait for; of many hosts, only of those that are due first", "for")
	limitedBy    = gauge("limited_by", "1 for what limits the crawl now", "kind")
	paused       = gauge("paused", "1 while the crawl is paused")
	pauses       = gauge("pause_rules", "rules of crawler pause that hold for hosts or URLs")
	keys         = gauge("filter_keys", "URLs in the filter")
	capacity     = gauge("filter_capacity_keys", "URLs that the filter's layers are sized for")
	layers       = gauge("filter_layers", "layers of the filter")
	bytes        = gauge("filter_bytes", "size of the filter's bits")
	fpr          = gauge("filter_false_positive_ratio", "probability that a new URL is taken for a known one now, from the fill")
	shadow       = counter("shadow_urls_total", "URLs of the exact sample, 1 in 1024, by what the filter did with them", "verdict")
	recovered    = counter("recovered_total", "new exact URLs that the filter claimed to contain: false positives that lost nothing")
	promoted     = counter("promoted_total", "exact URLs that the filter claimed to contain and that may have been bulk URLs before: queued once more")
	notTaken     = counter("data_not_taken_total", "finished pages whose fields and text were not taken, with the runs of earlier processes in this directory", "reason")
	exactDue     = gauge("exact_due", "expired keys of exact URLs that wait for their deletion")
	exactLag     = gauge("exact_due_seconds", "how long the oldest of them has waited")
	visitPages   = gauge("visits_known", "pages that are remembered for --recrawl")
	visitGone    = gauge("visits_gone", "of them, those that are gone")
	visitDue     = gauge("visits_due", "pages that are due and not queued yet, up to 100,000")
	visitQueued  = gauge("visits_queued", "pages that wait in the queue for a visit after the first one")
	visitFresh   = gauge("visits_fresh", "estimated share of the pages that is up to date, if all are visited when they are due")
	visitMeasure = gauge("visits_measured_fresh", "share of the pages that was up to date when they were visited at random moments")
	visitLate    = gauge("visits_late_seconds", "mean time from when a page was due until its visit")
	visitsSlow   = gauge("visits_slow_hosts", "hosts whose delay does not allow the visits that their pages want, of the 20 that want the most")
	visitsDone   = counter("visits_total", "visits of pages after the first one")
	visitsSame   = counter("visits_unchanged_total", "of them, those that found the same text")
	relayEvents  = gauge("relay_events", "events that a relay has not delivered", "relay", "worker")
	relayBytes   = gauge("relay_bytes", "bytes of the records of events that a relay has not delivered", "relay", "worker")
	relaySeconds = gauge("relay_seconds", "age of the oldest event that a relay has not delivered", "relay", "worker")
	relayDead    = gauge("relay_dead_letters", "events that a sink refused for ever", "relay", "worker")
	relayLeft    = gauge("relay_left", "1 while no process delivers the events of a relay, although some are perhaps not delivered", "relay", "worker")
	relayAway    = gauge("relay_away", "1 while the sink of a relay in this process accepts nothing", "relay", "worker")
)

// Metrics of this process.
var (
	requests = counter("requests_total", "requests made by this process", "for")
	answers  = counter("answers_total", "requests of this process for pages, by the class of the answer's status", "status")
	latency  = newFamily(histogram, "latency_seconds", "time from a request of this process for a page to the header of its answer")
	sizes    = newFamily(histogram, "page_bytes", "bytes of bodies of answers to this process, decompressed")
	topQueue = gauge("host_queued", "queued URLs of the ten hosts with most of them; looked up once a minute, in crawls of at most 100,000 hosts", "host")
	topError = gauge("host_errors", "failed attempts of this process at the ten hosts with most of them", "host")
	errors   = counter("attempts_failed_total", "attempts of this process that failed, for pages and for robots.txt")
	body     = counter("body_bytes_total", "bytes of bodies as they came to this process")
	finished = counter("finished_total", "URLs that reached an outcome after a request of this process")
	lost     = counter("leases_lost_total", "leases that this process lost")
	commits  = counter("store_commits_total", "times that this process committed changes to the embedded store and synced them")
	leases   = gauge("leases", "hosts that this process has leased", "doing")
	slots    = gauge("slots", "hosts that this process can ask at once (--concurrency)")
	blocked  = gauge("blocked", "what waits in this process: requests for --rate, --bandwidth or the addresses of names, completions for the store, hosts for robots.txt", "by")
	build    = gauge("build", "1, with what this process is", "version", "go")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range families {
		to <- f.Desc
	}
}

// Collect implements prometheus.Collector. If the store does not answer, the scrape
// fails.
func (c collector) Collect(to chan<- prometheus.Metric) {
	send := func(f family, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(f.Desc, f.kind, value, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	st, err := c.crawl.Status(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(found.Desc, err)
		return
	}
	sendStats(send, &st.Stats)
	send(pauses, float64(len(st.Pauses)))
	for _, w := range report.AllWaits() {
		if st.Waits != nil {
			send(hostsWaiting, float64(st.Waits.By[w].Hosts), string(w))
		}
	}
	for _, kind := range report.Kinds {
		is := 0.0
		if kind == st.Kind {
			is = 1
		}
		send(limitedBy, is, string(kind))
	}
	sendExact(send, st.Stats.Expired, st.Exact)
	if v := st.Visits; v != nil {
		send(visitPages, float64(v.Pages))
		send(visitGone, float64(v.Gone))
		send(visitDue, float64(v.Due))
		send(visitQueued, float64(v.Queued))
		send(visitFresh, v.Fresh)
		if v.Sampled > 0 {
			send(visitMeasure, v.Measured)
		}
		send(visitLate, v.MeanLate)
		send(visitsSlow, float64(len(v.TooSlow)))
		send(visitsDone, float64(v.Visits))
		send(visitsSame, float64(v.Unchanged))
	}
	sendRelays(send, st.Relays)
	for _, c := range st.NotTaken {
		send(notTaken, float64(c.Count), c.Cause)
	}
	sendProgress(send, c.crawl.Progress())
	m := c.crawl.Meters()
	for class, n := range m.Answers {
		send(answers, float64(n), [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"}[class])
	}
	sendHistogram(to, latency, &m.Latency)
	sendHistogram(to, sizes, &m.Bytes)
	for _, h := range c.top.queued(ctx, c.crawl, st.Stats.Hosts) {
		send(topQueue, float64(h.Queued), h.Host)
	}
	for _, h := range c.crawl.FailedHosts(topHosts) {
		send(topError, float64(h.Count), h.Host)
	}
	if n, embedded := c.crawl.Commits(); embedded {
		send(commits, float64(n))
	}
	send(build, 1, crawl.Version(), runtime.Version())
}

// sendExact sends the gauges of expired exact keys: those of the store, or of the exact set in Postgres if it was counted.
func sendExact(send func(family, float64, ...string), stored frontier.Expired, keys *report.ExactKeys) {
	switch {
	case keys == nil:
		send(exactDue, float64(stored.Due))
		send(exactLag, stored.Lag.Seconds())
	case keys.Fault == "":
		send(exactDue, float64(keys.Due))
		send(exactLag, keys.Lag)
	}
}

func sendHistogram(to chan<- prometheus.Metric, f family, h *fetcher.Histogram) {
	last := len(h.Bounds)
	buckets := make(map[float64]uint64, last)
	for i, bound := range h.Bounds {
		buckets[bound] = h.Counts[i]
	}
	to <- prometheus.MustNewConstHistogram(f.Desc, h.Counts[last], h.Sum, buckets)
}

// top remembers the hosts with most queued URLs. To find them, the rows of all hosts are read.
type top struct {
	mu    sync.Mutex
	hosts []report.Host
	until time.Time
}

const (
	topHosts    = 10
	topTime     = time.Minute // between two looks
	topMost     = 100_000     // hosts beyond which nothing is looked up
	topPatience = time.Second // a look that takes longer is given up
)

func (t *top) queued(ctx context.Context, c *crawl.Crawl, hosts uint64) []report.Host {
	t.mu.Lock()
	defer t.mu.Unlock()
	if hosts > topMost {
		return nil
	}
	if now := time.Now(); now.After(t.until) {
		t.until, t.hosts = now.Add(topTime), nil
		ctx, cancel := context.WithTimeout(ctx, topPatience)
		defer cancel()
		all, err := c.Hosts(ctx, crawl.HostQuery{Sort: "queued", Most: topHosts})
		if err != nil {
			return nil // there are too many hosts, some of them finished, or the store is slow
		}
		for _, h := range all.Hosts {
			if h.Queued > 0 {
				t.hosts = append(t.hosts, h)
			}
		}
	}
	return t.hosts
}

func sendStats(send func(family, float64, ...string), stats *frontier.Stats) {
	for _, of := range []struct {
		family
		value uint64
	}{
		{found, stats.Found}, {added, stats.Added}, {seen, stats.Seen}, {delayed, stats.Delayed},
		{pages, stats.Pages}, {retries, stats.Retries}, {records, stats.Records}, {hosts, stats.Hosts},
		{keys, stats.Filter.Keys}, {capacity, stats.Filter.Capacity}, {layers, uint64(stats.Filter.Layers)},
		{bytes, stats.Filter.Bytes}, {recovered, stats.Recovered},
		{promoted, stats.Promoted},
	} {
		send(of.family, float64(of.value))
	}
	for state, n := range map[frontier.State]uint64{
		frontier.Queued: stats.Queued, frontier.Leased: stats.Leased, frontier.Done: stats.Done, frontier.Failed: stats.Failed,
	} {
		send(urls, float64(n), string(state))
	}
	for reason, n := range stats.Refused {
		send(refused, float64(n), string(reason))
	}
	for outcome, n := range stats.Outcomes {
		send(outcomes, float64(n), string(outcome))
	}
	for cause, n := range stats.Causes {
		send(causes, float64(n), cause)
	}
	for verdict, n := range map[string]uint64{
		"new": stats.Shadow.New, "lost": stats.Shadow.Lost, "forgotten": stats.Shadow.Forgotten,
	} {
		send(shadow, float64(n), verdict)
	}
	isPaused := 0.0
	if stats.Paused {
		isPaused = 1
	}
	send(paused, isPaused)
	send(fpr, stats.Filter.FPR)
}

// sendRelays sends the lag of each relay, if the lag is known.
func sendRelays(send func(family, float64, ...string), relays []report.RelayStatus) {
	sent := make(map[string]bool)
	for _, r := range relays {
		if r.Fault != "" {
			continue
		}
		if sent[r.Title()] { // directories of several machines can have the same name
			r.Worker += " " + r.Journal
		}
		sent[r.Title()] = true
		away := 0.0
		if r.Away != "" {
			away = 1
		}
		send(relayEvents, float64(r.Events), r.Name, r.Worker)
		send(relayBytes, float64(r.Bytes), r.Name, r.Worker)
		send(relaySeconds, r.Seconds, r.Name, r.Worker)
		send(relayDead, float64(r.Dead), r.Name, r.Worker)
		send(relayAway, away, r.Name, r.Worker)
		left := 0.0
		if r.Left && !r.GivenUp {
			left = 1
		}
		send(relayLeft, left, r.Name, r.Worker)
	}
}

func sendProgress(send func(family, float64, ...string), p fetcher.Progress) {
	send(requests, float64(p.Requests), "page")
	send(requests, float64(p.Robots), "robots")
	send(errors, float64(p.Errors))
	send(body, float64(p.Bytes))
	send(finished, float64(p.Finished))
	send(lost, float64(p.LeasesLost))
	send(leases, float64(p.Parked), "waiting")
	send(leases, float64(p.Late), "late")
	send(leases, float64(p.Held-p.Parked-p.Late), "working")
	send(slots, float64(p.Slots))
	send(blocked, float64(p.RateWaiting), "rate")
	send(blocked, float64(p.BandwidthWaiting), "bandwidth")
	send(blocked, float64(p.StoreWaiting), "store")
	send(blocked, float64(p.RobotsWaiting), "robots")
	send(blocked, float64(p.NamesWaiting), "names")
}
