package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestBulkWindowKilled kills a crawl whose bulk URLs have a short window, at each of its steps. Each page links to the next
// one, to the one before it, and to the first pages, and there are more pages than the crawl can fetch. So at the end none is
// missing before the last one, the first pages were fetched again when their window was over, no page has two records of a
// round, each round follows the one before, and the audit is clean.
func TestBulkWindowKilled(t *testing.T) {
	t.Parallel()
	const pages, first = 20_000, 10
	site := listen(t, func(l net.Listener) error {
		return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			n, _ := strconv.Atoi(r.URL.Path[1:])
			fmt.Fprintf(w, `<a href="/%d">x</a><a href="/%d">x</a><a href="/%d">x</a>`, min(n+1, pages-1), max(n-1, 1), 1+n%first)
		}))
	})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	crawl := func(flags ...string) error {
		args := append([]string{"crawl", "--dir", dir, "--urls", "100000", "--fpr", "0.0001", "--window", "bulk=5s", "--delay", "10ms", "--allow-series", ".",
			"--domain-rate", "0", "--robots", "ignore", "--allow-private", "--quiet"}, flags...)
		out, err := exec.Command("crawler", append(args, "http://"+site+"/")...).CombinedOutput()
		if failed, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || failed.ExitCode() == 2) {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("crawler", append(args, "--dir", dir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, point := range []string{"rotated:2", "carried:1", "commit:40", "committed:40", "checkpoint:3", "rotated:1", "carried:2"} {
		if crawl("--max-time", "60s", "--crash-at", point, "--checkpoint-adds", "20") == nil {
			t.Fatalf("the crawl did not reach the crash point %s", point)
		}
		must("status", "--audit")
	}
	_ = crawl("--max-time", "7s")
	must("status", "--audit")
	last, end := make(map[string]int), 0
	for line := range strings.Lines(must("output", "--all-rounds", "--columns", "url,round")) {
		var r struct {
			URL   string
			Round int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if before, known := last[r.URL]; known && r.Round != before+1 || !known && r.Round != 0 {
			t.Fatalf("%s has round %d after %d", r.URL, r.Round, before)
		}
		last[r.URL] = r.Round
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL, "http://"+site+"/")) // the first page has no number
		end = max(end, n)
	}
	if again := last["http://"+site+"/5"]; len(last) != end+1 || again < 1 {
		t.Errorf("%d pages were fetched, and page %d; one of the first ones was fetched in %d later rounds, want at least 1", len(last), end, again)
	}
	must("rebuild")
	must("status", "--audit")
}
