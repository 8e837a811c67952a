package localstore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestReadmitKnown: URLs that were never queued, because MarkSeen marked them or the filter claims them, are let in once,
// also after a rebuild. The books balance.
func TestReadmitKnown(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: "c", FS: vfs.NewMem(), Filter: membits.Config{Capacity: 100, FPR: 0.25}}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if n := answers(t, s, frontier.Bulk, 0, 100); n[frontier.Added]+n[frontier.Seen] != 100 {
		t.Fatalf("answers %v", n)
	}
	knowPages(t, s, 1000, 1020)
	var mistaken, known []frontier.Offer
	for i := 2000; len(mistaken) < 10; i++ {
		if offer := knownPage(i, frontier.Bulk); s.filter.Has(s.hasher.Fingerprint(offer.URL)) {
			mistaken = append(mistaken, offer)
		}
	}
	for i := 1000; i < 1010; i++ {
		known = append(known, knownPage(i, frontier.Bulk))
	}
	all := append(mistaken, known...)
	found, err := s.Readmit(t.Context(), all, false)
	for i, f := range found {
		if f != frontier.Readmitted {
			t.Errorf("%s: %d, %v, want Readmitted", all[i].URL, f, err)
		}
	}
	if n := answers(t, s, frontier.Bulk, 1010, 1020); n[frontier.Seen] != 10 {
		t.Errorf("URLs that were not readmitted: %v", n)
	}
	count := func(want frontier.Answer, offers []frontier.Offer) {
		t.Helper()
		verdicts, err := s.Add(t.Context(), offers)
		for i, v := range verdicts {
			if v.Answer != want {
				t.Errorf("%s: %v, want %v", offers[i].URL, v, want)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := stats(t, s)
	count(frontier.Added, all[:15])
	count(frontier.Seen, all[:15])
	if after := stats(t, s); after.Added != before.Added+15 || after.Queued != before.Queued+15 {
		t.Errorf("%d added, %d queued, want 15 more than %d and %d", after.Added, after.Queued, before.Added, before.Queued)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Rebuild(cfg); err != nil {
		t.Fatal(err)
	}
	count(frontier.Seen, all[:15])
	count(frontier.Added, all[15:])
	count(frontier.Seen, all)
	r, err := s.Recount(t.Context())
	if err != nil || len(r.Faults) > 0 {
		t.Errorf("the audit finds %v, %v", r.Faults, err)
	}
}
