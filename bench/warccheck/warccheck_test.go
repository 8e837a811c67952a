package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/internal/testkit/npm"
)

var proof = flag.Bool("proof", false, "install warcio with npm and let it read the files too")

type page struct {
	body   []byte // without content coding
	status int    // 0 means 200
	header http.Header
	flush  bool // sent in two chunks
}

func pages() map[string]page {
	random := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(random)
	text := []byte(strings.Repeat("<p>Some text, as pages have it.</p>\r\n\r\nWARC/1.1\r\n", 500))
	coded := http.Header{"Content-Encoding": {"gzip"}}
	return map[string]page{
		"/plain":        {body: text},
		"/chunked":      {body: text, flush: true},
		"/gzip":         {body: text, header: coded},
		"/gzip-chunked": {body: text, header: coded, flush: true},
		"/empty":        {},
		"/binary":       {body: random},
		"/binary-gzip":  {body: random, header: coded, flush: true},
		"/gone":         {body: []byte("gone"), status: http.StatusGone},
		"/moved":        {body: []byte("moved"), status: http.StatusFound, header: http.Header{"Location": {"/plain"}}},
		"/none":         {status: http.StatusNoContent},
		"/old":          {status: http.StatusNotModified, header: http.Header{"Etag": {`"x"`}}},
		"/long-header":  {body: text, header: http.Header{"X-Long": {strings.Repeat("x", 30_000)}, "X-Twice": {"a", "b: c"}}},
	}
}

func (p page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	body := p.body
	if p.header.Get("Content-Encoding") == "gzip" {
		var coded bytes.Buffer
		z := gzip.NewWriter(&coded)
		_, _ = z.Write(body)
		_ = z.Close()
		body = coded.Bytes()
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	if p.status != 0 {
		w.WriteHeader(p.status)
	}
	half := len(body) / 2
	_, _ = w.Write(body[:half])
	if p.flush {
		w.(http.Flusher).Flush()
	}
	_, _ = w.Write(body[half:])
}

// fetchWire requests a path of a site and returns the bytes of the request and the
// answer.
func fetchWire(t *testing.T, address, path string) *get.Wire {
	t.Helper()
	wire := &get.Wire{Started: time.Now(), Remote: netip.MustParseAddrPort(address).Addr(),
		Request: fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: site.test\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n", path)}
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Write(wire.Request); err != nil {
		t.Fatal(err)
	}
	if wire.Response, err = io.ReadAll(connection); err != nil {
		t.Fatal(err)
	}
	return wire
}

// archived returns WARC files with the answers of a site, and the pages that the files
// must contain.
func archived(t *testing.T) (files []string, bodies map[string]page) {
	t.Helper()
	mux, dir := http.NewServeMux(), t.TempDir()
	bodies = pages()
	for path, p := range bodies {
		mux.Handle(path, p)
	}
	site := httptest.NewServer(mux)
	defer site.Close()
	w, err := warc.Open(warc.Config{Dir: dir, RotateBytes: 1 << 20, Info: warc.Info{
		Software: "crawler/1.0", UserAgent: "crawler/1.0 (+https://example.org/)", Robots: "obey", IsPartOf: "a crawl"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, path := range slices.Sorted(maps.Keys(bodies)) {
		wire := fetchWire(t, site.Listener.Addr().String(), path)
		if path == "/chunked" || path == "/gzip" { // as if the crawler had read only a part
			cut := *wire
			cut.Response, cut.Truncated = cut.Response[:len(cut.Response)-100], true
			add(t, w, "http://cut.test"+path, &cut)
		}
		add(t, w, "http://site.test"+path, wire)
		addRevisits(t, w, "http://site.test"+path, wire)
	}
	if files, err = filepath.Glob(filepath.Join(dir, warc.Folder, "*.warc.gz")); err != nil || len(files) < 3 {
		t.Fatalf("got the files %v (%v), want 3 or more", files, err)
	}
	return files, bodies
}

// addRevisits adds records of two later visits of a page: its server answered 304, and it sent the same body again.
func addRevisits(t *testing.T, w *warc.Writer, url string, wire *get.Wire) {
	t.Helper()
	earlier := warc.Earlier{URL: url, At: wire.Started}
	moved := *wire
	moved.Response = []byte("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n")
	for _, visit := range []*get.Wire{&moved, wire} {
		p, err := warc.PackRevisit(strings.Replace(url, "site.test", "again.test", 1), visit, earlier)
		if err == nil {
			_, err = w.Append(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func add(t *testing.T, w *warc.Writer, url string, wire *get.Wire) {
	t.Helper()
	p, err := warc.Pack(url, wire)
	if err == nil {
		_, err = w.Append(p)
	}
	if err == nil {
		_, err = w.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// holds checks that the records contain each page once and complete.
func holds(t *testing.T, records []Record, bodies map[string]page) {
	t.Helper()
	answers := 0
	for _, r := range records {
		path, ours := strings.CutPrefix(r.URL, "http://site.test")
		if r.Type != "response" || !ours {
			continue
		}
		answers++
		want, sum := bodies[path], sha256.Sum256(bodies[path].body)
		if want.status == 0 {
			want.status = http.StatusOK
		}
		if r.Status != want.status || r.Body != hex.EncodeToString(sum[:]) {
			t.Errorf("record of %s has status %d, want %d; or its body has another digest", path, r.Status, want.status)
		}
		delete(bodies, path)
	}
	if len(bodies) > 0 {
		t.Errorf("the files have %d answers, but none of %q", answers, slices.Sorted(maps.Keys(bodies)))
	}
}

// TestGowarc checks that the strict validation of gowarc accepts every record, and that
// the bodies are those of the site.
func TestGowarc(t *testing.T) {
	files, bodies := archived(t)
	records, err := check(t.Context(), "", files)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, records, bodies)
}

// TestWarcio checks that warcio finds the same records as gowarc. The test runs only
// with -proof. If warcio cannot be installed, the test is skipped, or fails if
// CRAWLER_TEST_SERVERS is "require".
func TestWarcio(t *testing.T) {
	if !*proof {
		t.Skip("needs npm and a network: run with -proof")
	}
	files, bodies := archived(t)
	records, err := check(t.Context(), npm.Install(t, "."), files)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, records, bodies)
}

// TestFindsFaults checks that check returns an error for files with a small change.
func TestFindsFaults(t *testing.T) {
	files, _ := archived(t)
	var plain []byte // a WARC file can be uncompressed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		part, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		plain = append(plain, part...)
	}
	name := filepath.Join(t.TempDir(), "a.warc")
	passes := func(text []byte) bool {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := check(t.Context(), "", []string{name})
		return err == nil
	}
	if !passes(plain) {
		t.Fatal("check of the unchanged files fails")
	}
	for old, new := range map[string]string{
		"Some text": "some text", "Content-Length: ": "Content-Length: 1", "WARC-Type: response\r\n": "",
		"WARC-Date: 2": "WARC-Date: x", "WARC-Concurrent-To: <urn:uuid:": "WARC-Concurrent-To: <", "sha1:": "sha1:A", "WARC/1.1\r\nWARC-Type: req": "WARC-Type: req",
	} {
		if bad := bytes.Replace(plain, []byte(old), []byte(new), 1); bytes.Equal(bad, plain) || passes(bad) {
			t.Errorf("%q replaced by %q: check finds no fault, or the files do not contain the text", old, new)
		}
	}
}
