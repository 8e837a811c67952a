package redisstore

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

func TestLeaseSmoke(t *testing.T) {
	s := openStore(t, config(servers.Redis(t, servers.RedisOptions{})))
	mustAdd(t, s, append(testPages("a.test", 0, 40), testPages("b.test", 0, 3)...))
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: leaseIDs(3), InFlight: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range grant.Leases {
		t.Logf("lease of %s: %d items, TTL %v, first item %+v", l.Host, len(l.Items), l.TTL, l.Items[0])
	}
	t.Logf("wait %v, empty %t", grant.Wait, grant.Empty)
	for _, l := range grant.Leases {
		ext, err := s.Extend(t.Context(), l.ID, frontier.TopUp{Items: 40, Known: len(l.Items)})
		t.Logf("Extend: TTL %v, %d items, error %v", ext.TTL, len(ext.Items), err)
		done := []frontier.Completion{
			{Item: l.Items[0].Fingerprint, Outcome: frontier.OK, Status: 200, Page: true, Links: testPages("c.test", 0, 4)},
			{Item: l.Items[1].Fingerprint, Outcome: frontier.Network},
			{Item: l.Items[2].Fingerprint, Disposition: frontier.Retry, RetryIn: time.Second},
		}
		if err := s.Complete(t.Context(), l.ID, done, frontier.HostUpdate{Blob: []byte("x"), End: true}); err != nil {
			t.Fatal(err)
		}
		if err := s.Complete(t.Context(), l.ID, done, frontier.HostUpdate{Blob: []byte("x"), End: true}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.Retry(t.Context(), frontier.Failures{})
	t.Logf("Retry = %d, %v", n, err)
	for _, p := range s.parts {
		t.Logf("counters of partition %d: %v", p.number, s.client.HGetAll(t.Context(), p.meta).Val())
	}
}
