package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// asProgram is an environment variable. If it is set, the test binary runs the program
// instead of the tests.
const asProgram = "LIBRARY_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

type process struct {
	*exec.Cmd
	lines  *bufio.Scanner // of stdout
	stderr bytes.Buffer
}

// start starts the program, which is killed at the end of the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.CommandContext(t.Context(), os.Args[0], args...)}
	p.Env = append(os.Environ(), asProgram+"=1")
	p.Stderr = &p.stderr
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	p.lines.Buffer(nil, 1<<20)
	return p
}

// rest returns the remaining lines of the program's output. It fails the test if the
// program ends with an error.
func (p *process) rest(t *testing.T) (lines []string) {
	t.Helper()
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	if err := cmp.Or(p.lines.Err(), p.Wait()); err != nil {
		t.Fatalf("%v: %v\n%s", p.Args[1:], err, p.stderr.String())
	}
	return lines
}

// site serves pages on several loopback addresses with the same port. Each page links to
// the first page and the next two pages of every host. site returns the URLs of all
// pages, beginning with the first page of the first host.
func site(t *testing.T, hosts, pages int) (urls []string) {
	t.Helper()
	mux := http.NewServeMux()
	server := &http.Server{Handler: mux}
	t.Cleanup(func() { _ = server.Close() })
	port := "0"
	var names []string
	for i := range hosts {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%s", i+1, port))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, listener.Addr().String())
		_, port, _ = net.SplitHostPort(names[0])
		go server.Serve(listener) //nolint:errcheck // it returns after Close
	}
	for page := range pages {
		path := fmt.Sprintf("/%d", page)
		for _, name := range names {
			urls = append(urls, "http://"+name+path)
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<title>Page %s%s</title><p>%s</p>", r.Host, r.URL.Path, strings.Repeat("x", page+1)) // a text of its own
			for _, name := range names {
				for next := page + 1; next < min(page+3, pages); next++ {
					fmt.Fprintf(w, "<a href=http://%s/%d>next</a>", name, next)
				}
				fmt.Fprintf(w, "<a href=http://%s/0>first</a>", name)
			}
		})
	}
	return urls
}

// recorded returns the number of records of each URL.
func recorded(t *testing.T, lines []string) map[string]int {
	t.Helper()
	times := make(map[string]int)
	for _, line := range lines {
		var record struct{ URL, State string }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("record %q: %v", line, err)
		}
		times[record.URL]++
	}
	return times
}

// holdsEach checks that counts has the value 1 for each of the URLs, and no other URL.
func holdsEach(t *testing.T, counts map[string]int, urls []string) {
	t.Helper()
	want := make(map[string]int)
	for _, url := range urls {
		want[url] = 1
	}
	if !maps.Equal(counts, want) {
		t.Errorf("%d URLs have records, want one record for each of %d URLs: %v", len(counts), len(want), counts)
	}
}

// TestImportsCrawlOnly checks that the program imports only package crawl of the module.
func TestImportsCrawlOnly(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var ours []string
	for _, i := range file.Imports {
		if strings.Contains(i.Path.Value, "bloomfrontier") {
			ours = append(ours, i.Path.Value)
		}
	}
	if want := []string{`"github.com/bloomfrontier/crawler/crawl"`}; !slices.Equal(ours, want) {
		t.Errorf("main.go imports %v of the module, want %v", ours, want)
	}
}

// TestCrawl checks that a crawl calls OnPage for each page and writes a record of it.
func TestCrawl(t *testing.T) {
	urls := site(t, 1, 20)
	dir := filepath.Join(t.TempDir(), "site.crawl")
	var titles []string
	for _, url := range urls {
		titles = append(titles, url+"\tPage "+strings.TrimPrefix(url, "http://"))
	}
	got := start(t, "crawl", "-dir", dir, "-private", "-delay", "1ms", urls[0]).rest(t)
	slices.Sort(got)
	slices.Sort(titles)
	if !slices.Equal(got, titles) {
		t.Errorf("printed %q, want %q", got, titles)
	}
	holdsEach(t, recorded(t, start(t, "records", "-dir", dir).rest(t)), urls)
}

// TestResume kills a crawl, resumes it, stops it, and resumes it again. Before and
// after the kill, other processes inspect the crawl. At the end, each page has one
// record.
func TestResume(t *testing.T) {
	urls := site(t, 1, 60)
	dir := filepath.Join(t.TempDir(), "site.crawl")
	crawl := []string{"crawl", "-dir", dir, "-private", "-delay", "30ms", urls[0]}
	killed := start(t, crawl...)
	for range 10 {
		if !killed.lines.Scan() {
			t.Fatalf("the crawl ended before it printed 10 pages: %s", killed.stderr.String())
		}
	}
	if got := start(t, "status", "-dir", dir).rest(t); len(got) != 1 || !strings.HasPrefix(got[0], "running=true done=") {
		t.Errorf("status of a running crawl: %q, want running=true", got)
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()
	if got := start(t, "status", "-dir", dir).rest(t); len(got) != 1 || !strings.HasPrefix(got[0], "running=false done=") {
		t.Errorf("status of a killed crawl: %q, want running=false", got)
	}
	resumed := start(t, crawl...)
	if !resumed.lines.Scan() {
		t.Fatalf("the resumed crawl printed nothing: %s", resumed.stderr.String())
	}
	if got := start(t, "stop", "-dir", dir).rest(t); !slices.Equal(got, []string{"stopped=true"}) {
		t.Errorf("stop printed %q, want stopped=true", got)
	}
	resumed.rest(t)
	start(t, crawl...).rest(t)
	holdsEach(t, recorded(t, start(t, "records", "-dir", dir).rest(t)), urls)
	if got := start(t, "audit", "-dir", dir).rest(t); !slices.Equal(got, []string{"balanced=true"}) {
		t.Errorf("audit printed %q, want balanced=true", got)
	}
}

// TestWorkers makes three processes share a crawl. Together they fetch each page once.
func TestWorkers(t *testing.T) {
	redis := servers.Redis(t, servers.RedisOptions{})
	urls := site(t, 8, 15)
	dir := t.TempDir()
	in := []string{"-redis", redis.URL(), "-name", "shared"}
	var workers []*process
	for i := range 3 {
		args := append([]string{"crawl", "-dir", filepath.Join(dir, fmt.Sprint("worker-", i)), "-private", "-delay", "20ms"}, in...)
		workers = append(workers, start(t, append(args, urls[0])...))
	}
	var printed int
	for _, w := range workers {
		printed += len(w.rest(t))
	}
	if printed != len(urls) {
		t.Errorf("workers printed %d pages, want %d", printed, len(urls))
	}
	holdsEach(t, recorded(t, start(t, append([]string{"export", "-dir", dir}, in...)...).rest(t)), urls)
	status := start(t, append([]string{"status"}, in...)...).rest(t)
	if want := fmt.Sprintf("running=false done=%d queued=0", len(urls)); len(status) != 1 || status[0] != want {
		t.Errorf("status %q, want %q", status, want)
	}
}

// TestNoCrawl checks that `status` for a crawl that does not exist fails with a clear
// error, and makes no directory.
func TestNoCrawl(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none.crawl")
	cmd := exec.Command(os.Args[0], "status", "-dir", dir)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.WaitDelay = time.Minute
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "no crawl") || !strings.Contains(string(out), dir) {
		t.Errorf("%v: %q, want a message that there is no crawl in %s", err, out, dir)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("status made the directory %s (%v)", dir, err)
	}
}
