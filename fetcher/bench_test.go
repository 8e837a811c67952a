package fetcher_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// BenchmarkPages crawls pages with 30 links each, of which most are known, over a network and a store
// without I/O. Most of the time is the worker's.
func BenchmarkPages(b *testing.B) {
	const hosts, pages = 64, 64
	web := &wire{answer: func(r *http.Request, url string, _ int) (reply, bool) {
		var host, page int
		if _, err := fmt.Sscanf(url, "http://h%d.test/%d", &host, &page); err != nil {
			return reply{}, false
		}
		var refs []string
		for i := range 30 {
			refs = append(refs, fmt.Sprintf("http://h%d.test/%d", (host+i/10)%hosts, (page+i)%pages))
		}
		return links(refs...), true
	}}
	for b.Loop() {
		web.calls, web.tries = nil, nil
		w := &world{t: b, wire: web, store: frontiertest.NewMemory(frontiertest.MemoryConfig{}), sink: &sink{}}
		cfg := w.config()
		cfg.Politeness.Delay, cfg.Politeness.LatencyFactor, cfg.Sink = 0, 0, nil
		c := w.worker(cfg)
		for h := range hosts {
			w.seed(c, fmt.Sprintf("http://h%d.test/0", h))
		}
		if end, err := c.Run(b.Context()); end != fetcher.Empty || err != nil {
			b.Fatal(end, err)
		}
	}
	b.ReportMetric(float64(b.N*hosts*pages)/b.Elapsed().Seconds(), "pages/s")
}
