package localstore

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
)

func TestSmoke(t *testing.T) {
	fs := vfs.NewMem()
	cfg := Config{Dir: "crawl", FS: fs, Delay: NoDelay, Filter: membits.Config{Capacity: 1000}}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var items []frontier.Item
	for i := range 100 {
		items = append(items, frontier.Item{URL: fmt.Sprintf("https://a.test/%d", i), Host: "a.test", Priority: 1})
	}
	v, err := s.Add(t.Context(), append(items, items...))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if v[i].Answer != frontier.Added || v[100+i].Answer != frontier.Seen {
			t.Fatal(i, v[i], v[100+i])
		}
	}
	g, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}, {2}}})
	if err != nil || len(g.Leases) != 1 || len(g.Leases[0].Items) != 32 {
		t.Fatal(err, g)
	}
	if err := s.Complete(t.Context(), frontier.LeaseID{1}, []frontier.Completion{{Item: g.Leases[0].Items[0].Fingerprint, Outcome: frontier.OK}}, frontier.HostUpdate{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.Stats(t.Context())
	t.Logf("%+v %v", st, err)
	if err := st.Balance(); err != nil || st.Queued != 99 {
		t.Fatal(err)
	}
	a, err := s.Audit(t.Context())
	t.Logf("%+v %v", a, err)
	s.Close()
}
