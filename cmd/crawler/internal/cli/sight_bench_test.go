//go:build unix

package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// BenchmarkAsk tells what it costs a crawl with a filter for 10 million URLs to
// be asked once a second, as `status --watch` does: the CPU time of both sides,
// as a share of all cores. A report is asked for by hand, and probes for 200 ms.
func BenchmarkAsk(b *testing.B) {
	asked, open := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			asked <- struct{}{}
			<-open
		}
	}))
	defer server.Close()
	dir := filepath.Join(b.TempDir(), "x.crawl")
	code := started(io.Discard, "crawl", "--dir", dir, "--delay", "0", "--urls", "10M", "--connect-to", "*="+server.Listener.Addr().String(), "http://a.test/")
	<-asked
	for question, ask := range map[string]func(context.Context) error{
		"sample": func(ctx context.Context) error {
			return callControl(ctx, dir, "GET", "/sample", nil, new(report.Sample))
		},
		"status": func(ctx context.Context) error { return callControl(ctx, dir, "GET", "/status", nil, new(status)) },
		"report": func(ctx context.Context) error {
			return callControl(ctx, dir, "GET", "/report?probe="+probeRunning.String(), nil, new(report.Report))
		},
	} {
		b.Run("question="+question, func(b *testing.B) {
			began := cpuTime()
			for b.Loop() {
				if err := ask(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			each := (cpuTime() - began).Seconds() / float64(b.N)
			b.ReportMetric(1000*each, "cpu-ms/op")
			b.ReportMetric(100*each/float64(cores()), "%-of-cores")
		})
	}
	close(open)
	<-code
}
