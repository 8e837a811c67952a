package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestCrawlOutlivesSilentRedis: while Redis does not answer, the crawl reports that Redis
// limits its speed. The crawl continues when Redis answers again.
func TestCrawlOutlivesSilentRedis(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, servers.RedisOptions{})
	connectTo, held, release := heldSite(t)
	dir := filepath.Join(t.TempDir(), "w")
	var errs bytes.Buffer
	ended := started(&errs, "crawl", "--redis", server.URL(), "--name", "silent", "--dir", dir, "--urls", "10k", "--partitions", "2",
		"--delay", "0", "--scope", "any", "--connect-to", connectTo, "http://a.test/")
	<-held
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	release()
	words := ""
	for deadline := time.Now().Add(time.Minute); !strings.Contains(words, "Redis has not answered for "); {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, the limit of the crawl is %q, want that Redis has not answered", words)
		}
		s := sampleOf(t, dir)
		words = report.Limiting([]report.Gauges{s.Gauges}).Words()
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != exitOK || !strings.Contains(errs.String(), "+ 0 leased + 3 done + 0 failed") {
		t.Errorf("after Redis answered again: exit code %d: %s", code, &errs)
	}
}

// siteOfCrew returns what to pass to --connect-to for a site that begins to answer when begin is called.
func siteOfCrew(t *testing.T) (connectTo string, begin func()) {
	t.Helper()
	begun, proxy := make(chan struct{}), httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: site(t)})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-begun
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	begin = sync.OnceFunc(func() { close(begun) })
	t.Cleanup(begin)
	return "*.test=" + server.Listener.Addr().String(), begin
}

// TestTwoWorkers: two workers share a crawl. Each page has one record in the export, and
// the books balance.
func TestTwoWorkers(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (url string){
		"server": func(t *testing.T) string { return servers.Redis(t, servers.RedisOptions{}).URL() },
		// The URL of a cluster names several of its nodes.
		"cluster": func(t *testing.T) string {
			return servers.RedisCluster(t, servers.ClusterOptions{NodeTimeout: time.Minute}).URL()
		},
	} {
		t.Run(name, func(t *testing.T) {
			shared := []string{"--redis", open(t), "--name", "two"}
			t.Chdir(t.TempDir())
			connectTo, begin := siteOfCrew(t)
			crawl := slices.Concat([]string{"crawl"}, shared, []string{"--urls", "10k", "--partitions", "8", "--delay", "20ms", "--retries", "0",
				"--latency-factor", "0", "--scope", "any", "--max-depth", "1", "--connect-to", connectTo,
				"http://a.test/", "http://b.test/", "http://c.test/"})
			var first, second output
			one, two := started(&first, crawl...), started(&second, crawl...)
			first.await(t, "records in")
			second.await(t, "records in")
			begin()
			if a, b := <-one, <-two; a != exitOK || b != exitOK {
				t.Fatalf("exit codes of the workers: %d and %d: %s%s", a, b, &first, &second)
			}
			code, out, errs := run(t, "", append([]string{"export"}, shared...)...)
			if code != exitOK {
				t.Fatalf("export: exit code %d: %s", code, errs)
			}
			records := make(map[string]int)
			for line := range strings.Lines(out) {
				_, rest, _ := strings.Cut(line, `"url":"`)
				url, _, _ := strings.Cut(rest, `"`)
				records[url]++
			}
			// There are three hosts with nine pages each. They link to one page of a
			// fourth host, and to one page of a host without a public address.
			const want = 3*9 + 2
			if len(records) != want {
				t.Errorf("%d URLs have records, want %d: %v", len(records), want, records)
			}
			for url, n := range records {
				if n != 1 {
					t.Errorf("%s has %d records, want 1", url, n)
				}
			}
			sameOutput(t, out, shared)
			code, out, errs = run(t, "", append([]string{"status", "--audit"}, shared...)...)
			if code != exitOK || !strings.Contains(out, "records of 2 workers") || !strings.Contains(out, "the books balance\n") {
				t.Errorf("audit: exit code %d, want balanced books, and 2 workers: %s%s", code, out, errs)
			}
		})
	}
}

// sharedCrawl starts a Redis and runs a crawl in this Redis to its end. The records are
// below the current directory. sharedCrawl returns the server, and the flags that name the
// crawl.
func sharedCrawl(t *testing.T) (server *servers.RedisServer, flags []string) {
	t.Helper()
	server = servers.Redis(t, servers.RedisOptions{})
	t.Chdir(t.TempDir())
	flags = []string{"--redis", server.URL(), "--name", "c"}
	code, _, errs := run(t, "", slices.Concat([]string{"crawl"}, flags, []string{"--urls", "1000", "--partitions", "2", "--delay", "0",
		"--retries", "0", "--connect-to", "*.test=" + site(t), "http://a.test/a"})...)
	if code != exitOK {
		t.Fatalf("crawl: exit code %d: %s", code, errs)
	}
	return server, flags
}

// TestErrorsOfSharedCrawl: a process that has no part in a crawl in Redis reports the failures of all its
// workers by cause, with examples.
func TestErrorsOfSharedCrawl(t *testing.T) {
	shared := []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "c"}
	t.Chdir(t.TempDir())
	address := site(t)
	for _, worker := range []string{"one", "two"} {
		must(t, slices.Concat([]string{"crawl"}, shared, []string{"--dir", worker, "--urls", "1000", "--partitions", "2", "--delay", "0",
			"--retries", "1", "--backoff", "1ms", "--connect-to", "*.test=" + address, "http://" + worker + ".test/broken", "http://" + worker + ".test/ok"})...)
	}
	for _, command := range [][]string{{"status", "--json"}, {"report", "--json", "--probe", "1ms"}} {
		var said struct {
			Errors report.Errors `json:"errors_by_cause"`
		}
		if err := json.Unmarshal([]byte(must(t, slices.Concat(command, shared)...)), &said); err != nil {
			t.Fatal(err)
		}
		var urls []string
		if len(said.Errors) == 1 {
			for _, e := range said.Errors[0].Examples {
				urls = append(urls, e.URL)
			}
		}
		if len(said.Errors) != 1 || said.Errors[0].Cause != "status_500" || said.Errors[0].Count != 4 ||
			!slices.Equal(urls, []string{"http://one.test/broken", "http://two.test/broken"}) {
			t.Errorf("%s: %+v, want four times status_500, with examples of both workers", command[0], said.Errors)
		}
	}
	if out := must(t, append([]string{"status"}, shared...)...); !strings.Contains(out, "\n  errors      status_500 4\n") ||
		!strings.Contains(out, " http://two.test/broken: status 500 Internal Server Error\n") {
		t.Errorf("status: no errors by cause in\n%s", out)
	}
}

// TestWatchShared: status --watch prints the state of a shared crawl until the command is
// interrupted.
func TestWatchShared(t *testing.T) {
	_, flags := sharedCrawl(t)
	for _, test := range []struct {
		more []string
		want string
	}{
		{nil, `(?m)^[0-9:]{8}  7 pages, 0\.0/s, 0 queued, 0 leased, 0 hosts, 0 workers$`},
		{[]string{"--json"}, `(?m)^\{"running":false,"stats":\{"found":`},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		out := &lineCounter{maxLines: 2, full: cancel}
		var errs bytes.Buffer
		code := Run(ctx, slices.Concat([]string{"status", "--watch"}, flags, test.more), strings.NewReader(""), out, &errs)
		cancel()
		if got := regexp.MustCompile(test.want).FindAllString(out.String(), -1); code != exitOK || len(got) != 2 {
			t.Errorf("status --watch %q: exit code %d, %d lines match, want 2: %s%s", test.more, code, len(got), out, &errs)
		}
	}
}

// lineCounter is a buffer that calls the function full when it contains maxLines lines.
type lineCounter struct {
	bytes.Buffer
	maxLines int
	full     func()
}

func (c *lineCounter) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if bytes.Count(c.Bytes(), []byte("\n")) >= c.maxLines {
		c.full()
	}
	return n, err
}

// TestDeleteAsks: on a terminal, delete removes the crawl only if the user types the name
// of the crawl.
func TestDeleteAsks(t *testing.T) {
	_, flags := sharedCrawl(t)
	for _, test := range []struct {
		typed, want string
		code        int
	}{{"d\r", "nothing was removed", exitFailed}, {"c\r", "is removed", exitOK}} {
		terminal, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := terminal.WriteString(test.typed); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := Run(t.Context(), append([]string{"delete"}, flags...), tty, &out, &errs)
		if code != test.code || !strings.Contains(out.String()+errs.String(), test.want) {
			t.Errorf("typed %q: exit code %d, want %d and %q: %s%s", test.typed, code, test.code, test.want, &out, &errs)
		}
		_, _ = tty.Close(), terminal.Close()
	}
}

// TestRebuildShared: a lost filter is rebuilt from the records. After that, no crawled URL
// counts as new.
func TestRebuildShared(t *testing.T) {
	server, flags := sharedCrawl(t)
	keys, err := server.Client().Keys(t.Context(), "{*}f0.*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("Redis has the filter keys %q (%v), want at least one", keys, err)
	}
	if err := server.Client().Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	crawl := slices.Concat([]string{"crawl"}, flags, []string{"--retries", "0", "--connect-to", "*.test=" + site(t), "http://a.test/a"})
	if code, _, errs := run(t, "", crawl...); code != exitFailed || !strings.Contains(errs, "filter lost") || !strings.Contains(errs, program()+" rebuild --redis ") {
		t.Errorf("crawl without its filter: exit code %d, want an error that names crawler rebuild: %s", code, errs)
	}
	if code, _, errs := run(t, "", append([]string{"rebuild", "--dir", t.TempDir()}, flags...)...); code != exitUsage || !strings.Contains(errs, "the records of all workers are wanted") {
		t.Errorf("rebuild from the records of one directory: exit code %d, want a usage error: %s", code, errs)
	}
	code, out, errs := run(t, "", append([]string{"rebuild"}, flags...)...)
	if code != exitOK || !strings.HasSuffix(out, " holds 7 URLs again\n") {
		t.Fatalf("rebuild: exit code %d, want 7 URLs in the filter again: %s%s", code, out, errs)
	}
	if code, _, errs := run(t, "", crawl...); code != exitOK || !strings.Contains(errs, "  added       7 = 0 queued + 0 leased + 7 done + 0 failed\n") {
		t.Errorf("crawl after rebuild: exit code %d, want 7 URLs added, and all done: %s", code, errs)
	}
}
