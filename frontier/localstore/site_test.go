package localstore

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/suite"
)

// TestManySiblings: one call of Lease moves a bounded number of hosts that find no place in their site, and hosts of other
// sites are leased meanwhile.
func TestManySiblings(t *testing.T) {
	t.Parallel()
	hosts := 100_000
	if testing.Short() {
		hosts = 10_000
	}
	clock := suite.NewClock()
	live := policy.NewLive(&policy.Policy{Politeness: politeness.Policy{Delay: time.Second}, DomainRate: 4})
	s, err := Open(Config{Dir: "crawl", FS: vfs.NewMem(), Filter: membits.Config{Capacity: 200_000}, Policy: live.Load, Now: clock.Now, LeaseTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := 0; n < hosts; n += 1000 {
		items := make([]frontier.Offer, 1000)
		for i := range items {
			host := fmt.Sprintf("h%d.a.test", n+i)
			items[i] = frontier.Offer{URL: "https://" + host + "/", Host: host}
		}
		if _, err := s.Add(t.Context(), items); err != nil {
			t.Fatal(err)
		}
	}
	clock.Advance(time.Millisecond)
	addPages(t, s, "other.test", 1)
	calls, before := 0, 0
	var leased []string
	for wait := time.Duration(0); wait == 0; calls++ {
		ids := make([]frontier.LeaseID, 8)
		for i := range ids {
			binary.BigEndian.PutUint32(ids[i][:], uint32(8*calls+i+1))
		}
		grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: ids})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range grant.Leases {
			leased = append(leased, l.Host)
		}
		wait = grant.Wait
		queued := len(s.sites.byName["a.test"].queue) // nothing else uses the store
		if moved := queued - before; moved > maxParked+1 {
			t.Fatalf("one call moved %d hosts, want at most %d", moved, maxParked+1)
		}
		before = queued
	}
	if len(leased) != 5 || leased[4] != "other.test" || before != hosts-4 || calls > 2*hosts/maxParked {
		t.Errorf("%q leased in %d calls, and %d hosts wait, want 4 of a site and another host, and %d", leased, calls, before, hosts-4)
	}
}
