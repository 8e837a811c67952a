package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestHostsOfKilledWorker kills a process while it has leased a host. The hosts, the status and, of a crawl in Redis
// that another worker goes on with, the line about what the crawl waits for say that the lease is that of a dead worker.
func TestHostsOfKilledWorker(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %t", shared), func(t *testing.T) {
			t.Parallel()
			held := make(chan struct{}, 9)
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
					return
				}
				held <- struct{}{}
				<-r.Context().Done()
			}))
			t.Cleanup(site.Close)
			temp := t.TempDir()
			named := []string{"--dir", filepath.Join(temp, "w1")}
			if shared {
				named = []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "x"}
			}
			start := func(args ...string) *exec.Cmd {
				cmd := exec.Command(self, args...)
				cmd.Args[0], cmd.Dir = "crawler", temp
				cmd.Env = append(os.Environ(), "HOME="+temp)
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				return cmd
			}
			worker := func(dir string, seeds ...string) *exec.Cmd {
				args := slices.Concat([]string{"crawl"}, named, []string{"--urls", "1000", "--delay", "0", "--latency-factor", "0",
					"--timeout", "1h", "--connect-to", "*.test=" + site.Listener.Addr().String()}, seeds)
				if shared {
					args = append(args, "--lease-time", "10m", "--worker", dir, "--dir", filepath.Join(temp, dir))
				}
				cmd := start(args...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-held:
				case <-time.After(2 * time.Minute):
					t.Fatal("the worker does not crawl")
				}
				return cmd
			}
			first := worker("w1", "http://a.test/")
			asks := func(pattern string, command ...string) {
				t.Helper()
				match := regexp.MustCompile(pattern)
				for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
					text, err := start(append(command, named...)...).Output()
					if err != nil {
						t.Fatalf("%q: %v", command, err)
					}
					if match.Match(text) {
						return
					}
					if time.Now().After(end) {
						t.Fatalf("%q prints %s, want %s", command, text, pattern)
					}
				}
			}
			asks(`"waits_for":"worker"`, "hosts", "--json")
			if shared {
				asks(`"worker":"w1"`, "hosts", "--json", "--host", "a.test")
			}
			_ = first.Process.Kill()
			_ = first.Wait()
			asks(`(?m)^a\.test .* waits until the lease of a dead worker ends`, "hosts")
			asks(`(?m)^a\.test .* waits until the lease of a dead worker ends`, "hosts", "--trouble")
			asks(`(?m)^  now +no process runs it, and 1 host has queued URLs \(crawler crawl\)$`, "status")
			if shared {
				second := worker("w2", "http://b.test/")
				asks(`(?s)now +1 of 2 hosts is being crawled,\s+1\s+waits\s+until\s+the\s+lease\s+of\s+a\s+dead\s+worker\s+ends\s+at`, "status")
				asks(`"lost_worker":\{"hosts":1,`, "status", "--json")
				_ = second.Process.Kill()
				_ = second.Wait()
			}
		})
	}
}
