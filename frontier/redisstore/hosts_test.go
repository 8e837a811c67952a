package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestFewHostsAreCounted: a host beyond the limit has no counts, and says so. Those of the others go on.
func TestFewHostsAreCounted(t *testing.T) {
	t.Parallel()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Partitions = 1
	s := openStore(t, cfg)
	s.countFew = 2
	for round := range 2 {
		for n := range 3 {
			mustAdd(t, s, testPages(fmt.Sprintf("h%d.test", n), 10*round, 10*round+2))
			finishAll(t, s)
		}
	}
	got := make(map[string]frontier.HostCounts)
	for _, host := range []string{"h0.test", "h1.test", "h2.test"} {
		mustAdd(t, s, testPages(host, 100, 101))
	}
	err := s.Hosts(t.Context(), frontier.HostQuery{Finished: true}, func(h frontier.HostState) bool {
		got[h.Host] = h.Counts
		return true
	})
	if err != nil || len(got) != 3 {
		t.Fatalf("Hosts visits %v, %v, want three hosts", got, err)
	}
	for host, n := range got {
		if missing := host == "h2.test"; n.Missing != missing || (n.Done == 4) == missing || (n.Ago > 0) == missing {
			t.Errorf("%s has counts %+v, want that those of h2.test alone are missing, and 4 done items of the others", host, n)
		}
	}
}

// finishAll leases the only host and finishes its items.
func finishAll(t *testing.T, s *Store) {
	t.Helper()
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	for deadline := time.Now().Add(5 * time.Second); err == nil && len(grant.Leases) == 0 && time.Now().Before(deadline); {
		time.Sleep(grant.Wait) // a host without a delay is due 1 ms after its last request
		grant, err = s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)})
	}
	if err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %d leases, %v, want 1", len(grant.Leases), err)
	}
	var done []frontier.Completion
	for _, item := range grant.Leases[0].Items {
		done = append(done, finish(item))
	}
	if err := s.Complete(t.Context(), grant.Leases[0].ID, done, frontier.HostUpdate{End: true}); err != nil {
		t.Fatal(err)
	}
}

// TestHostsNameTheWorker: a host that is leased names its worker, and says if that worker has died.
func TestHostsNameTheWorker(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	cfg.LeaseTTL, cfg.Worker = time.Hour, "w1"
	s := openStore(t, cfg)
	mustAdd(t, s, testPages("a.test", 0, 2))
	if grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)}); err != nil || len(grant.Leases) != 1 {
		t.Fatalf("Lease = %+v, %v", grant, err)
	}
	lost := func() (lost bool) {
		err := s.Hosts(t.Context(), frontier.HostQuery{}, func(h frontier.HostState) bool {
			if h.Worker != "w1" || h.EndsIn <= 0 || h.EndsIn > time.Hour+time.Second {
				t.Errorf("%s: worker %q, its lease ends in %v, want w1 and up to an hour", h.Host, h.Worker, h.EndsIn)
			}
			lost = h.Lost
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	if lost() {
		t.Error("the worker is lost, although it lives")
	}
	eventually(t, "a lost worker", func() bool { // a worker without a heartbeat is like one that was killed
		if err := server.Client().Del(t.Context(), s.cfg.heardKey()).Err(); err != nil {
			t.Fatal(err)
		}
		return lost()
	})
}
