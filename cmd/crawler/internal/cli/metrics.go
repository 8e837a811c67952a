package cli

import (
	"context"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// metrics exports a crawl to Prometheus. The counters of the store are about the whole
// crawl. The counters of the worker are about this process. Each scrape reads all
// counters of the store at one moment. docs/reference/metrics.md lists the metrics.
type metrics struct{ crawl *crawl.Crawl }

// family is one metric.
type family struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

// metricFamilies are all metrics, in the order of docs/reference/metrics.md.
var metricFamilies []family

// newFamily adds a metric to metricFamilies.
func newFamily(kind prometheus.ValueType, name, help string, labels ...string) family {
	f := family{prometheus.NewDesc("crawler_"+name, help, labels, nil), kind}
	metricFamilies = append(metricFamilies, f)
	return f
}

func counter(name, help string, labels ...string) family {
	return newFamily(prometheus.CounterValue, name, help, labels...)
}

func gauge(name, help string, labels ...string) family {
	return newFamily(prometheus.GaugeValue, name, help, labels...)
}

// Metrics of the whole crawl.
var (
	metricFound        = counter("urls_found_total", "URLs that were offered, seeds too: added + seen + refused")
	metricAdded        = counter("urls_added_total", "URLs that were new and queued: the sum of crawler_urls")
	metricSeen         = counter("urls_seen_total", "URLs that were known, or that the filter claimed to know")
	metricRefused      = counter("urls_refused_total", "URLs that a rule refused", "reason")
	metricURLs         = gauge("urls", "URLs that were added, by where they are", "state")
	metricDelayed      = gauge("urls_delayed", "queued URLs that wait for another try")
	metricOutcomes     = counter("outcomes_total", "final answers, of all rounds", "outcome")
	metricPages        = counter("pages_total", "answers that count against --max-pages")
	metricRetries      = counter("retries_total", "URLs queued again after an attempt that failed")
	metricRecords      = counter("records_total", "records written")
	metricHosts        = gauge("hosts", "hosts with queued or leased URLs")
	metricPaused       = gauge("paused", "1 while the crawl is paused")
	metricKeys         = gauge("filter_keys", "URLs in the filter")
	metricCapacity     = gauge("filter_capacity_keys", "URLs that the filter's layers are sized for")
	metricLayers       = gauge("filter_layers", "layers of the filter")
	metricBytes        = gauge("filter_bytes", "size of the filter's bits")
	metricFPR          = gauge("filter_false_positive_ratio", "probability that a new URL is taken for a known one now, from the fill")
	metricShadow       = counter("shadow_urls_total", "URLs of the exact sample, 1 in 1024, by what the filter did with them", "verdict")
	metricRecovered    = counter("recovered_total", "new exact URLs that the filter claimed to contain: false positives that lost nothing")
	metricPromoted     = counter("promoted_total", "exact URLs that the filter claimed to contain and that may have been bulk URLs before: queued once more")
	metricOutbox       = gauge("outbox", "notes that wait for Postgres")
	metricRelayEvents  = gauge("relay_events", "events that a relay has not delivered", "relay", "worker")
	metricRelayBytes   = gauge("relay_bytes", "bytes of the records of events that a relay has not delivered", "relay", "worker")
	metricRelaySeconds = gauge("relay_seconds", "age of the oldest event that a relay has not delivered", "relay", "worker")
	metricRelayDead    = gauge("relay_dead_letters", "events that a sink refused for ever", "relay", "worker")
	metricRelayAway    = gauge("relay_away", "1 while the sink of a relay in this process accepts nothing", "relay", "worker")
)

// Metrics of this process.
var (
	metricRequests = counter("requests_total", "requests made by this process", "for")
	metricErrors   = counter("attempts_failed_total", "attempts of this process that failed, for pages and for robots.txt")
	metricBody     = counter("body_bytes_total", "bytes of bodies as they came to this process")
	metricFinished = counter("finished_total", "URLs that reached an outcome after a request of this process")
	metricLost     = counter("leases_lost_total", "leases that this process lost")
	metricCommits  = counter("store_commits_total", "times that this process committed changes to the embedded store and synced them")
	metricLeases   = gauge("leases", "hosts that this process has leased", "doing")
	metricSlots    = gauge("slots", "hosts that this process can ask at once (--concurrency)")
	metricBlocked  = gauge("blocked", "what waits in this process: requests for --rate, --bandwidth or the addresses of names, completions for the store, hosts for robots.txt", "by")
	metricBuild    = gauge("build", "1, with what this process is", "version", "go")
)

// Describe implements prometheus.Collector.
func (m metrics) Describe(to chan<- *prometheus.Desc) {
	for _, f := range metricFamilies {
		to <- f.Desc
	}
}

// Collect implements prometheus.Collector. If the store does not answer, the scrape
// fails.
func (m metrics) Collect(to chan<- prometheus.Metric) {
	send := func(f family, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(f.Desc, f.kind, value, labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	st, err := m.crawl.Status(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(metricFound.Desc, err)
		return
	}
	sendStats(send, &st.Stats)
	sendRelays(send, st.Relays)
	sendProgress(send, m.crawl.Progress())
	if commits, embedded := m.crawl.Commits(); embedded {
		send(metricCommits, float64(commits))
	}
	send(metricBuild, 1, version(), runtime.Version())
}

func sendStats(send func(family, float64, ...string), stats *frontier.Stats) {
	for _, of := range []struct {
		family
		value uint64
	}{
		{metricFound, stats.Found}, {metricAdded, stats.Added}, {metricSeen, stats.Seen}, {metricDelayed, stats.Delayed},
		{metricPages, stats.Pages}, {metricRetries, stats.Retries}, {metricRecords, stats.Records}, {metricHosts, stats.Hosts},
		{metricKeys, stats.Filter.Keys}, {metricCapacity, stats.Filter.Capacity}, {metricLayers, uint64(stats.Filter.Layers)},
		{metricBytes, stats.Filter.Bytes}, {metricRecovered, stats.Recovered},
		{metricPromoted, stats.Promoted}, {metricOutbox, stats.Outbox},
	} {
		send(of.family, float64(of.value))
	}
	for state, n := range map[frontier.State]uint64{
		frontier.Queued: stats.Queued, frontier.Leased: stats.Leased, frontier.Done: stats.Done, frontier.Failed: stats.Failed,
	} {
		send(metricURLs, float64(n), string(state))
	}
	for reason, n := range stats.Refused {
		send(metricRefused, float64(n), string(reason))
	}
	for outcome, n := range stats.Outcomes {
		send(metricOutcomes, float64(n), string(outcome))
	}
	for verdict, n := range map[string]uint64{
		"new": stats.Shadow.New, "lost": stats.Shadow.Lost, "forgotten": stats.Shadow.Forgotten,
	} {
		send(metricShadow, float64(n), verdict)
	}
	paused := 0.0
	if stats.Paused {
		paused = 1
	}
	send(metricPaused, paused)
	send(metricFPR, stats.Filter.FPR)
}

// sendRelays sends the lag of each relay, if the lag is known.
func sendRelays(send func(family, float64, ...string), relays []report.Relay) {
	for _, r := range relays {
		if r.Fault != "" {
			continue
		}
		away := 0.0
		if r.Away != "" {
			away = 1
		}
		send(metricRelayEvents, float64(r.Events), r.Name, r.Worker)
		send(metricRelayBytes, float64(r.Bytes), r.Name, r.Worker)
		send(metricRelaySeconds, r.Seconds, r.Name, r.Worker)
		send(metricRelayDead, float64(r.Dead), r.Name, r.Worker)
		send(metricRelayAway, away, r.Name, r.Worker)
	}
}

func sendProgress(send func(family, float64, ...string), p fetcher.Progress) {
	send(metricRequests, float64(p.Requests), "page")
	send(metricRequests, float64(p.Robots), "robots")
	send(metricErrors, float64(p.Errors))
	send(metricBody, float64(p.Bytes))
	send(metricFinished, float64(p.Finished))
	send(metricLost, float64(p.LeasesLost))
	send(metricLeases, float64(p.Waiting), "waiting")
	send(metricLeases, float64(p.Late), "late")
	send(metricLeases, float64(p.Hosts-p.Waiting-int64(p.Late)), "working")
	send(metricSlots, float64(p.Slots))
	send(metricBlocked, float64(p.Paying), "rate")
	send(metricBlocked, float64(p.Overdrawn), "bandwidth")
	send(metricBlocked, float64(p.Storing), "store")
	send(metricBlocked, float64(p.Ruling), "robots")
	send(metricBlocked, float64(p.LookUps), "names")
}
