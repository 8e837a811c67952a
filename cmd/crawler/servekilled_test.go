package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// served is a process of `crawler serve`.
type served struct {
	*testing.T
	cmd *exec.Cmd
	url string
}

// serveCrawls starts `crawler serve`, and waits until it listens.
func serveCrawls(t *testing.T, root string, flags ...string) *served {
	t.Helper()
	args := append([]string{"serve", "--root", root, "--listen", "127.0.0.1:0", "--set", "urls=10k", "--set", "allow-private=true",
		"--set", "delay=0s", "--set", "retries=0", "--set", "backoff=1ms"}, flags...)
	cmd := exec.Command("crawler", args...)
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines, all := bufio.NewScanner(said), ""
	for lines.Scan() {
		all += lines.Text() + "\n"
		if found := regexp.MustCompile(`http://\S+/v1/crawls`).FindString(lines.Text()); found != "" {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return &served{t, cmd, strings.TrimSuffix(found, "/v1/crawls")}
		}
	}
	t.Fatalf("crawler serve does not listen: %s", all)
	return nil
}

// request sends a request. It returns an error if the process died meanwhile.
func (s *served) request(method, path, key, body string) (status int, text string, replayed bool, err error) {
	request, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", false, err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), response.Header.Get("Idempotent-Replayed") == "true", err
}

// must sends a request that succeeds, and decodes the answer into each of the values.
func (s *served) must(method, path, key, body string, into ...any) (text string, replayed bool) {
	s.Helper()
	status, text, replayed, err := s.request(method, path, key, body)
	if err != nil || status > 299 {
		s.Fatalf("%s %s: %d %s %v", method, path, status, text, err)
	}
	for _, value := range into {
		if err := json.Unmarshal([]byte(text), value); err != nil {
			s.Fatalf("%v: %s", err, text)
		}
	}
	return text, replayed
}

// stop ends the process with SIGTERM.
func (s *served) stop() {
	s.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); s.cmd.ProcessState.ExitCode() != 143 {
		s.Fatalf("crawler serve ended with %v, want exit code 143", err)
	}
}

// crawlState is a part of the state of a crawl.
type crawlState struct {
	State  string
	Status struct {
		Stats struct{ Added, Queued, Failed uint64 }
	}
}

// TestServeKilled kills `crawler serve` at each step of each kind of change. The repeated request has the answer of a request
// without a crash, each change has one effect, and a further repeat is a replay.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	t.Run("dir", func(t *testing.T) {
		t.Parallel()
		serveWhileKilled(t, "", "requeued,serve retried", "serve seeds added,idempotency answer")
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		url := servers.Redis(t, servers.RedisOptions{AppendOnly: true}).URL()
		serveWhileKilled(t, url, "chunk begun,chunk answered,serve retried", "chunk begun,offered,chunk answered,serve seeds added,idempotency answer")
	})
}

// serveWhileKilled serves crawls in a directory, or in a Redis if its URL is given. The points are those of a retry and of seeds.
func serveWhileKilled(t *testing.T, redis, retryPoints, seedPoints string) {
	root := filepath.Join(t.TempDir(), "crawls")
	var place []string
	if redis != "" {
		place = []string{"--redis", redis}
	}
	at := func(name string) []string {
		if redis != "" {
			return append([]string{"--name", name}, place...)
		}
		return []string{"--dir", filepath.Join(root, name+".crawl")}
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	s := serveCrawls(t, root, place...)
	s.must("POST", "/v1/crawls", "base", `{"name":"base","run":false}`)
	s.must("POST", "/v1/crawls", "fail", `{"name":"fail"}`)
	s.must("POST", "/v1/crawls/fail/seeds", "fail", `{"seeds":["`+closed.URL+`/"]}`)
	if redis != "" {
		worker := append([]string{"crawl", "--allow-private", "--dir", filepath.Join(t.TempDir(), "worker")}, at("fail")...)
		if out, err := exec.Command("crawler", worker...).CombinedOutput(); err != nil {
			t.Logf("worker: %v\n%s", err, out)
		}
	}
	var state crawlState
	for end := time.Now().Add(time.Minute); state.Status.Stats.Failed != 1; time.Sleep(50 * time.Millisecond) {
		if s.must("GET", "/v1/crawls/fail", "", "", &state); time.Now().After(end) {
			t.Fatalf("no failure: %+v", state)
		}
	}
	s.must("POST", "/v1/crawls/fail/stop", "stop", "")
	s.stop()
	var lines bytes.Buffer
	for i := range 2500 {
		fmt.Fprintf(&lines, "http://h%d.test/%d\n", i%9, i)
	}
	versions := func(s *served) int {
		var list struct{ Versions []struct{} }
		s.must("GET", "/v1/crawls/base/settings/history", "", "", &list)
		return len(list.Versions)
	}
	want := crawlState{}
	wantVersions := 0
	for i, c := range []struct {
		points             string
		method, path, body string
		answer             string // a regular expression
		added              uint64
		versions           int
	}{
		{"serve create intent,serve create opened,idempotency effect,idempotency committed", "POST", "/v1/crawls", `{"name":"%s","run":false,"settings":["max-pages=5"]}`, `^\{"name":"%s",.*"max-pages=5"`, 0, 0},
		{seedPoints, "POST", "/v1/crawls/base/seeds", `{"seeds":["http://%s.test/","x:y","http://%[1]s.test/#2"]}`, `"added":1,"seen":1,"refused":1`, 1, 0},
		{"serve chunk added,serve chunk stored,serve upload done", "POST", "/v1/crawls/base/uploads", "http://%s.up.test/\n" + strings.ReplaceAll(lines.String(), "http://", "http://%[1]s."), `"added":2501,"seen":0,"refused":0,"lines":2501`, 2501, 0},
		{"serve policy changed", "PATCH", "/v1/crawls/base/settings", `{"settings":["exclude+=/%s/"],"why":"killed"}`, `^\{"version":.*\]\}\}\s*$`, 0, 1},
		{"serve policy changed", "POST", "/v1/crawls/base/drops", `{"rule":"host=%s.drop.test"}`, `^\{"version":.*\]\}\}\s*$`, 0, 1},
		{"idempotency effect", "POST", "/v1/crawls/base/pause", ``, `"paused":true`, 0, 0},
		{retryPoints, "POST", "/v1/crawls/fail/retries", `{}`, `"urls":`, 0, 0},
		{"serve delete intent,serve delete removed,idempotency effect", "DELETE", "/v1/crawls/%s", ``, `^$`, 0, 0},
	} {
		for j, point := range strings.Split(c.points, ",") {
			name := fmt.Sprintf("c%d-%d", i, j)
			fill := func(text string) string {
				if !strings.Contains(text, "%") {
					return text
				}
				return fmt.Sprintf(text, name)
			}
			if c.method == "DELETE" {
				s = serveCrawls(t, root, place...)
				s.must("POST", "/v1/crawls", name+"-made", `{"name":"`+name+`"}`)
				s.stop()
			}
			dying := serveCrawls(t, root, append([]string{"--crash-at", point + ":1"}, place...)...)
			if status, text, _, err := dying.request(c.method, fill(c.path), name, fill(c.body)); err == nil {
				t.Fatalf("%s %s: %d %s, although the process ends at %q", c.method, c.path, status, text, point)
			}
			if err := dying.cmd.Wait(); err == nil || dying.cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("at %q the process ended with %v, want SIGKILL", point, err)
			}
			s = serveCrawls(t, root, place...)
			text, _ := s.must(c.method, fill(c.path), name, fill(c.body))
			if !regexp.MustCompile(fill(c.answer)).MatchString(text) {
				t.Errorf("%s %s after a crash at %q: %s, want %s", c.method, fill(c.path), point, text, fill(c.answer))
			}
			if again, replayed := s.must(c.method, fill(c.path), name, fill(c.body)); again != text || !replayed {
				t.Errorf("%s %s after a crash at %q: repeats have %s and %s, replayed %t", c.method, fill(c.path), point, text, again, replayed)
			}
			want.Status.Stats.Added += c.added
			wantVersions += c.versions
			if s.must("GET", "/v1/crawls/base", "", "", &state); state.Status.Stats.Added != want.Status.Stats.Added || versions(s) != wantVersions {
				t.Errorf("after %q: %d URLs added and %d versions, want %d and %d", point, state.Status.Stats.Added, versions(s), want.Status.Stats.Added, wantVersions)
			}
			if status, _, _, err := s.request("GET", "/v1/crawls/"+name, "", ""); err != nil || i == 0 && status != 200 || c.method == "DELETE" && status != 404 {
				t.Errorf("after %q: crawl %s has the status %d, %v", point, name, status, err)
			}
			s.stop()
		}
	}
	s = serveCrawls(t, root, place...)
	var list struct{ Crawls []struct{ Name string } }
	if s.must("GET", "/v1/crawls", "", "", &list); len(list.Crawls) != 2+4 {
		t.Errorf("crawls: %+v", list)
	}
	if s.must("GET", "/v1/crawls/fail", "", "", &state); state.Status.Stats.Queued != 1 {
		t.Errorf("%d URLs queued again, want 1", state.Status.Stats.Queued)
	}
	s.stop()
	for _, name := range []string{"base", "fail", "c0-0"} {
		if out, err := exec.Command("crawler", append([]string{"status", "--audit"}, at(name)...)...).CombinedOutput(); err != nil {
			t.Errorf("audit of %s: %v\n%s", name, err, out)
		}
	}
	var exit *exec.ExitError
	if out, err := exec.Command("crawler", "serve", "--root", root, "--listen", ":0").CombinedOutput(); !errors.As(err, &exit) || !strings.Contains(string(out), "needs tokens") {
		t.Errorf("an address that is not loopback, without tokens: %v %s", err, out)
	}
}
