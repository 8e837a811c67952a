package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// BenchmarkAsk measures the CPU time of requests for the state of a running crawl. The time
// is that of the crawl and of the client together. The filter is for 10 million URLs. The
// command status --watch requests a sample each second, and with --json also a status. For a
// report, the crawl also looks up random keys in the filter for 200 ms.
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
	h, err := crawl.Attach(b.Context(), crawl.Location{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	for question, ask := range map[string]func(context.Context) error{
		"sample": func(ctx context.Context) error { _, err := h.Sample(ctx); return err },
		"status": func(ctx context.Context) error { _, err := h.Status(ctx); return err },
		"report": func(ctx context.Context) error { _, err := h.Report(ctx, probeRunning); return err },
	} {
		b.Run("question="+question, func(b *testing.B) {
			began := time.Now()
			meter := report.NewCPUMeter(began)
			for b.Loop() {
				if err := ask(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			// each is the CPU time of one request in seconds, divided by the number of cores.
			each := meter.Read(time.Now()) * time.Since(began).Seconds() / float64(b.N)
			b.ReportMetric(1000*each*float64(report.Cores()), "cpu-ms/op")
			b.ReportMetric(100*each, "%-of-cores")
		})
	}
	close(open)
	<-code
}
