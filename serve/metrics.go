package serve

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the numbers of a Server for Prometheus. docs/reference/api.md lists them.
type metrics struct {
	server   *Server
	registry *prometheus.Registry
	changes  *prometheus.CounterVec
}

var (
	crawlsDesc = prometheus.NewDesc("crawler_serve_crawls", "Crawls by their state.", []string{"state"}, nil)
	lagDesc    = prometheus.NewDesc("crawler_serve_sweep_lag_seconds", "Time since the oldest stored answer that is not deleted yet has expired.", nil, nil)
)

func newMetrics(s *Server) *metrics {
	m := &metrics{s, prometheus.NewRegistry(), prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "crawler_serve_changes_total", Help: "Requests that wanted to change something, by the status of their answer.",
	}, []string{"status", "replayed"})}
	m.registry.MustRegister(m, m.changes)
	return m
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(descs chan<- *prometheus.Desc) {
	descs <- crawlsDesc
	descs <- lagDesc
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(all chan<- prometheus.Metric) {
	counts := map[State]int{Waiting: 0, Running: 0, Finished: 0, Stopped: 0, Failed: 0}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, c := range m.server.fleet.summaries(ctx) {
		counts[c.State]++
	}
	for state, n := range counts {
		all <- prometheus.MustNewConstMetric(crawlsDesc, prometheus.GaugeValue, float64(n), string(state))
	}
	if stats, err := m.server.answers.Stats(ctx); err == nil {
		all <- prometheus.MustNewConstMetric(lagDesc, prometheus.GaugeValue, stats.SweepLag.Seconds())
	}
}

// count counts an answer to a request that wanted to change something.
func (m *metrics) count(status int, replayed bool) {
	m.changes.WithLabelValues(strconv.Itoa(status), strconv.FormatBool(replayed)).Inc()
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
