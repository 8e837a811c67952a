// Package pagedata tests and measures the data that a crawl extracts from pages: the fields
// of a synthetic shop, whose correct values are known, and the main text of pages that
// people wrote. The package has only tests.
package pagedata

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

var (
	seed  = flag.Uint64("seed", 0, "replay random tests with this seed")
	proof = flag.Bool("proof", false, "the shop at full size")
)

// TestShop crawls a shop of 1,000 product pages, made from ten templates, with broken HTML,
// several charsets and missing values. It compares each field of each record with its
// expected value.
func TestShop(t *testing.T) {
	n := 1000
	if *proof {
		n = 20_000
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 48)
	}
	t.Logf("replay with -seed=%d", *seed)
	dice := rand.New(rand.NewPCG(*seed, 1))
	pages := make(map[string]page, n)
	var index bytes.Buffer
	for i := range n {
		p := newPage(dice, i)
		pages[p.path] = p
		fmt.Fprintf(&index, "<a href=%s>", p.path)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, ok := pages[r.URL.Path]
		switch {
		case ok:
			w.Header().Set("Content-Type", p.contentType)
			_, _ = w.Write(p.body)
		case r.URL.Path == "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write(index.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	var lines bytes.Buffer
	s := crawl.DefaultSettings()
	s.Fields, s.Delay, s.MaxCrawlDelay, s.HostConcurrency, s.MaxDepth, s.AllowPrivate = groups(), 0, 0, 8, 1, true
	s.Exclude = []string{`/t\d/\d+/x|img|#`}
	config := crawl.Config{
		Dir: filepath.Join(t.TempDir(), "shop.crawl"), Seeds: []string{server.URL + "/"}, Settings: s, Stream: &lines,
	}
	if err := crawl.Run(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	seen, incomplete := 0, 0
	scanner := bufio.NewScanner(&lines)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var r record.Record
		if err := json.Unmarshal(scanner.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(r.URL, server.URL)
		p, ok := pages[path]
		if !ok {
			continue // the index page
		}
		seen++
		base := r.URL[:strings.LastIndexByte(r.URL, '/')+1]
		want := strings.ReplaceAll(p.want, `"img/`, `"`+base+`img/`)
		if string(r.Fields) != want {
			t.Errorf("%s (%s): fields\n%s\nwant\n%s\nin the page %q", path, p.contentType, r.Fields, want, p.body)
		}
		if p.incomplete != slices.Equal(r.Incomplete, []string{"price"}) || !p.incomplete && r.Incomplete != nil {
			t.Errorf("%s: incomplete fields %v, want the price among them: %t", path, r.Incomplete, p.incomplete)
		}
		if p.incomplete {
			incomplete++
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if seen != n || incomplete == 0 {
		t.Errorf("%d of %d pages have records, want all; %d are incomplete, want some", seen, n, incomplete)
	}
	t.Logf("%d pages of %d templates, %d without a price", seen, len(templates), incomplete)
}
