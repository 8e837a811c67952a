package fetcher_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// TestOneConnection: one connection serves robots.txt and the pages of an
// origin, one request after the other.
func TestOneConnection(t *testing.T) {
	var connections, requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path == "/robots.txt" {
			fmt.Fprint(w, "User-agent: *\nDisallow: /no\n")
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<a href=/1>1</a><a href=/2>2</a><a href=/no>no</a>")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	w := newWorldOf(t, &wire{}, frontiertest.MemoryConfig{Delay: time.Millisecond})
	cfg := w.config()
	cfg.Client = clientOf(t, get.Config{ConnectTo: []get.Rule{connectTo(t, "*="+server.Listener.Addr().String())}})
	cfg.Politeness = every(time.Millisecond)
	w.crawl(cfg, "http://a.test/")
	if requests.Load() != 4 || connections.Load() != 1 {
		t.Errorf("%d requests over %d connections, want 4 (robots.txt and 3 pages) over 1",
			requests.Load(), connections.Load())
	}
}
