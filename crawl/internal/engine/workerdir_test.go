package engine

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// journal opens a worker's journal for a test.
func journal(t *testing.T, card workerCard, dir string) (*record.Journal, string) {
	t.Helper()
	j, dir, err := card.openJournal(dir, record.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return j, dir
}

// TestWorkerDirectories: two workers never share a directory, and a worker that restarts
// finds its own.
func TestWorkerDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	card, other := workerCard{workerFormat, "web", "abc", ""}, workerCard{workerFormat, "web", "xyz", ""}
	one, first := journal(t, card, "")
	two, second := journal(t, card, "")
	if first == second || filepath.Dir(first) != "web.crawl" {
		t.Fatalf("two workers got the directories %s and %s, want different ones in web.crawl", first, second)
	}
	if info, err := os.Stat("web.crawl"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("web.crawl has the mode %v (%v), want 0700", info.Mode(), err)
	}
	if locked, err := Locked(first); !locked || err != nil {
		t.Errorf("Locked of a journal that is open = %t, %v", locked, err)
	}
	if _, _, err := card.openJournal(first, record.Config{}); err == nil || !strings.Contains(err.Error(), "in use by another worker") {
		t.Errorf("openJournal of a directory that is in use: %v, want an error that says so", err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if locked, err := Locked(first); locked || err != nil {
		t.Errorf("Locked of a journal that is closed = %t, %v", locked, err)
	}
	again, third := journal(t, card, "")
	if third != first {
		t.Errorf("a restarted worker got the directory %s, want the one it had: %s", third, first)
	}
	// A crawl that was deleted and created again has another id.
	fresh, fourth := journal(t, other, "")
	if fourth == first || fourth == second {
		t.Errorf("another crawl of the same name got the directory %s, want a new one", fourth)
	}
	for _, j := range []*record.Journal{two, again, fresh} {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := other.openJournal(first, record.Config{}); !errors.Is(err, errOtherCrawl) {
		t.Errorf("openJournal of the directory of another crawl: %v, want errOtherCrawl", err)
	}
	embedded := t.TempDir()
	if err := os.WriteFile(filepath.Join(embedded, CrawlFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := card.openJournal(embedded, record.Config{}); !errors.Is(err, errOtherCrawl) {
		t.Errorf("openJournal of the directory of an embedded crawl: %v, want errOtherCrawl", err)
	}
	if _, err := os.Stat(filepath.Join(embedded, journalLock)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Stat of %s in the directory of an embedded crawl: %v, want that it does not exist", journalLock, err)
	}
}

// TestEdgesOfWorkers: EdgesOf finds the links of a worker, whatever the name of its directory
// is. It returns ErrNoLinks if no worker has links.
func TestEdgesOfWorkers(t *testing.T) {
	without, with := t.TempDir(), filepath.Join(t.TempDir(), "news[2024]*?.crawl")
	if err := os.Mkdir(with, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(without, "pages.jsonl"), filepath.Join(without, "links.lock"), filepath.Join(with, "links-000001.jsonl.zst")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := EdgesOf(merged{dirs: []string{without}}); !errors.Is(err, ErrNoLinks) {
		t.Errorf("EdgesOf of a worker without links: %v, want ErrNoLinks", err)
	}
	if _, err := EdgesOf(merged{dirs: []string{without, with}}); err != nil {
		t.Errorf("EdgesOf of two workers, one with links: %v", err)
	}
	if _, err := EdgesOf(merged{dirs: []string{filepath.Join(without, "missing")}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("EdgesOf of a directory that is missing: %v, want an error that says so", err)
	}
}
