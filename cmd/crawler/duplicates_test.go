package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestDuplicatesKilled kills a crawl again and again at its steps, in a directory and in Redis with records in Postgres. In the end, of
// the pages with one text, one is the first, and all others name it.
func TestDuplicatesKilled(t *testing.T) {
	t.Parallel()
	const pages, texts = 200, 20
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/p%d", &n); err != nil {
			for i := range pages {
				fmt.Fprintf(w, `<a href="/p%d">%d</a> `, i, i)
			}
			return
		}
		fmt.Fprintf(w, `<title>page %d</title><p>The text %d, which other pages have, too.</p><a href="/p%d"></a>`, n, n%texts, (n+1)%pages)
	}))
	t.Cleanup(site.Close)
	for name, points := range map[string][]string{"dir": {"commit", "committed"}, "postgres": {"offered", "recorded", "completed"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := []string{"--dir", filepath.Join(t.TempDir(), "w")}
			if name == "postgres" {
				at = append(at, "--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "n",
					"--postgres", servers.Postgres(t, servers.PostgresOptions{}).DSN())
			}
			crawl := slices.Concat([]string{"crawl"}, at, []string{
				"--delay", "0", "--urls", "10k", "--allow-private", "--host-concurrency", "8", site.URL + "/",
			})
			if name == "postgres" {
				crawl = append(crawl, "--sink", "postgres", "--exact", "all", "--lease-time", "2s")
			}
			for kill := range 12 {
				point := fmt.Sprintf("%s:%d", points[kill%len(points)], 2+kill)
				_ = exec.Command("crawler", append(crawl, "--crash-at", point)...).Run() // also if it ends before it gets there
			}
			if out, err := exec.Command("crawler", crawl...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := exec.Command("crawler", append([]string{"output"}, at...)...).Output()
			if err != nil {
				t.Fatal(err)
			}
			type record struct {
				URL, ID, Outcome string
				Text             string `json:"text_digest"`
				Of               string `json:"duplicate_of"`
			}
			byText := map[string][]record{}
			lines := 0
			for line := range strings.Lines(string(out)) {
				var r record
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
				byText[r.Text] = append(byText[r.Text], r)
				lines++
			}
			if lines != pages+1 || len(byText) != texts+1 {
				t.Fatalf("%d records with %d texts, want %d with %d", lines, len(byText), pages+1, texts+1)
			}
			for _, all := range byText {
				first := slices.IndexFunc(all, func(r record) bool { return r.Of == "" })
				for i, r := range all {
					if first < 0 || i != first && r.Of != all[first].ID {
						t.Errorf("%s is a duplicate of %q, want one first page with its text, of %d", r.URL, r.Of, len(all))
					}
				}
			}
		})
	}
}
