package fetcher_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/budget"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/frontiertest"
)

// TestMemory crawls many large pages at once with room for one document: all
// are read, with all their links, and no more is taken than there is.
func TestMemory(t *testing.T) {
	const hosts = 24
	synctest.Test(t, func(t *testing.T) {
		large := strings.Repeat("<p>text", 40_000)
		w := newWorld(t, &wire{answer: func(_ *http.Request, url string, _ int) (reply, bool) {
			if strings.HasSuffix(url, ".test/") {
				a := links("/last")
				a.body += large + `<a href=/end>x</a>`
				a.wait = time.Second
				return a, true
			}
			return reply{}, false
		}})
		cfg := w.config()
		largest := fetcher.LargestShare(cfg.Client, false)
		cfg.Memory = budget.New(largest-1, largest-1)
		if _, err := fetcher.New(cfg); err == nil || !strings.Contains(err.Error(), "Memory") {
			t.Errorf("a budget too small for one page: %v", err)
		}
		cfg.Memory = budget.New(largest, largest)
		cfg.Rules.Scope, cfg.Concurrency = canon.ScopeAny, hosts
		var most atomic.Int64
		cfg.OnPage = func(_ context.Context, page *fetcher.Page) error {
			page.Document()
			for taken := cfg.Memory.Taken(); ; {
				last := most.Load()
				if taken <= last || most.CompareAndSwap(last, taken) {
					return nil
				}
			}
		}
		var seeds []string
		for i := range hosts {
			seeds = append(seeds, fmt.Sprintf("http://%d.test/", i))
		}
		w.crawl(cfg, seeds...)
		if stats := w.stats(); stats.Done != 3*hosts || stats.Found != 3*hosts {
			t.Errorf("books %+v, want %d done", stats.Books, 3*hosts)
		}
		if n := most.Load(); n < int64(len(large)) || n > largest || cfg.Memory.Taken() != 0 {
			t.Errorf("%d bytes taken at most, %d at the end, of %d", n, cfg.Memory.Taken(), largest)
		}
	})
}

// everything is an archive of all answers.
type everything struct{ *warc.Writer }

func (everything) Wants(*get.Response) bool { return true }

// TestArchive: each answer that ended an item is in the archive, where its
// record says.
func TestArchive(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<a href=/moved>x</a><a href=/gone>y</a><a href=/doc>z</a>`)
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
	cfg := w.config()
	cfg.Client, cfg.Archive = client, everything{files}
	cfg.Politeness.Delay = time.Nanosecond
	c := w.worker(cfg)
	w.seed(c, server.URL+"/")
	if end, err := c.Run(t.Context()); err != nil || end != fetcher.Empty {
		t.Fatalf("Run ended with %q, %v", end, err)
	}
	for path, want := range map[string]frontier.Outcome{
		"/": frontier.OK, "/moved": frontier.Redirect, "/gone": frontier.ClientError, "/doc": frontier.Type,
	} {
		r := w.sink.of(t, server.URL+path)
		if r.Outcome != string(want) || r.WARC == "" {
			t.Fatalf("%s: outcome %q in %q, want %q and a place", path, r.Outcome, r.WARC, want)
		}
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(r.WARC)))
		if err != nil {
			t.Fatal(err)
		}
		if head := inflate(t, text[r.WARCOffset:]); !strings.Contains(head, "WARC-Type: response") || !strings.Contains(head, "WARC-Target-URI: "+server.URL+path+"\r\n") {
			t.Errorf("%s: at its place is %q", path, head[:min(len(head), 300)])
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
}

// inflate returns the first gzip member of b.
func inflate(t *testing.T, b []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
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
