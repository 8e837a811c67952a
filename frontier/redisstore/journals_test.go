package redisstore

import (
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestJournals: all workers see which journals are reported. A journal is left if its process has
// ended, or has not reported it for some time. A journal that is forgotten is gone.
func TestJournals(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	cfg := config(server)
	a, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	one := Journal{ID: "J1", Relay: "r", Worker: "w1", Host: "h", Dir: "/data", Written: "1-900", Delivered: "1-100", Events: 7, Bytes: 800}
	two := Journal{ID: "J2", Relay: "r", Worker: "w2", Host: "i", Dir: "/data", Own: true, Ended: true, Events: 1}
	for _, j := range []Journal{one, two, one} {
		if err := a.ReportJournal(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	list := func() []Journal {
		t.Helper()
		journals, err := b.Journals(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return journals
	}
	got := list()
	if len(got) != 2 {
		t.Fatalf("Journals = %+v, want two", got)
	}
	if got[0].Left() || !got[1].Left() || got[0].Reported == 0 {
		t.Errorf("Journals = %+v; want the second left, because it has ended, and not the first", got)
	}
	got[0].Silent, got[0].Reported, got[1].Silent, got[1].Reported = 0, 0, 0, 0
	if got[0] != one || got[1] != two {
		t.Errorf("Journals = %+v, want %+v and %+v", got, one, two)
	}
	if got[0].Silent = beatLimit + 1; !got[0].Left() {
		t.Error("a silent journal is not left")
	}
	if err := b.ForgetJournal(t.Context(), "J1", "r"); err != nil {
		t.Fatal(err)
	}
	if got := list(); len(got) != 1 || got[0].ID != "J2" {
		t.Errorf("Journals after one was forgotten = %+v, want only J2", got)
	}
}
