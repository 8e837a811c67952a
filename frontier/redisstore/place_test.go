package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// rated returns a policy with a delay of 1 s and a rate of sites.
func rated(rate float64) *policy.Live {
	return policy.NewLive(&policy.Policy{Politeness: politeness.Policy{Delay: time.Second}, DomainRate: rate})
}

// TestSitesDecidePartitions: if a crawl was created with a rate of sites, the hosts of a site are in one partition, also
// for workers with other policies. Otherwise they are not, and have no rate.
func TestSitesDecidePartitions(t *testing.T) {
	t.Parallel()
	for _, created := range []float64{4, 0} {
		cfg := config(servers.Redis(t, servers.RedisOptions{}))
		cfg.Policy = rated(created).Load
		openStore(t, cfg)
		cfg.Policy = rated(1).Load
		s := openStore(t, cfg)
		parts := make(map[*partition]bool)
		var items []frontier.Offer
		for n := range 20 {
			host := fmt.Sprintf("h%d.a.test", n)
			parts[s.partition(host)] = true
			items = append(items, testPages(host, 0, 1)...)
		}
		mustAdd(t, s, items)
		leased := 0
		for begun := time.Now(); leased < 2 && time.Since(begun) < 2*headStart; time.Sleep(headStart / 4) { // the other worker has a head start
			grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(20)})
			if err != nil {
				t.Fatal(err)
			}
			leased += len(grant.Leases)
		}
		if together := created > 0; together != (len(parts) == 1) || together != (leased == 1) || leased == 0 {
			t.Errorf("created with a rate of %v: 20 hosts of a site are in %d partitions, and %d are leased", created, len(parts), leased)
		}
		if tests := s.partition("10.0.0.1") == s.partition("h1.a.test"); tests && s.partition("10.0.0.2") == s.partition("h1.a.test") &&
			s.partition("a.org") == s.partition("h1.a.test") && s.partition("b.org") == s.partition("h1.a.test") {
			t.Error("hosts of other sites are in the same partition")
		}
	}
}

// TestManySiblings: one call of Lease does a bounded amount of work, however many hosts of a site wait, and hosts of
// other sites are leased meanwhile. Hosts that wait are tried seldom.
func TestManySiblings(t *testing.T) {
	t.Parallel()
	const ids = 8
	hosts := 100_000
	if testing.Short() {
		hosts = 10_000
	}
	clock := newTestClock()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy, cfg.Now, cfg.Partitions, cfg.LeaseTTL = rated(4).Load, clock.now, 1, time.Hour
	cfg.edit = func(script, text string) string {
		if script == "lease" {
			text = "redis.call('INCR', 'tries')\n" + text
		}
		return text
	}
	s := openStore(t, cfg)
	tries := func() int {
		n, _ := s.client.Get(t.Context(), "tries").Int()
		return n
	}
	for n := 0; n < hosts; n += 1000 {
		var items []frontier.Offer
		for h := range 1000 {
			items = append(items, testPages(fmt.Sprintf("h%d.a.test", n+h), 0, 1)...)
		}
		mustAdd(t, s, items)
	}
	clock.advance(time.Millisecond)
	mustAdd(t, s, testPages("other.test", 0, 1))
	others, leased, calls, most := 0, 0, 0, 0
	lease := func() frontier.Grant {
		before := tries()
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(ids)})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range grant.Leases {
			if leased++; l.Host == "other.test" {
				others++
			}
		}
		calls, most = calls+1, max(most, tries()-before)
		return grant
	}
	begun := time.Now()
	for lease().Wait == 0 {
	}
	t.Logf("%d hosts of one site: %d calls of Lease, of which each tried at most %d hosts, in %v", hosts, calls, most, time.Since(begun))
	if most > maxTries*ids {
		t.Errorf("a call of Lease tried %d hosts, want at most %d", most, maxTries*ids)
	}
	if leased != 5 || others != 1 || calls > hosts/ids {
		t.Errorf("%d hosts leased in %d calls, %d of them of another site, want 5, 1 of another site", leased, calls, others)
	}
	// The k-th host is tried every k/8 s, and each one every 150 to 300 s.
	sum, most := 0, 0
	const seconds = 320
	for range seconds {
		before := tries()
		for clock.advance(time.Second); lease().Wait == 0; {
		}
		sum, most = sum+tries()-before, max(most, tries()-before)
	}
	t.Logf("while no place is free, %d tries a second, and at most %d", sum/seconds, most)
	if want := 8*8 + hosts/225; sum/seconds > 2*want || most > 4*want {
		t.Errorf("%d tries a second, and at most %d, want about %d", sum/seconds, most, want)
	}
}

// TestPlacesAreForgotten: the keys of a site do not grow with the hosts that had a place, and expire.
func TestPlacesAreForgotten(t *testing.T) {
	t.Parallel()
	clock := newTestClock()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy, cfg.Now = rated(2).Load, clock.now
	s := openStore(t, cfg)
	for n := range 20 {
		mustAdd(t, s, testPages(fmt.Sprintf("h%d.a.test", n), 0, 1))
	}
	leased := 0
	for range 100 {
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(4)})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range grant.Leases {
			leased++
			update := frontier.HostUpdate{Due: time.Second, Delay: time.Second, End: true}
			if err := s.Complete(t.Context(), l.ID, []frontier.Completion{finish(l.Items[0])}, update); err != nil {
				t.Fatal(err)
			}
		}
		clock.advance(200 * time.Millisecond)
	}
	p := s.partition("h0.a.test")
	places, queue := p.places("a.test"), p.siteQueue("a.test")
	if n := s.client.HLen(t.Context(), places).Val(); leased != 20 || n < 1 || n > 4 || s.client.ZCard(t.Context(), queue).Val() != 0 {
		t.Errorf("after leases of %d hosts their site has %d places, want 20 and at most 4", leased, n)
	}
	mustAdd(t, s, testPages("h0.a.test", 1, 2))
	if _, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(1)}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{places, queue} {
		if left := s.client.PTTL(t.Context(), key).Val(); left <= 0 && s.client.Exists(t.Context(), key).Val() == 1 || left > time.Hour {
			t.Errorf("%s expires in %v", key, left)
		}
	}
}

// TestFirstHostsOfOneSite: the hosts that are due first are found, also if all of them are in one of many partitions.
func TestFirstHostsOfOneSite(t *testing.T) {
	t.Parallel()
	cfg := config(servers.Redis(t, servers.RedisOptions{}))
	cfg.Policy, cfg.Partitions = rated(4).Load, 256
	s := openStore(t, cfg)
	const hosts = 100
	for n := range hosts {
		mustAdd(t, s, testPages(fmt.Sprintf("h%d.a.test", n), 0, 1))
	}
	for _, first := range []int{50, 1000} {
		visited := 0
		err := s.Hosts(t.Context(), frontier.HostQuery{First: first}, func(frontier.HostState) bool {
			visited++
			return true
		})
		if want := min(first, hosts); err != nil || visited != want {
			t.Errorf("the first %d of %d hosts: %d are visited, %v", first, hosts, visited, err)
		}
	}
}
