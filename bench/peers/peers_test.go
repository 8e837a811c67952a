package peers

import (
	"bytes"
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

	"github.com/bloomfrontier/crawler/bench/contest"
	"github.com/bloomfrontier/crawler/bench/site"
)

// TestMain lets the test binary also run as the processes that Compare starts: the server, the
// peers, and a fake crawler.
func TestMain(m *testing.M) {
	if is, err := contest.Part(context.Background(), os.Args[1:], os.Stdin, os.Stdout, Loops); is {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "crawl" {
		os.Exit(fakeCrawler(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// fakeCrawler writes records like those of a crawl of the site that the function web
// returns. It writes as many records of HTML pages as such a crawl.
func fakeCrawler(args []string) int {
	dir := args[slices.Index(args, "--dir")+1]
	var records strings.Builder
	for range pagesOfWeb {
		records.WriteString(`{"url":"http://h/","status":200,"content_type":"text/html"}` + "\n")
	}
	records.WriteString(`{"status":404,"content_type":"text/html"}` + "\n" + `{"status":200,"content_type":"image/png"}` + "\n")
	if err := errors.Join(os.Mkdir(dir, 0o777), os.WriteFile(filepath.Join(dir, "pages.jsonl"), []byte(records.String()), 0o666)); err != nil {
		return 1
	}
	return 0
}

// pagesOfWeb is the number of HTML pages that a crawl of the site finds. The site has five
// HTML files that pages link to. One of them has two URLs, / and /index.html.
const pagesOfWeb = 6

// web returns the files of a site. The pages link to each other in many ways, and also to a
// picture, to a missing page and to another host.
func web() map[string]string {
	return map[string]string{
		"index.html": `<a href="a.html">1</a><a href="a.html#x">2</a><a href="/sub/b.html">3</a><a href="none.html">4</a>` +
			`<a href="http://other.invalid/">5</a><a href="mailto:a@b">6</a><a>7</a><a href="">8</a><a href="http://[">9</a>`,
		"a.html":        `<a href="index.html"></a><a href="./sub/../sub/b.html"><a href="picture.png">`,
		"sub/b.html":    `<a href="c.html"><a href="../a.html">`,
		"sub/c.html":    `<a href="//other.invalid/x.html"><a href="d.html">`,
		"sub/d.html":    `no links`,
		"picture.png":   "\x89PNG <a href='unlinked.html'>",
		"unlinked.html": `nobody links here`,
	}
}

func layOut(t *testing.T) string {
	dir := t.TempDir()
	for name, content := range web() {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// crawlOf returns the number of pages that a peer finds on a server's site.
func crawlOf(ctx context.Context, name string, server *httptest.Server) (pages uint64, err error) {
	site := contest.Endpoint{Addr: server.Listener.Addr().String(), Seeds: []string{server.URL + "/"}}
	took, err := Loops[name](ctx, contest.Order{Endpoint: site, Workers: 4})
	return took.Pages, err
}

// TestPeersFindTheSamePages checks that each peer finds all pages. Otherwise their
// rates could not be compared.
func TestPeersFindTheSamePages(t *testing.T) {
	server := httptest.NewServer(site.Handler(layOut(t)))
	defer server.Close()
	for name := range Loops {
		if pages, err := crawlOf(t.Context(), name, server); err != nil || pages != pagesOfWeb {
			t.Errorf("%s finds %d pages, %v; want %d", name, pages, err, pagesOfWeb)
		}
	}
}

func TestBareStopsAtTheFirstError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<a href="a"><a href="b"><a href="c">`))
	}))
	defer server.Close()
	if pages, err := crawlOf(t.Context(), "bare", server); err == nil || pages != 1 {
		t.Errorf("bare with a server that hangs up: %d pages, %v, want 1 and an error", pages, err)
	}
}

func TestBareStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	if _, err := crawlOf(ctx, "bare", server); !errors.Is(err, context.Canceled) {
		t.Errorf("bare, cancelled: %v, want %v", err, context.Canceled)
	}
}

func TestCompare(t *testing.T) {
	var out bytes.Buffer
	if err := Compare(t.Context(), contest.Self, contest.Self, contest.Site{Folder: layOut(t)}, 2, &out); err != nil {
		t.Fatal(err)
	}
	for _, name := range contestants {
		if n := strings.Count(out.String(), "peer="+name+" "); n != 3 {
			t.Errorf("compare printed\n%s\nwant 3 lines of %s: two rounds and the median", &out, name)
		}
	}
}

func TestMedian(t *testing.T) {
	of := func(pages uint64) measure { return measure{"peer", contest.Took{Pages: pages, Seconds: 1}} }
	if m := median([]measure{of(3), of(1), of(9)}); m.Pages != 3 {
		t.Errorf("median of 3, 1, 9 = %v, want 3 pages", m)
	}
}

func TestNoSite(t *testing.T) {
	err := Compare(t.Context(), contest.Self, contest.Self, contest.Site{Folder: "peers.go"}, 1, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "the site did not print its endpoint") {
		t.Errorf("Compare on a missing folder: %v, want an error about the site", err)
	}
}
