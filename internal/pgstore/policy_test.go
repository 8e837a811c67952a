package pgstore_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestVersions: of several versions with one number one is stored, a repeat of it is answered as before, and the last ones
// are kept.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := open(t, anyCrawl(database(t)))
	add := func(number uint64, version string, want bool) {
		t.Helper()
		added, err := s.AddVersion(t.Context(), number, version, 3)
		must(t, err)
		if added != want {
			t.Errorf("version %d with the text %q: added %v, want %v", number, version, added, want)
		}
	}
	var wins atomic.Int32
	var racers sync.WaitGroup
	for _, text := range []string{"a", "b", "c", "d"} {
		racers.Go(func() {
			added, err := s.AddVersion(t.Context(), 1, text, 3)
			if err != nil {
				t.Error(err)
			}
			if added {
				wins.Add(1)
			}
		})
	}
	racers.Wait()
	if wins.Load() != 1 {
		t.Errorf("%d of 4 versions with one number were stored, want 1", wins.Load())
	}
	add(2, "e", true)
	add(2, "f", false)
	add(2, "e", true)
	add(1, "g", false)
	add(7, "h", true) // a backup without versions 3 to 6 was restored
	add(2, "e", false)
	add(8, "i", true)
	add(9, "j", true)
	if got, err := s.Versions(t.Context(), 10); err != nil || !slices.Equal(got, []string{"j", "i", "h"}) {
		t.Errorf("the versions are %q, error %v; want the last three", got, err)
	}
	if got, err := s.Versions(t.Context(), 1); err != nil || !slices.Equal(got, []string{"j"}) {
		t.Errorf("the newest version is %q, error %v", got, err)
	}
}
