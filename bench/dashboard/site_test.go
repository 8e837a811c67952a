package dashboard_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	hostsOfSite = 10_000
	markup      = `<img src=x onerror=alert(1)>`
)

// site serves any number of hosts, whose pages have a title with markup and an escape sequence, and links. Some pages fail.
func site(t *testing.T) (address string, requests *atomic.Int64) {
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		switch {
		case r.URL.Path == "/robots.txt", strings.HasSuffix(r.URL.Path, "3"):
			http.NotFound(w, r)
			return
		case strings.HasSuffix(r.Host, "7.test"):
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<title>&lt;img src=x onerror=alert(1)&gt; \x1b[31mred</title>")
		for i := range 10 {
			fmt.Fprintf(w, `<a href="%s%d">next</a>`, strings.TrimRight(r.URL.Path, "/")+"/", i)
		}
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), requests
}

// start runs the program until the test ends, and returns the address that its output names.
func start(t *testing.T, pattern string, args ...string) string {
	t.Helper()
	program := os.Getenv("CRAWLER_BIN")
	if program == "" {
		t.Skip("CRAWLER_BIN names no program")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	text, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it has ended
		_ = cmd.Wait()                          // after a signal it has an exit code
	})
	var said strings.Builder
	re := regexp.MustCompile(pattern)
	for lines := bufio.NewScanner(text); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if found := re.FindStringSubmatch(lines.Text()); found != nil {
			go func() { _, _ = io.Copy(io.Discard, text) }() // until the program ends
			return found[1]
		}
	}
	t.Fatalf("%v said:\n%s", args, said.String())
	return ""
}

// slow makes a crawl last for the whole test.
var slow = []string{"--delay", "2s", "--rate", "60"}

// crawl starts a crawl of many hosts with more arguments, and returns the address of its dashboard.
func crawl(t *testing.T, more ...string) (base string, requests *atomic.Int64) {
	t.Helper()
	address, requests := site(t)
	dir := t.TempDir()
	var seeds strings.Builder
	for i := range hostsOfSite {
		fmt.Fprintf(&seeds, "http://h%d.test/\n", i)
	}
	list := filepath.Join(dir, "seeds.txt")
	if err := os.WriteFile(list, []byte(seeds.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"crawl", "--seeds", list, "--connect-to", "*=" + address, "--robots", "ignore", "--max-depth", "3", "--domain-rate", "0",
		"--retries", "0", "--admin", "0", "--grace", "1s"}
	if !slices.Contains(more, "--dir") {
		more = append(more, "--dir", filepath.Join(dir, "web.crawl"))
	}
	return "http://" + start(t, `dashboard on http://(127\.0\.0\.1:\d+)/`, append(args, more...)...), requests
}
