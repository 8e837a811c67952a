package fetcher_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// TestBandwidthIsKept crawls pages over sockets with less bandwidth than they would
// use. All pages arrive, but not faster than the bandwidth allows.
func TestBandwidthIsKept(t *testing.T) {
	const pages, pageBytes, perSecond = 40, 100_000, 2_000_000
	body := "<p>" + strings.Repeat("text ", pageBytes/5)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(body))
		if r.URL.Path == "/" {
			for i := range pages - 1 {
				fmt.Fprintf(w, "<a href=/%d>x</a>", i)
			}
		}
	}))
	defer server.Close()
	w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Millisecond})
	cfg := w.config()
	cfg.Client = clientOf(t, get.Config{ConnectTo: []get.Rule{connectTo(t, "*="+server.Listener.Addr().String())}})
	cfg.Politeness.Delay, cfg.Politeness.LatencyFactor = 0, 0
	cfg.HostConcurrency, cfg.Rules.Scope = 8, canon.ScopeHost
	cfg.Bandwidth = perSecond
	begun := time.Now()
	w.crawl(cfg, "http://a.test/")
	took := time.Since(begun)
	if stats := w.stats(); stats.Done != pages {
		t.Errorf("books %+v, want %d pages done", stats.Books, pages)
	}
	// Two things can arrive at once: the bytes of the first second, and one answer for
	// each request that began before the mean size of an answer was known.
	const least = time.Second * (pages*pageBytes - perSecond - 8*pageBytes) / perSecond
	if took < least {
		t.Errorf("%d bytes took %v at %d bytes/s, want at least %v", pages*pageBytes, took, perSecond, least)
	}
}
