package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestMaxPagesOfShared: a worker that has a crawl in Redis for itself requests and counts exactly as many
// pages as --max-pages permits, from many hosts at once, also in later runs with a higher limit.
func TestMaxPagesOfShared(t *testing.T) {
	t.Parallel()
	const hosts, pages = 8, 50
	var asked atomic.Int32
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		time.Sleep(10 * time.Millisecond) // so that requests overlap
		w.Header().Set("Content-Type", "text/html")
		for n := range pages {
			fmt.Fprintf(w, `<a href="/%d">x</a>`, n)
		}
	}))
	t.Cleanup(site.Close)
	temp := t.TempDir()
	at := []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "x", "--dir", filepath.Join(temp, "w")}
	for _, limit := range []int32{1, 2, 60, 61, 200} {
		args := append([]string{"crawl", "--urls", "10000", "--partitions", "4", "--delay", "0", "--latency-factor", "0",
			"--scope", "any", "--robots", "ignore", "--host-concurrency", "4", "--connect-to", "*.test=" + site.Listener.Addr().String(),
			"--max-pages", fmt.Sprint(limit)}, at...)
		for h := range hosts {
			args = append(args, fmt.Sprintf("http://h%d.test/", h))
		}
		cmd := exec.Command("crawler", args...)
		cmd.Env = append(os.Environ(), "HOME="+temp)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--max-pages is reached") {
			t.Fatalf("limit %d: %v: %s", limit, err, out)
		}
		counted := crawledPages(t, temp, at)
		if counted != int(limit) || asked.Load() != limit {
			t.Errorf("limit %d: %d pages after %d requests", limit, counted, asked.Load())
		}
	}
}

// crawledPages returns the number of pages in the status of a crawl. The argument at has the flags that name
// the crawl.
func crawledPages(t *testing.T, home string, at []string) int {
	t.Helper()
	cmd := exec.Command("crawler", append([]string{"status", "--json"}, at...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	out, err := cmd.Output()
	var status struct{ Stats struct{ Pages int } }
	if err == nil {
		err = json.Unmarshal(out, &status)
	}
	if err != nil {
		t.Fatalf("status --json: %v: %s", err, out)
	}
	return status.Stats.Pages
}

// TestMaxPagesOfKilledWorker kills one of three workers of a crawl in Redis shortly before --max-pages is
// reached. The others end with few pages more: they hold leases of many more. The books stay correct, and
// workers with a higher limit go on.
func TestMaxPagesOfKilledWorker(t *testing.T) {
	t.Parallel()
	const hosts, pages, workers, limit, most = 8, 200, 3, 60, 24
	var asked atomic.Int32
	near := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == limit-workers {
			close(near)
		}
		time.Sleep(200 * time.Millisecond)
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path != "/" {
			return
		}
		for n := range pages {
			fmt.Fprintf(w, `<a href="/%d">x</a>`, n)
		}
	}))
	t.Cleanup(site.Close)
	temp := t.TempDir()
	named := []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "x"}
	start := func(dir string, maxPages int) (*exec.Cmd, *bytes.Buffer) {
		said := new(bytes.Buffer)
		args := append(named, "--dir", filepath.Join(temp, dir), "--urls", "10000", "--partitions", "4", "--delay", "0",
			"--latency-factor", "0", "--scope", "any", "--robots", "ignore", "--concurrency", "4", "--lease-time", "3s",
			"--connect-to", "*.test="+site.Listener.Addr().String(), "--max-pages", fmt.Sprint(maxPages))
		for h := range hosts {
			args = append(args, fmt.Sprintf("http://h%d.test/", h))
		}
		cmd := exec.Command("crawler", slices.Concat([]string{"crawl"}, args)...)
		cmd.Env, cmd.Stderr = append(os.Environ(), "HOME="+temp), said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, said
	}
	crew := func(round string, maxPages int, kill <-chan struct{}) {
		t.Helper()
		var running sync.WaitGroup
		for n := range workers {
			worker, said := start(fmt.Sprint(round, n), maxPages)
			if n == 0 && kill != nil {
				running.Go(func() {
					<-kill
					_ = worker.Process.Kill()
					_ = worker.Wait()
				})
				continue
			}
			running.Go(func() {
				if err := worker.Wait(); err != nil || !strings.Contains(said.String(), "--max-pages is reached") {
					t.Errorf("worker %d with limit %d: %v: %s", n, maxPages, err, said)
				}
			})
		}
		running.Wait()
		audit := exec.Command("crawler", append([]string{"status", "--audit", "--dir", temp}, named...)...)
		if out, err := audit.Output(); err != nil {
			t.Errorf("status --audit: %v: %s", err, out)
		}
		if got := crawledPages(t, temp, append(named, "--dir", temp)); got < maxPages || got > maxPages+most {
			t.Errorf("%d pages with limit %d, want at most %d more", got, maxPages, most)
		}
	}
	crew("first", limit, near)
	crew("second", 3*limit, nil)
}
