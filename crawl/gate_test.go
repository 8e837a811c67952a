package crawl_test

import (
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestGateBetweenCrawls: two crawls of one process request the same 50 hosts at once. With a Gate, no two requests to a
// host are closer than the delay, and each crawl finds everything.
func TestGateBetweenCrawls(t *testing.T) {
	t.Parallel()
	const delay = 600 * time.Millisecond
	web, err := testweb.New(testweb.Config{Seed: 5, Hosts: 50, Pages: 250, MeanBytes: 1000, KeepLog: true})
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
	gate := politeness.NewGate(time.Now())
	var group errgroup.Group
	dirs := [2]crawl.Location{}
	for i := range dirs {
		c := config(t, web.Seeds()...)
		c.Settings.Scope, c.Settings.ConnectTo = "any", []string{"*=" + listener.Addr().String()}
		c.Settings.Delay, c.Settings.LatencyFactor, c.Settings.DomainRate, c.Gate = delay, 0, 0, gate
		dirs[i] = c.Location()
		group.Go(func() error { return crawl.Run(t.Context(), c) })
	}
	err = group.Wait()
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Fatal(err)
	}
	verdict := web.Judge(web.Log(), testweb.Manners{Delay: delay, Lag: delay / 2})
	if err := verdict.Err(); err != nil {
		t.Errorf("%d hosts: %v", verdict.Hosts, err)
	}
	t.Logf("%d requests to %d hosts, closest gap %v", verdict.Requests, verdict.Hosts, verdict.Closest)
	for _, at := range dirs {
		h, err := crawl.Attach(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		status, err := h.Status(t.Context())
		if err != nil || status.Stats.Pages < 250 || status.Stats.Queued > 0 {
			t.Errorf("%s: %d pages, %d queued, %v; want all of 250", at, status.Stats.Pages, status.Stats.Queued, err)
		}
	}
}
