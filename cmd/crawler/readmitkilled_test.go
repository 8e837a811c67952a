package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmitKilled kills crawler readmit at each of its steps, and the crawl after it. In the end each page has one record
// for each round, each page that was let in has a second round, and no other has.
func TestReadmitKilled(t *testing.T) {
	t.Parallel()
	const pages = 60
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for i := range pages {
			fmt.Fprintf(w, `<a href="/p%d">%d</a> `, i, i)
		}
	}))
	t.Cleanup(site.Close)
	dir := filepath.Join(t.TempDir(), "c")
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("crawler", args...).Output()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
		return string(out)
	}
	crawl := []string{"crawl", "--dir", dir, "--delay", "0", "--urls", "10k", "--allow-private", site.URL + "/"}
	run(append(crawl, "--max-pages", "30")...)
	readmit := []string{"readmit", "--dir", dir, "--match", "[02468]$"}
	for _, point := range []string{"drop leased:1", "drop completed:1", "drop leased:2", "commit:1", "committed:2", "readmitted:1"} {
		_ = exec.Command("crawler", append(readmit, "--crash-at", point)...).Run() // also if it ends before it gets there
	}
	run(readmit...)
	for kill := range 8 {
		_ = exec.Command("crawler", append(crawl, "--max-pages", "0", "--crash-at", fmt.Sprintf("%s:%d", []string{"commit", "committed"}[kill%2], 2+kill))...).Run()
	}
	run(append(crawl, "--max-pages", "0")...)
	run("status", "--dir", dir, "--audit")
	rounds := map[string]map[int]bool{}
	for line := range strings.Lines(run("output", "--dir", dir, "--all-rounds")) {
		var r struct {
			URL   string
			Round int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if rounds[r.URL] == nil {
			rounds[r.URL] = map[int]bool{}
		}
		if rounds[r.URL][r.Round] {
			t.Errorf("%s has two records of round %d", r.URL, r.Round)
		}
		rounds[r.URL][r.Round] = true
	}
	if len(rounds) != pages+1 {
		t.Errorf("%d URLs have records, want %d", len(rounds), pages+1)
	}
	for url, all := range rounds {
		if let := strings.ContainsAny(url[len(url)-1:], "02468"); let != (len(all) == 2) {
			t.Errorf("%s has the rounds %v", url, all)
		}
	}
}
