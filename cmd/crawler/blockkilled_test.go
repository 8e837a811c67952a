package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBlockKilled kills crawler block --erase at each of its steps. The same command then finishes it: no closed file has the
// pages, no request is sent for those that wait, no other page is lost, and the books balance.
func TestBlockKilled(t *testing.T) {
	t.Parallel()
	const pages = 40
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			for i := range pages {
				fmt.Fprintf(w, `<a href="/p%d">%d</a> `, i, i)
			}
		}
	}))
	t.Cleanup(site.Close)
	for _, compress := range []string{"false", "true"} {
		t.Run("compress="+compress, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "c")
			run := func(want bool, args ...string) []byte {
				t.Helper()
				out, err := exec.Command("crawler", args...).CombinedOutput()
				if (err == nil) != want {
					t.Fatalf("%q: %v: %s", args, err, out)
				}
				return out
			}
			run(true, "crawl", "--dir", dir, "--delay", "0", "--urls", "10k", "--allow-private", "--rotate", "1", "--compress="+compress, "--max-pages", "20", site.URL+"/")
			block := []string{"block", "--dir", dir, "--erase", "--match", "[02468]$"}
			for _, point := range []string{"policy", "policy stored", "drop leased", "drop completed", "erase file", "erased file", "erase file:2", "erased file:3"} {
				if !bytes.Contains([]byte(point), []byte(":")) {
					point += ":1"
				}
				run(false, append(block, "--crash-at", point)...)
			}
			run(true, block...)
			run(true, block...) // what was dropped is in a closed file perhaps
			if out := run(true, "crawl", "--dir", dir, "--max-pages", "0"); bytes.Contains(out, []byte("failed to")) {
				t.Errorf("%s", out)
			}
			run(true, "status", "--dir", dir, "--audit")
			shown := run(true, "output", "--dir", dir)
			if n := bytes.Count(shown, []byte("\n")); n != pages/2+1 || bytes.Contains(shown, []byte(`0","host"`)) {
				t.Errorf("%d records are shown, want %d:\n%s", n, pages/2+1, shown)
			}
			run(true, block...)
			closed, _ := filepath.Glob(filepath.Join(dir, "pages-*.jsonl"))
			for _, name := range closed {
				text, err := os.ReadFile(name)
				if err != nil || bytes.Contains(text, []byte(`0","host"`)) {
					t.Errorf("%s, %v: %s", name, err, text)
				}
			}
		})
	}
}
