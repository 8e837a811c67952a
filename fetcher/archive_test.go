package fetcher_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// everything is an archive that keeps all answers. If refuse is set, Append returns that
// error.
type everything struct {
	*warc.Writer
	noRobots bool
	refuse   error // the error that Append returns
}

func (everything) Wants(*get.Response) bool { return true }
func (e everything) WantsRobots() bool      { return !e.noRobots }

func (e everything) Append(p *warc.Packed) (warc.Location, error) {
	if e.refuse != nil {
		return warc.Location{}, e.refuse
	}
	return e.Writer.Append(p)
}

// archived is a site, and a crawl of it that keeps answers in dir.
type archived struct {
	*world
	site string
	dir  string
}

// crawlKeeping crawls a site with an archive, and returns the crawl and the error of Run.
func crawlKeeping(t *testing.T, archive everything) (archived, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			http.Redirect(w, r, "/rules", http.StatusFound)
		case "/rules":
			fmt.Fprint(w, "User-agent: *\nDisallow: /secret\n")
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href=/moved>x</a><a href=/gone>y</a><a href=/doc>z</a><a href=/secret>s</a>`)
		case "/moved":
			http.Redirect(w, r, "/gone", http.StatusFound)
		case "/doc":
			w.Header().Set("Content-Type", "application/pdf")
			fmt.Fprint(w, "not read")
		default:
			http.Error(w, "gone", http.StatusGone)
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	files, err := warc.Open(warc.Config{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := get.New(get.Config{AllowPrivate: true, Capture: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	w := newWorldOf(t, nil, frontiertest.MemoryConfig{Output: files})
	archive.Writer = files
	cfg := w.config()
	cfg.Client, cfg.Archive = client, archive
	cfg.Politeness.Delay = time.Nanosecond
	c := w.worker(cfg)
	w.seed(c, server.URL+"/")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	end, err := c.Run(ctx)
	if err == nil && end != fetcher.Empty {
		t.Fatalf("Run ended with %q", end)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	return archived{w, server.URL, dir}, err
}

// kept returns the sorted paths of the answers in the archive.
func (a archived) kept() (paths []string) {
	a.t.Helper()
	files, err := filepath.Glob(filepath.Join(a.dir, warc.Folder, "*"))
	if err != nil {
		a.t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			a.t.Fatal(err)
		}
		for rest := bytes.NewReader(text); rest.Len() > 0; {
			record := inflate(a.t, rest)
			_, target, _ := strings.Cut(record, "WARC-Target-URI: "+a.site)
			if path, _, _ := strings.Cut(target, "\r\n"); strings.Contains(record, "WARC-Type: response\r\n") {
				paths = append(paths, path)
			}
		}
	}
	slices.Sort(paths)
	return paths
}

// TestArchiveHasAnswers: the archive has the answer of each finished item, at the place that
// the item's record names. It also has each answer to a request for a robots.txt, once.
func TestArchiveHasAnswers(t *testing.T) {
	a, err := crawlKeeping(t, everything{})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]frontier.Outcome{
		"/": frontier.OK, "/moved": frontier.Redirect, "/gone": frontier.ClientError, "/doc": frontier.Type,
	} {
		r := a.sink.recordOf(t, a.site+path)
		if r.Outcome != string(want) || r.WARC == "" {
			t.Fatalf("%s: outcome %q, WARC file %q, want outcome %q and some file", path, r.Outcome, r.WARC, want)
		}
		text, err := os.ReadFile(filepath.Join(a.dir, filepath.FromSlash(r.WARC)))
		if err != nil {
			t.Fatal(err)
		}
		if head := inflate(t, bytes.NewReader(text[r.WARCOffset:])); !strings.Contains(head, "WARC-Type: response") || !strings.Contains(head, "WARC-Target-URI: "+a.site+path+"\r\n") {
			t.Errorf("%s: at the offset of its record the file has %q", path, head[:min(len(head), 300)])
		}
	}
	want := []string{"/", "/doc", "/gone", "/moved", "/robots.txt", "/rules"}
	if got := a.kept(); !slices.Equal(got, want) {
		t.Errorf("the archive has the answers of %q, want %q", got, want)
	}
}

// TestArchiveWithoutRobots: an archive can keep pages without robots.txt.
func TestArchiveWithoutRobots(t *testing.T) {
	a, err := crawlKeeping(t, everything{noRobots: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"/", "/doc", "/gone", "/moved"}
	if got := a.kept(); !slices.Equal(got, want) {
		t.Errorf("the archive has the answers of %q, want %q", got, want)
	}
}

// TestArchiveFails: Run ends if the archive cannot store a robots.txt or a
// page.
func TestArchiveFails(t *testing.T) {
	full := errors.New("the disk is full")
	a, err := crawlKeeping(t, everything{refuse: full})
	if !errors.Is(err, full) || !strings.Contains(err.Error(), "robots.txt") {
		t.Errorf("Run returned %v, want an error that wraps %q and names robots.txt", err, full)
	}
	if stats := a.stats(); stats.Queued+stats.Leased != 1 {
		t.Errorf("books %+v, want 1 item, the seed, queued or leased", stats.Books)
	}
}

// inflate returns the content of the next gzip member of packed.
func inflate(t testing.TB, packed *bytes.Reader) string {
	t.Helper()
	z, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	z.Multistream(false)
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
