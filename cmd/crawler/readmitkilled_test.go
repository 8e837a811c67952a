package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
	eachNewPlace(t, func(c placed) {
		// TestDropKilled kills the step that drops URLs in Redis.
		points, kills := []string{"readmitted", "turned"}, []string{"offered", "recorded", "completed"}
		if c.queue == nil {
			points = []string{"drop leased", "drop completed", "readmitted", "commit", "committed"}
			kills = []string{"commit", "committed", "commit", "committed", "commit", "committed"}
		}
		crawl := []string{"--delay", "0", "--urls", "10k", "--allow-private", "--allow-series", ".", "--lease-time", "4s", site.URL + "/"}
		c.must("crawl", append(crawl, "--max-pages", "30")...)
		readmit := []string{"--match", "[02468]$"}
		for _, point := range points {
			_, _ = c.do("readmit", append(readmit, "--crash-at", point+":1")...) // also if it ends before it gets there
		}
		for out, begun := "", time.Now(); !strings.Contains(out, ": 30 URLs let in again"); time.Sleep(time.Second) {
			if out = c.must("readmit", readmit...); time.Since(begun) > time.Minute { // leases of killed commands in Redis expire after a while
				c.Fatalf("readmit prints %s", out)
			}
		}
		for kill, point := range kills {
			_, _ = c.do("crawl", append(crawl, "--max-pages", "0", "--crash-at", fmt.Sprintf("%s:%d", point, 2+kill))...)
		}
		c.must("crawl", append(crawl, "--max-pages", "0")...)
		c.must("status", "--audit")
		checkReadmitted(c, pages)
	})
}

// checkReadmitted checks the rounds of the records.
func checkReadmitted(c placed, pages int) {
	c.Helper()
	rounds := map[string]map[int]bool{}
	for line := range strings.Lines(c.must("output", "--all-rounds")) {
		var r struct {
			URL   string
			Round int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			c.Fatal(err)
		}
		if rounds[r.URL] == nil {
			rounds[r.URL] = map[int]bool{}
		}
		if rounds[r.URL][r.Round] {
			c.Errorf("%s has two records of round %d", r.URL, r.Round)
		}
		rounds[r.URL][r.Round] = true
	}
	if len(rounds) != pages+1 {
		c.Errorf("%d URLs have records, want %d", len(rounds), pages+1)
	}
	for url, all := range rounds {
		if let := strings.ContainsAny(url[len(url)-1:], "02468"); let != (len(all) == 2) {
			c.Errorf("%s has the rounds %v", url, all)
		}
	}
}
