package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// webhook counts the events that it accepts. It refuses all while it is away.
type webhook struct {
	mu    sync.Mutex
	away  bool
	asked int
	got   map[string]int // by id
}

// ServeHTTP implements http.Handler.
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var e struct{ ID string }
	err := json.NewDecoder(r.Body).Decode(&e)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked++
	if h.away || err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	h.got[e.ID]++
}

// until waits until a condition holds, which is checked with the lock of h.
func (h *webhook) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		h.mu.Lock()
		is := holds()
		h.mu.Unlock()
		if is {
			return
		}
	}
	t.Fatalf("after 2 minutes still not: %s", what)
}

// TestEventsOfKilledWorker kills a worker of a crawl in Redis while the receiver of its events is away.
// Workers with other directories follow. As long as events are missing, metrics, summary and status say
// so, and the exit code is not 0. When the receiver answers, it gets every event. The records are
// in files or in Postgres.
func TestEventsOfKilledWorker(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, rows := range []bool{false, true} {
		t.Run(fmt.Sprintf("rows %t", rows), func(t *testing.T) {
			t.Parallel()
			held, release := make(chan struct{}, 1), make(chan struct{})
			site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				switch r.URL.Path {
				case "/":
					fmt.Fprint(w, `<a href=/1>1</a> <a href=/2>2</a> <a href=/3>3</a> <a href=http://b.test/held>4</a>`)
				case "/held":
					select {
					case held <- struct{}{}:
					default:
					}
					select {
					case <-release:
					case <-r.Context().Done():
					}
				}
			}))
			t.Cleanup(site.Close)
			hook := &webhook{away: true, got: make(map[string]int)}
			receiver := httptest.NewServer(hook)
			t.Cleanup(receiver.Close)
			temp := t.TempDir()
			named := []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "x"}
			more := []string{"--urls", "1000", "--partitions", "4", "--delay", "0", "--latency-factor", "0", "--scope", "any", "--retries", "0",
				"--connect-to", "*.test=" + site.Listener.Addr().String(), "--events", receiver.URL + "/", "--lease-time", "3s"}
			if rows {
				named = append(named, "--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN())
				more = append(more, "--sink", "postgres")
			}
			start := func(errs io.Writer, args ...string) *exec.Cmd {
				cmd := exec.Command(self, args...)
				cmd.Args[0], cmd.Dir, cmd.Stderr = "crawler", temp, errs
				cmd.Env = append(os.Environ(), "HOME="+temp)
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				return cmd
			}
			worker := func(errs io.Writer, dir string, seeds ...string) *exec.Cmd {
				return start(errs, slices.Concat([]string{"crawl", "--dir", filepath.Join(temp, dir)}, named, more, seeds)...)
			}

			var said bytes.Buffer
			first := worker(&said, "w1", "--grace", "1s", "http://a.test/")
			if err := first.Start(); err != nil {
				t.Fatal(err)
			}
			select {
			case <-held:
			case <-time.After(2 * time.Minute):
				t.Fatal("the first worker does not crawl")
			}
			hook.until(t, "the first worker sends events", func() bool { return hook.asked > 0 })
			_ = first.Process.Kill()
			_ = first.Wait()
			close(release)

			log := filepath.Join(temp, "log")
			file, err := os.Create(log)
			if err != nil {
				t.Fatal(err)
			}
			second := worker(file, "w2", "--grace", "1s", "--admin", "0", "--seeds", "-")
			feed, err := second.StdinPipe()
			if err == nil {
				err = second.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			address := regexp.MustCompile(`metrics on (http://127\.0\.0\.1:\d+/metrics)`)
			behind := regexp.MustCompile(`(?m)^crawler_relay_events\{relay="default".*\} [1-9]`)
			left := regexp.MustCompile(`(?m)^crawler_relay_left\{relay="default".*\} 1$`)
			hook.until(t, "the metrics of the second worker have missing events", func() bool {
				text, _ := os.ReadFile(log)
				found := address.FindSubmatch(text)
				if found == nil {
					return false
				}
				response, err := http.Get(string(found[1]))
				if err != nil {
					return false
				}
				defer response.Body.Close()
				metrics, _ := io.ReadAll(response.Body)
				return behind.Match(metrics) && (rows || left.Match(metrics)) // rows are delivered by the second worker
			})
			_ = feed.Close()
			_ = second.Wait()
			text, _ := os.ReadFile(log)
			if code := second.ProcessState.ExitCode(); code != 1 || !bytes.Contains(text, []byte("events are not delivered: relay default")) ||
				!bytes.Contains(text, []byte("\nto send them: crawler relay --redis ")) {
				t.Errorf("the second worker ended with exit code %d; want 1 and the command that sends the missing events: %s", code, text)
			}
			hook.until(t, "status says how to send the missing events", func() bool { // when the killed worker counts as dead
				status, err := start(nil, append([]string{"status"}, named...)...).Output()
				if err != nil || !regexp.MustCompile(`relay +default.* [1-9]\d* events? behind`).Match(status) {
					t.Fatalf("status (%v) does not say that events are missing: %s", err, status)
				}
				return bytes.Contains(status, []byte("\nto send them: crawler relay --redis "))
			})

			hook.mu.Lock()
			hook.away = false
			hook.mu.Unlock()
			said.Reset()
			third := worker(&said, "w3")
			if err := third.Run(); err != nil {
				t.Errorf("the third worker: %v: %s", err, &said)
			}
			want := make(map[string]int)
			fresh := start(io.Discard, slices.Concat([]string{"relay"}, named, []string{"--relay", "fresh", "--to", "-", "--drain"})...)
			if !rows {
				fresh.Args = append(fresh.Args, "--dir", temp)
			}
			lines, err := fresh.Output()
			for line := range strings.Lines(string(lines)) {
				var e struct{ ID string }
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatal(err)
				}
				want[e.ID]++
			}
			hook.mu.Lock()
			defer hook.mu.Unlock()
			got, all := slices.Sorted(maps.Keys(hook.got)), slices.Sorted(maps.Keys(want))
			if err != nil || len(all) != 5 || !slices.Equal(got, all) {
				t.Errorf("the receiver got %q, want %q (5 events; %v)", got, all, err)
			}
		})
	}
}
