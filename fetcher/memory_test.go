package fetcher_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// TestMemory crawls many large pages at once with room for one document. All
// are read with all their links, within the memory that is allowed.
func TestMemory(t *testing.T) {
	const hosts = 24
	synctest.Test(t, func(t *testing.T) {
		large := strings.Repeat("<p>text", 40_000)
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			if strings.HasSuffix(url, ".test/") {
				a := links("/last")
				a.body += large + `<a href=/end>x</a>`
				a.wait = time.Second
				return a, true
			}
			return reply{}, false
		}})
		cfg := w.config()
		largest := fetcher.LeastMemory(cfg.Client)
		cfg.Memory = largest - 1
		if _, err := newWorker(cfg); err == nil || !strings.Contains(err.Error(), "Memory") {
			t.Errorf("New with too little memory for one page: %v, want an error about Memory", err)
		}
		cfg.Memory = largest
		cfg.Rules.Scope, cfg.Concurrency = canon.ScopeAny, hosts
		var most atomic.Int64
		var c *fetcher.Crawl
		cfg.OnPage = func(_ context.Context, page *fetcher.Page) error {
			page.Document()
			for taken := c.MemoryTaken(); ; {
				last := most.Load()
				if taken <= last || most.CompareAndSwap(last, taken) {
					return nil
				}
			}
		}
		var seeds []string
		for i := range hosts {
			seeds = append(seeds, fmt.Sprintf("http://%d.test/", i))
		}
		c = w.worker(cfg)
		w.crawlWith(c, fetcher.Empty, seeds...)
		if stats := w.stats(); stats.Done != 3*hosts || stats.Found != 3*hosts {
			t.Errorf("books %+v, want %d done", stats.Books, 3*hosts)
		}
		if n := most.Load(); n < int64(len(large)) || n > largest || c.MemoryTaken() != 0 {
			t.Errorf("at most %d bytes taken, want %d to %d; %d taken at the end, want 0",
				n, len(large), largest, c.MemoryTaken())
		}
	})
}
