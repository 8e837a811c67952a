package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// TestRevisitsInArchive: of pages that are visited again, the archive has the content once, and records of the type revisit that refer
// to it by the date of its record.
func TestRevisitsInArchive(t *testing.T) {
	t.Parallel()
	var visits atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			w.Header().Set("Etag", `"start"`)
			if r.Header.Get("If-None-Match") == `"start"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, `<a href="/same">same</a> <a href="/new">new</a>`)
		case "/same":
			fmt.Fprint(w, "the same text at each visit")
		case "/new":
			fmt.Fprintf(w, "visit %d", visits.Add(1))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(site.Close)
	dir := filepath.Join(t.TempDir(), "a.crawl")
	out, err := exec.Command("crawler", "crawl", "--dir", dir, "--recrawl", "1s", "--recrawl-every", "1s..1s", "--save", "html", "--delay", "0",
		"--allow-private", "--urls", "1000", "--max-time", "8s", site.URL+"/").CombinedOutput()
	if failed, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || failed.ExitCode() == 1) {
		t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "warc", "*.warc.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no WARC files (%v): %s", err, out)
	}
	counts, dates := map[string]int{}, map[string]bool{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range strings.Split(string(text), "WARC/1.1\r\n")[1:] {
			field := map[string]string{}
			for line := range strings.Lines(r) {
				name, value, found := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
				if !found {
					break
				}
				field[name] = value
			}
			path, kind := strings.TrimPrefix(field["WARC-Target-URI"], site.URL), field["WARC-Type"]
			if kind == "response" {
				dates[path+" "+field["WARC-Date"]] = true
			}
			if profile := field["WARC-Profile"]; kind == "revisit" {
				kind = profile[strings.LastIndexByte(profile, '/')+1:]
				if at := field["WARC-Refers-To-Date"]; !dates[path+" "+at] || field["WARC-Refers-To-Target-URI"] != site.URL+path {
					t.Errorf("a revisit of %s refers to %s at %s, want one of %v", path, field["WARC-Refers-To-Target-URI"], at, dates)
				}
			}
			counts[path+" "+kind]++
		}
	}
	// The first visit can be before the rows begin, and the second one is not conditional then.
	if counts["/ response"] < 1 || counts["/ response"] > 2 || counts["/ server-not-modified"] < 1 || counts["/new response"] < 2 || counts["/new identical-payload-digest"] > 0 ||
		counts["/same response"] < 1 || counts["/same response"] > 2 || counts["/same identical-payload-digest"] < 1 {
		t.Errorf("the archive has %v", counts)
	}
}
