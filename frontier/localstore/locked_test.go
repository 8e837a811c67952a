package localstore_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/localstore"
)

func TestLockedByProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := localstore.Locked(nil, dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Locked without a directory: error %v, want ErrNotExist", err)
	}
	want := func(want bool) {
		t.Helper()
		if locked, err := localstore.Locked(nil, dir); locked != want || err != nil {
			t.Errorf("Locked = %t, %v, want %t", locked, err, want)
		}
	}
	for range 2 { // Locked does not keep the lock
		s, err := localstore.Open(localstore.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		want(true)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		want(false)
	}
}
