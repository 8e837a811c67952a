package localstore

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
)

// knowPages marks the pages with the numbers first to end-1 as seen.
func knowPages(t *testing.T, s *Store, first, end int) (fresh int) {
	t.Helper()
	var prints []bloomstore.Fingerprint
	for i := first; i < end; i++ {
		prints = append(prints, s.Hasher().Fingerprint(knownPage(i, 0).URL))
	}
	fresh, err := s.MarkSeen(t.Context(), prints)
	if err != nil {
		t.Fatal(err)
	}
	return fresh
}

func knownPage(i int, class frontier.Class) frontier.Offer {
	return frontier.Offer{URL: fmt.Sprintf("https://a.test/%d", i), Host: "a.test", Class: class, Priority: frontier.PriorityPage}
}

// answers counts the verdicts for the pages with the numbers first to end-1.
func answers(t *testing.T, s *Store, class frontier.Class, first, end int) map[frontier.Answer]int {
	t.Helper()
	var items []frontier.Offer
	for i := first; i < end; i++ {
		items = append(items, knownPage(i, class))
	}
	verdicts, err := s.Add(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[frontier.Answer]int)
	for _, v := range verdicts {
		counts[v.Answer]++
	}
	return counts
}

func stats(t *testing.T, s *Store) frontier.Stats {
	t.Helper()
	st, err := s.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Balance(); err != nil {
		t.Fatal(err)
	}
	return st
}

// TestMarkSeen: marked URLs are answered Seen, for every class. The books and the shadow
// sample do not count them. This holds after a crash, a restart from a checkpoint, and a
// rebuild.
func TestMarkSeen(t *testing.T) {
	t.Parallel()
	const known, all = 15_000, 20_000 // known is larger than the number of URLs that one group of calls can mark
	cfg := Config{Dir: "crawl", FS: vfs.NewMem(), Filter: membits.Config{Capacity: all}}
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	// The filter can claim wrongly to contain one of the URLs. Two such claims are very
	// unlikely, because the default false-positive rate is 1e-6.
	if n := knowPages(t, s, 0, known); n < known-1 || n > known {
		t.Errorf("MarkSeen: %d of %d URLs were new, want all, or all but one", n, known)
	}
	if st := stats(t, s); st.Found != 0 || st.Added != 0 || st.Queued != 0 || st.Shadow.New != 0 {
		t.Errorf("Stats counts URLs that were given to MarkSeen: %+v", st)
	}
	check := func(when string) {
		t.Helper()
		for _, class := range []frontier.Class{frontier.Bulk, frontier.Exact} {
			if got := answers(t, s, class, 0, known); got[frontier.Seen] != known {
				t.Errorf("%s: in class %d, %d known URLs are answered %v, want all Seen", when, class, known, got)
			}
		}
		if n := knowPages(t, s, 0, known); n != 0 {
			t.Errorf("%s: a second MarkSeen found %d URLs new, want 0", when, n)
		}
		if st := stats(t, s); st.Shadow.Lost != 0 || st.Shadow.Forgotten != 0 || st.Recovered != 0 {
			t.Errorf("%s: Stats counts errors of the filter: shadow sample %+v, %d recovered; want none",
				when, st.Shadow, st.Recovered)
		}
		for _, fault := range checkTables(s) {
			t.Errorf("%s: %s", when, fault)
		}
	}
	check("at once")
	s = killed(t, s, cfg)
	check("after a crash")
	s = closed(t, s, cfg, Open)
	check("after a restart")
	s = closed(t, s, cfg, Rebuild)
	check("after a rebuild")

	if got := answers(t, s, frontier.Bulk, known, all); got[frontier.Added] < all-known-1 {
		t.Errorf("%d URLs that are not known are answered %v, want all Added, or all but one", all-known, got)
	}
	audit, err := s.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if added := float64(stats(t, s).Added); math.Abs(audit.Added-added) > 5*audit.AddedErr+1 { // 5σ
		t.Errorf("the audit estimates %.0f ± %.0f added, want %.0f", audit.Added, audit.AddedErr, added)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestKnowWhatWaits: marking URLs that wait in the queue does not change them.
func TestKnowWhatWaits(t *testing.T) {
	t.Parallel()
	s, err := Open(Config{Dir: "crawl", FS: vfs.NewMem(), Filter: membits.Config{Capacity: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := answers(t, s, frontier.Bulk, 0, 100); got[frontier.Added] != 100 {
		t.Fatalf("100 new URLs are answered %v, want all Added", got)
	}
	if n := knowPages(t, s, 0, 100); n != 0 {
		t.Errorf("MarkSeen found %d of 100 queued URLs new, want 0", n)
	}
	if st := stats(t, s); st.Queued != 100 {
		t.Errorf("%d URLs are queued, want 100", st.Queued)
	}
}

// TestKnowFalsePositive: MarkSeen marks a URL that the filter wrongly claims to contain. Later
// calls that are executed in the same group must get the answer Seen for this URL.
func TestKnowFalsePositive(t *testing.T) {
	t.Parallel()
	s, err := Open(Config{Dir: "crawl", FS: vfs.NewMem(),
		Filter: membits.Config{Capacity: 1, Growth: membits.GrowthOff, Shards: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := knowPages(t, s, 0, 1000); n > 100 {
		t.Fatalf("a filter for one URL found %d of 1000 URLs new, want at most 100", n)
	}
	page := knownPage(1000, frontier.Exact)
	err = s.submit(t.Context(), &op{change: func(g *group) error {
		offer := s.offers([]frontier.Offer{page})[0]
		if added, err := g.markSeen(offer.print); err != nil || added {
			t.Errorf("markSeen: added %t, %v, want false, as for a false positive", added, err)
		}
		verdict, err := g.add(&offer)
		if verdict.Answer != frontier.Seen {
			t.Errorf("the URL is answered %v, want seen", verdict)
		}
		return err
	}})
	if err != nil {
		t.Error(err)
	}
}

func killed(t *testing.T, s *Store, cfg Config) *Store {
	t.Helper()
	s.guard.fail(errKilled)
	if err := s.Close(); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	return opened(t, cfg, Open)
}

func closed(t *testing.T, s *Store, cfg Config, open func(Config) (*Store, error)) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return opened(t, cfg, open)
}

func opened(t *testing.T, cfg Config, open func(Config) (*Store, error)) *Store {
	t.Helper()
	s, err := open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
