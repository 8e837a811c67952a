package proofs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
)

// filterSize is the value of --urls in the proofs.
const filterSize = 200_000

// page is the state of a URL in a crawl.
type page struct {
	done     bool // whether it has a committed record
	attempts int  // number of its requests, as the crawl counts them
}

// openCopy opens a copy of a killed crawl's directory, audits the copy, and returns all
// its URLs.
func openCopy(t *testing.T, dir, when string) map[string]page {
	t.Helper()
	twin := t.TempDir()
	copyFiles(t, twin, dir)
	settings, err := localstore.StoredSettings(nil, twin)
	if err != nil {
		t.Fatalf("after the kill at %s: %v", when, err)
	}
	if settings == nil {
		return nil // killed before the crawl was created
	}
	var files *record.Files
	store, err := localstore.Open(localstore.Config{
		Dir: twin, Settings: settings,
		Filter: membits.Config{Capacity: filterSize, FPR: 1e-6, Growth: membits.GrowthOn, Shards: 64},
		OpenOutput: func(_ frontier.Identity, position frontier.Position) (_ frontier.Output, err error) {
			files, err = record.Open(record.Config{Dir: twin}, position)
			return files, err
		},
	})
	if err != nil {
		t.Fatalf("after the kill at %s: %v", when, err)
	}
	lines := parse(t, records(t, twin))
	audit(t, store, len(lines), when)
	pages := make(map[string]page)
	err = store.List(t.Context(), frontier.Queued, "", func(item frontier.Item) bool {
		pages[item.URL] = page{attempts: int(item.Attempts)}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines {
		if _, known := pages[l.URL]; known {
			t.Errorf("after the kill at %s: %s has two records, or has a record and is still queued", when, l.URL)
		}
		pages[l.URL] = page{done: true, attempts: l.Attempts}
	}
	if err := errors.Join(store.Close(), files.Close()); err != nil {
		t.Errorf("after the kill at %s: %v", when, err)
	}
	return pages
}

// copyFiles copies the regular files below a folder. It leaves out the socket of a
// killed crawl.
func copyFiles(t *testing.T, to, from string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		target := filepath.Join(to, below)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// audit compares the counters of a store with its tables, its filter and its records.
func audit(t *testing.T, store *localstore.Store, records int, when string) {
	t.Helper()
	a, err := store.Audit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Counters.Balance(); err != nil {
		t.Errorf("after the kill at %s: %v", when, err)
	}
	got := frontier.Books{Queued: a.Queued, Leased: a.Leased, Done: a.Done, Failed: a.Failed}
	want := frontier.Books{Queued: a.Counters.Queued, Leased: a.Counters.Leased, Done: a.Counters.Done, Failed: a.Counters.Failed}
	if got.Queued != want.Queued || got.Leased != want.Leased || got.Done != want.Done || got.Failed != want.Failed {
		t.Errorf("after the kill at %s: the tables have queued %d, leased %d, done %d, failed %d; the counters say %d, %d, %d, %d",
			when, got.Queued, got.Leased, got.Done, got.Failed, want.Queued, want.Leased, want.Done, want.Failed)
	}
	if a.Done+a.Failed != uint64(records) {
		t.Errorf("after the kill at %s: done %d + failed %d, but %d committed records", when, a.Done, a.Failed, records)
	}
	if off := a.Added - float64(a.Counters.Added); off < -5*a.AddedErr-1 || off > 5*a.AddedErr+1 {
		t.Errorf("after the kill at %s: the filter holds %.1f ± %.1f URLs, the counters say %d", when, a.Added, a.AddedErr, a.Counters.Added)
	}
}
