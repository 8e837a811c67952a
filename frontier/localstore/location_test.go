package localstore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
)

func locate(t *testing.T, s *Store, url string) Location {
	t.Helper()
	l, err := s.Locate(t.Context(), "a.test", url)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func aPage(path string, p frontier.Priority) frontier.Offer {
	return frontier.Offer{URL: "https://a.test/" + path, Host: "a.test", Priority: p}
}

func TestLocateURL(t *testing.T) {
	t.Parallel()
	clock := time.Unix(1e9, 0)
	s := opened(t, Config{Dir: "crawl", FS: vfs.NewMem(), Policy: policy.NewLive(&policy.Policy{MaxPerHost: 50}).Load, Now: func() time.Time { return clock },
		Filter: membits.Config{Capacity: 4}}, Open)
	defer s.Close()
	if l := locate(t, s, "https://a.test/"); l.State != frontier.Unknown || l.Waiting != 0 || l.HostAdded != 0 || len(l.Claims) != 1 || l.Position == nil {
		t.Errorf("Locate in an empty store = %+v, want an unknown URL and nothing that waits", l)
	}
	delayed := aPage("delayed", frontier.PriorityPage)
	delayed.Delay = time.Minute
	later := aPage("later", frontier.PriorityPage)
	later.Delay = time.Hour
	other := frontier.Offer{URL: "https://b.test/", Host: "b.test", Delay: time.Second}
	items := []frontier.Offer{later, delayed, other, aPage("p0", frontier.PriorityPage), aPage("seed", frontier.PrioritySeed),
		aPage("p1", frontier.PriorityPage), aPage("asset", frontier.PriorityAsset)}
	if _, err := s.Add(t.Context(), items); err != nil {
		t.Fatal(err)
	}
	check := func(path string, state frontier.State, ahead, waiting uint64, delay time.Duration) {
		t.Helper()
		l := locate(t, s, "https://a.test/"+path)
		if l.State != state || l.Ahead != ahead || l.Waiting != waiting || l.Delay != delay {
			t.Errorf("%s is %q, %d items ahead of it, %d waiting, due in %v; want %q, %d ahead, %d waiting, due in %v",
				path, l.State, l.Ahead, l.Waiting, l.Delay, state, ahead, waiting, delay)
		}
		if l.InFilter != slices.Contains(l.Claims, true) {
			t.Errorf("%s: InFilter is %t, but the claims of the layers are %v", path, l.InFilter, l.Claims)
		}
		if l.HostAdded != 6 || l.HostMost != 50 {
			t.Errorf("%s: its host has %d added items, at most %d; want 6, at most 50", path, l.HostAdded, l.HostMost)
		}
	}
	check("seed", frontier.Queued, 0, 6, 0)
	check("p0", frontier.Queued, 1, 6, 0)
	check("p1", frontier.Queued, 2, 6, 0)
	check("asset", frontier.Queued, 3, 6, 0)
	check("delayed", frontier.Queued, 3, 6, time.Minute)
	check("later", frontier.Queued, 4, 6, time.Hour)
	check("unknown", frontier.Unknown, 6, 6, 0)

	clock = clock.Add(20 * time.Second)
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}, MaxPages: 2})
	if err != nil || len(grant.Leases) != 1 || len(grant.Leases[0].Items) != 2 {
		t.Fatalf("Lease = %+v, %v", grant, err)
	}
	check("seed", frontier.Leased, 4, 4, 0)
	check("p1", frontier.Queued, 0, 4, 0)
	check("delayed", frontier.Queued, 1, 4, 40*time.Second)

	done := []frontier.Completion{{Item: grant.Leases[0].Items[0].Fingerprint, Outcome: frontier.OK, Status: 200}}
	if err := s.Complete(t.Context(), frontier.LeaseID{1}, done, frontier.HostUpdate{Blob: []byte("known of a.test"), End: true}); err != nil {
		t.Fatal(err)
	}
	check("seed", frontier.Done, 5, 5, 0)
	check("p0", frontier.Queued, 0, 5, 0)
	if l := locate(t, s, "https://a.test/p1"); string(l.HostBlob) != "known of a.test" || len(l.Claims) != 2 {
		t.Errorf("p1: the blob of its host is %q, want \"known of a.test\"; %d layers of the filter answer, want 2",
			l.HostBlob, len(l.Claims))
	}
	known := s.Hasher().Fingerprint("https://a.test/known")
	if _, err := s.MarkSeen(t.Context(), []bloomstore.Fingerprint{known}); err != nil {
		t.Fatal(err)
	}
	if l := locate(t, s, "https://a.test/known"); l.State != frontier.Unknown || !l.InFilter || l.Known != 1 {
		t.Errorf("Locate of a URL that was given to MarkSeen = %+v, want an unknown URL that is in the filter", l)
	}
}

func TestPositionOfRecords(t *testing.T) {
	t.Parallel()
	fs := vfs.NewMem()
	cfg := Config{Dir: "crawl", FS: fs, OpenOutput: func(_ frontier.Identity, p frontier.Position) (frontier.Output, error) {
		return openLines(fs, "crawl", p)
	}}
	s := opened(t, cfg, Open)
	if p, err := s.Position(t.Context()); p == nil || len(p) > 0 || err != nil {
		t.Errorf("position is %v, %v, want an empty one", p, err)
	}
	if _, err := s.Add(t.Context(), []frontier.Offer{aPage("", frontier.PrioritySeed)}); err != nil {
		t.Fatal(err)
	}
	grant, err := s.Lease(t.Context(), frontier.LeaseRequest{IDs: []frontier.LeaseID{{1}}})
	if err != nil {
		t.Fatal(err)
	}
	print := grant.Leases[0].Items[0].Fingerprint
	completion := frontier.Completion{Item: print, Outcome: frontier.OK,
		Record: func(frontier.LinkCounts) error { return s.output.(*lines).write(print, 0) }}
	if err := s.Complete(t.Context(), frontier.LeaseID{1}, []frontier.Completion{completion}, frontier.HostUpdate{}); err != nil {
		t.Fatal(err)
	}
	want := frontier.Position{{File: "records-000000", Length: int64(len(line(print, 0)))}}
	p, err := s.Position(t.Context())
	r, recountErr := s.Recount(t.Context())
	if !slices.Equal(p, want) || !slices.Equal(r.Position, want) || err != nil || recountErr != nil {
		t.Errorf("position is %v (%v), recount has %v (%v), want %v", p, err, r.Position, recountErr, want)
	}
	if _, err := StoredPosition(fs, "crawl"); !errors.Is(err, frontier.ErrLocked) {
		t.Errorf("the stored position of an open store: %v, want ErrLocked", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first call releases the lock
		if p, err := StoredPosition(fs, "crawl"); !slices.Equal(p, want) || err != nil {
			t.Errorf("the stored position is %v, %v, want %v", p, err, want)
		}
	}
}
