package serve_test

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testweb"
	"github.com/bloomfrontier/crawler/serve"
)

// TestTwoCrawlsOneGate: two crawls of a Server request the same 50 hosts, and the Server is started again meanwhile. No two
// requests to a host are closer than its delay, across both crawls and both processes, and each crawl finds everything.
func TestTwoCrawlsOneGate(t *testing.T) {
	t.Parallel()
	const delay = 600 * time.Millisecond
	web, err := testweb.New(testweb.Config{Seed: 6, Hosts: 50, Pages: 250, MeanBytes: 1000, KeepLog: true})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- web.Serve(serving, listener) }()
	cfg := config(t)
	cfg.Settings.ConnectTo = []string{"*=" + listener.Addr().String()}
	cfg.Settings.Delay, cfg.Settings.LatencyFactor, cfg.Settings.DomainRate = delay, 0, 0
	s := start(t, cfg)
	seeds, _ := json.Marshal(map[string]any{"seeds": web.Seeds()})
	for _, name := range []string{"a", "b"} {
		s.create(name, "scope=any")
		s.ask("POST", "/v1/crawls/"+name+"/seeds", "s", string(seeds)).want(t, 200)
	}
	s.await("b", func(c serve.CrawlStatus) bool { return c.Status.Stats.Pages > 90 })
	s.end()
	s = start(t, cfg)
	for _, name := range []string{"a", "b"} {
		if c := s.await(name, finished); c.Status.Stats.Pages < 250 {
			t.Errorf("crawl %s has %d pages, want 250 or more", name, c.Status.Stats.Pages)
		}
		var report struct{ Retries uint64 }
		s.ask("GET", "/v1/crawls/"+name+"/report", "", "").want(t, 200, &report)
		if report.Retries > 0 {
			t.Errorf("crawl %s has %d retries, want 0: the end of the Server used up attempts", name, report.Retries)
		}
	}
	s.end()
	stop()
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	verdict := web.Judge(web.Log(), testweb.Manners{Delay: delay, Lag: delay / 2})
	if err := verdict.Err(); err != nil {
		t.Errorf("%d requests to %d hosts: %v", verdict.Requests, verdict.Hosts, err)
	}
	t.Logf("%d requests to %d hosts, %d repeated, closest gap %v", verdict.Requests, verdict.Hosts, verdict.Refetched, verdict.Closest)
}
