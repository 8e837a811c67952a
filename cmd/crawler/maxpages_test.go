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

// TestMaxPagesOfKilledWorker kills one of three workers of a crawl in Redis shortly before --max-pages is
// reached. The others end with few pages more: they hold leases of many more. The books stay correct, and
// workers with a higher limit go on.
func TestMaxPagesOfKilledWorker(t *testing.T) {
	t.Parallel()
	const hosts, pages, workers, limit, most = 8, 200, 3, 60, 36
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
		show := func(flag string) ([]byte, error) {
			return exec.Command("crawler", slices.Concat([]string{"status", flag, "--dir", temp}, named)...).Output()
		}
		if out, err := show("--audit"); err != nil {
			t.Errorf("status --audit: %v: %s", err, out)
		}
		out, err := show("--json")
		var status struct{ Stats struct{ Pages int } }
		if err == nil {
			err = json.Unmarshal(out, &status)
		}
		if err != nil || status.Stats.Pages < maxPages || status.Stats.Pages > maxPages+most {
			t.Errorf("%d pages with limit %d (%v), want at most %d more", status.Stats.Pages, maxPages, err, most)
		}
	}
	crew("first", limit, near)
	crew("second", 3*limit, nil)
}
