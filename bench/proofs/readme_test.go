package proofs

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// TestReadmeWorkers runs three workers as the section "Many machines" of README.md does. All
// workers have the same seed and the same limit of pages (--max-pages). Each worker must
// fetch some pages.
func TestReadmeWorkers(t *testing.T) {
	redis := servers.Redis(t, servers.RedisOptions{})
	web := serveSite(t, testweb.Config{Seed: 1, Hosts: 40, Pages: 2000}, nil)
	bin, dir := crawlerBinary(t), t.TempDir()
	var workers []*process
	for w := range 3 {
		workers = append(workers, command(t, bin, "crawl", "--redis", redis.URL(), "--name", "go",
			"--worker", fmt.Sprint("w", w+1), "--dir", filepath.Join(dir, fmt.Sprint("w", w+1)),
			"--scope", "any", "--max-pages", sized("150", "300"),
			"--connect-to", "*="+web.addr, "--allow-private", web.Seeds()[0]))
	}
	total := 0
	for i, w := range workers {
		if e := w.wait(); e.code != 0 {
			t.Fatalf("worker %d: exit code %d\n%s", i+1, e.code, e.stderr)
		}
		pages := bytes.Count(records(t, filepath.Join(dir, fmt.Sprint("w", i+1))), []byte("\n"))
		t.Logf("worker %d has %d records", i+1, pages)
		if pages == 0 {
			t.Errorf("worker %d of the three in README.md has no records", i+1)
		}
		total += pages
	}
	if total < sized(150, 300) {
		t.Errorf("all workers together have %d records, want at least %d (--max-pages)", total, sized(150, 300))
	}
}
