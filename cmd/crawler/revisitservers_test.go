package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestRevisitServers: pages that nginx serves, and Varnish before nginx, are visited again with conditional requests. A page
// that stays is not modified; one that was only saved again is unchanged, although its validators differ; one with another
// text is changed; one that was removed is missing.
func TestRevisitServers(t *testing.T) {
	for _, name := range []string{"nginx", "varnish"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			if err := os.Chmod(root, 0o755); err != nil {
				t.Fatal(err)
			}
			write := func(page, text string, at time.Time) {
				t.Helper()
				file := filepath.Join(root, page+".html")
				err := os.WriteFile(file, []byte("<title>"+page+"</title>"+strings.Repeat(text+" ", 50)), 0o644)
				if err == nil {
					err = os.Chtimes(file, at, at)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			before, after := time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
			write("index", `a <a href="stays.html">b</a> <a href="saved.html">c</a> <a href="edited.html">d</a> <a href="removed.html">e</a>`, before)
			for _, page := range []string{"stays", "saved", "edited", "removed"} {
				write(page, "the page "+page, before)
			}
			server := servers.Nginx(t, root)
			if name == "varnish" {
				server = servers.Varnish(t, server.Addr())
			}
			dir := filepath.Join(t.TempDir(), "c.crawl")
			cmd := exec.Command("crawler", "crawl", "http://"+server.Addr()+"/", "--dir", dir, "--urls", "1000", "--delay", "0", "--robots", "ignore",
				"--allow-private", "--quiet", "--recrawl", "2s", "--recrawl-every", "1s..3s", "--max-time", "60s")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := false
			end := func() {
				if !ended {
					ended = true
					_ = cmd.Process.Signal(os.Interrupt) // it runs
					_ = cmd.Wait()                       // its exit code says that it was interrupted
				}
			}
			defer end()
			type visit struct {
				URL, Outcome, Change string
				Round, Status        int
			}
			// visits waits until that many pages have a visit of a round, and returns the visits of each page.
			visits := func(pages, round int) map[string][]visit {
				t.Helper()
				for begun := time.Now(); ; time.Sleep(200 * time.Millisecond) {
					all, enough := make(map[string][]visit), 0
					out, _ := exec.Command("crawler", "output", "--dir", dir, "--all-rounds", "--columns", "url,round,outcome,change,status").Output()
					for line := range strings.Lines(string(out)) {
						var v visit
						if err := json.Unmarshal([]byte(line), &v); err != nil {
							t.Fatal(err)
						}
						page := strings.TrimSuffix(v.URL[strings.LastIndex(v.URL, "/")+1:], ".html")
						if all[page] = append(all[page], v); v.Round == round {
							enough++
						}
					}
					if enough == pages {
						return all
					}
					if time.Since(begun) > 45*time.Second {
						t.Fatalf("after 45s, %d pages have round %d, want %d: %+v", enough, round, pages, all)
					}
				}
			}
			first := visits(5, 2)
			write("saved", "the page saved", after)
			write("edited", "another text", after)
			if err := os.Remove(filepath.Join(root, "removed.html")); err != nil {
				t.Fatal(err)
			}
			most := 0
			for _, of := range first {
				most = max(most, len(of))
			}
			all := visits(4, most+3) // a cache has the old answer for a second, and a page that is missing is visited a day later
			end()
			for page, want := range map[string]string{"": "new not_modified", "stays": "new not_modified", "saved": "new not_modified unchanged",
				"edited": "new not_modified changed", "removed": "new not_modified missing"} {
				var said []string
				for _, v := range all[page] {
					word := v.Change
					switch {
					case v.Status == 404:
						word = "missing"
					case v.Outcome == "not_modified":
						word = v.Outcome
					}
					said = append(said, word)
				}
				for _, word := range said {
					if !strings.Contains(want, word) || word == "" {
						t.Errorf("%q: a visit is %q, want one of %q", page, word, want)
					}
				}
				got := strings.Join(said, " ")
				if !strings.HasPrefix(got, "new not_modified") {
					t.Errorf("%q has the visits %q, want new and not_modified first", page, got)
				}
				last := strings.TrimPrefix(want, "new not_modified")
				if last = strings.TrimSpace(last); last != "" && last != "missing" && (strings.Count(got, last) != 1 || !strings.HasSuffix(got, "not_modified")) {
					t.Errorf("%q has the visits %q, want one %s, and then not_modified", page, got, last)
				}
				if last == "missing" && !strings.HasSuffix(got, last) {
					t.Errorf("%q has the visits %q, want it missing at last", page, got)
				}
			}
		})
	}
}
