package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bloomfrontier/crawler/bench/realhtml"
	"github.com/bloomfrontier/crawler/bench/site"
)

// justified contains pages that only one of the two programs, wget or crawler, fetches.
// The keys are the name of the tree and the path of the page. The value is the reason why
// crawler is right.
var justified = map[string]map[string]string{
	"sqlite": {
		"/": `lang_expr.html has <a href="\">: to the URL standard a backslash is a slash, wget asks for /%5C`,
	},
}

// TestRealWeb crawls documentation written by people, first with wget -r, then with
// crawler. Both begin at index.html and crawl without delay. Both must get the same HTML
// pages with status 200, except for the justified differences. The crawler must have one
// record, with the digest of the body, for each page that the server sent.
func TestRealWeb(t *testing.T) {
	trees, err := realhtml.Installed()
	if err != nil {
		missing(t, err)
	}
	wget, err := exec.LookPath("wget")
	if err != nil {
		missing(t, err)
	}
	crawler := crawlerBinary(t)
	for _, tree := range trees {
		t.Run(tree.Name, func(t *testing.T) {
			theirs := serveRecorded(t, tree.Dir)
			runWget(t, wget, theirs.URL+"/index.html")
			ours := serveRecorded(t, tree.Dir)
			records := runCrawl(t, crawler, ours.URL+"/index.html")

			want, got := theirs.htmlPages(), ours.htmlPages()
			if len(want) < 200 {
				t.Errorf("wget got %d pages, want 200 or more", len(want))
			}
			for path := range want {
				if got[path] == 0 && justified[tree.Name][path] == "" {
					t.Errorf("%s: wget got it, crawler did not", path)
				}
			}
			for path, requests := range got {
				if want[path] == 0 && justified[tree.Name][path] == "" {
					t.Errorf("%s: crawler got it, wget did not", path)
				}
				if requests > 1 {
					t.Errorf("%s: crawler requested it %d times, want once", path, requests)
				}
			}
			checkRecords(t, tree.Dir, records, got)
			t.Logf("%d pages by wget, %d by crawler", len(want), len(got))
		})
	}
}

// missing skips a test, because something that `make deps` installs is missing. If
// CRAWLER_TEST_SERVERS is "require", the test fails instead.
func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// crawlerBinary returns the path of the crawler to test: $CRAWLER_BIN, or one
// that is built for this test.
func crawlerBinary(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("CRAWLER_BIN"); path != "" {
		return path
	}
	path := filepath.Join(t.TempDir(), "crawler")
	build := exec.Command("go", "build", "-o", path, "github.com/bloomfrontier/crawler/cmd/crawler")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// recordedSite is a server that remembers which HTML pages it sent.
type recordedSite struct {
	*httptest.Server
	mu    sync.Mutex
	pages map[string]int // number of HTML answers with status 200, by path
}

func serveRecorded(t *testing.T, dir string) *recordedSite {
	recorded := &recordedSite{pages: make(map[string]int)}
	files := site.Handler(dir)
	recorded.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := statusWriter{w, 0}
		files.ServeHTTP(&status, r)
		if status.status == http.StatusOK && strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			recorded.mu.Lock()
			defer recorded.mu.Unlock()
			recorded.pages[r.RequestURI]++
		}
	}))
	t.Cleanup(recorded.Close)
	return recorded
}

func (r *recordedSite) htmlPages() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pages)
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// runWget crawls the host of startURL without a depth limit, and keeps no pages.
func runWget(t *testing.T, wget, startURL string) {
	t.Helper()
	crawl := exec.Command(wget, "--no-config", "--no-verbose", "--recursive", "--level=inf",
		"--no-host-directories", "--delete-after", "--directory-prefix="+t.TempDir(), startURL)
	// Exit code 8 means that some answers were errors. This is no fault, because the
	// documentation has dead links.
	if out, err := crawl.CombinedOutput(); err != nil && crawl.ProcessState.ExitCode() != 8 {
		t.Fatalf("wget: %v\n%s", err, tail(out))
	}
}

// crawlRecord has the fields of a record that this test uses.
type crawlRecord struct {
	URL         string
	Status      int
	ContentType string `json:"content_type"`
	Digest      string
}

func runCrawl(t *testing.T, crawler, start string) []crawlRecord {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "site.crawl")
	crawl := exec.Command(crawler, "crawl", "--dir", dir, "--delay", "0", "--host-concurrency", "16", "--allow-private", start)
	if out, err := crawl.CombinedOutput(); err != nil {
		t.Fatalf("crawler: %v\n%s", err, tail(out))
	}
	lines, err := os.ReadFile(filepath.Join(dir, "pages.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var records []crawlRecord
	for decoder := json.NewDecoder(bytes.NewReader(lines)); ; {
		var record crawlRecord
		if err := decoder.Decode(&record); errors.Is(err, io.EOF) {
			return records
		} else if err != nil {
			t.Fatalf("pages.jsonl: %v", err)
		}
		records = append(records, record)
	}
}

// checkRecords compares the crawler's records with the pages that the server sent.
func checkRecords(t *testing.T, dir string, records []crawlRecord, sent map[string]int) {
	t.Helper()
	recorded := make(map[string]bool)
	for _, record := range records {
		page, err := url.Parse(record.URL)
		if err != nil {
			t.Errorf("record of %q: %v", record.URL, err)
			continue
		}
		path := page.RequestURI()
		if recorded[path] {
			t.Errorf("%s: more than one record", path)
		}
		recorded[path] = true
		if record.Status != http.StatusOK || !strings.HasPrefix(record.ContentType, "text/html") {
			continue
		}
		if sent[path] == 0 {
			t.Errorf("%s: has a record, but the server never sent the page", path)
			continue
		}
		file := filepath.Join(dir, filepath.FromSlash(page.Path))
		if strings.HasSuffix(page.Path, "/") {
			file = filepath.Join(file, "index.html")
		}
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("sha256:%x", sha256.Sum256(body)); record.Digest != want {
			t.Errorf("%s: digest %q, want %q", path, record.Digest, want)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(sent)) {
		if !recorded[path] {
			t.Errorf("%s: the server sent the page, but it has no record", path)
		}
	}
}

// tail returns the end of a program's output, which usually has the reason of a
// failure.
func tail(out []byte) []byte {
	const most = 4 << 10
	return out[max(0, len(out)-most):]
}
