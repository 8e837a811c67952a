package testweb

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var (
	seed  = flag.Uint64("seed", 1, "seed of the webs under test")
	proof = flag.Bool("proof", false, "unpack the bombs wholly: 3.4 GB")
)

func newWeb(t testing.TB, cfg Config) *Web {
	t.Helper()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// hard returns a web with the given hardships. The web is small enough to request every
// page.
func hard(t testing.TB, set Hardships) *Web {
	t.Helper()
	t.Logf("replay with -seed=%d", *seed)
	return newWeb(t, Config{Seed: *seed, Hosts: 100, Pages: 4000, Hardships: set, MeanBytes: 1500, MaxBodyBytes: 128 << 10, KeepLog: true})
}

// Expect returns what a correct crawl records for a URL. isExpected is false if a
// correct crawl never finds the URL.
func (w *Web) Expect(url string) (e Expectation, isExpected bool) {
	t := w.targetOf(url)
	if isExpected = t.isExpected(); isExpected {
		e = w.expect(t)
	}
	return e, isExpected
}

// Digest returns the SHA-256 of the part of a URL's body that a correct crawl reads, in
// hexadecimal. isRead is false if a correct crawl does not read the body.
func (w *Web) Digest(url string) (digest string, isRead bool) {
	return w.digestOf(w.targetOf(url))
}

func TestSameSeedSameWeb(t *testing.T) {
	cfg := Config{Seed: *seed, Hosts: 40, Pages: 600, Hardships: All, MeanBytes: 1000, MaxBodyBytes: 128 << 10}
	var once, twice, other bytes.Buffer
	for _, c := range []struct {
		seed uint64
		out  *bytes.Buffer
	}{{*seed, &once}, {*seed, &twice}, {*seed + 1, &other}} {
		cfg.Seed = c.seed
		if err := newWeb(t, cfg).WriteExpected(c.out); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(once.Bytes(), twice.Bytes()) {
		t.Error("two webs with the same seed differ")
	}
	if bytes.Equal(once.Bytes(), other.Bytes()) {
		t.Error("two webs with different seeds are the same")
	}
}

func TestShapeOfWeb(t *testing.T) {
	for _, c := range []struct {
		hosts, pages int
		share        float64
		largest      int
	}{
		{1, 1, 0.02, 1},
		{1, 1000, 0.02, 1000},
		{10, 10, 1, 1},
		{10, 1000, 0.02, 100}, // an even share
		{200, 20_000, 0.02, 400},
		{200, 20_000, 0.5, 10_000},
		{100_000, 1_000_000, 0.02, 20_000},
		{3, 100, 1, 98},
		{51, 101, 0.02, 2},
	} {
		s := newShape(c.hosts, c.pages, c.share)
		if s.pages() != c.pages || s.hosts() != c.hosts {
			t.Errorf("newShape(%d, %d, %v) has %d pages on %d hosts", c.hosts, c.pages, c.share, s.pages(), s.hosts())
		}
		for h := range s.hosts() {
			if n := s.size(h); n < 1 || n > c.largest || h == 0 && n != c.largest {
				t.Errorf("newShape(%d, %d, %v): host %d has %d pages, want 1 to %d", c.hosts, c.pages, c.share, h, n, c.largest)
			}
		}
	}
}

// TestURLs checks that every expected URL is parsed into the right target, and that
// slightly different URLs are unknown.
func TestURLs(t *testing.T) {
	w := hard(t, All)
	seen := map[string]bool{}
	w.each(func(to target) bool {
		url := w.url(to)
		if seen[url] {
			t.Errorf("two targets have the URL %s", url)
		}
		seen[url] = true
		if got := w.targetOf(url); got != to {
			t.Errorf("targetOf(%q) = %+v, want %+v", url, got, to)
		}
		if !to.isExpected() {
			t.Errorf("%s is not expected", url)
		}
		for _, wrong := range []string{
			url + "?x=1", url + "#top", strings.ToUpper(url), strings.Replace(url, "test/", "test:80/", 1) + "#",
			strings.Replace(url, "http://", "https://", 1), strings.Replace(url, "test/", "test//", 1) + "#",
			"http://x." + url[len("http://"):], url[:len("http://h")] + "0" + url[len("http://h"):], strings.TrimSuffix(url, "/"),
		} {
			if e, isExpected := w.Expect(wrong); isExpected && wrong != url {
				t.Errorf("Expect(%q) = an expectation of %s, want none", wrong, e.URL)
			}
		}
		return true
	})
	for e := range w.Expected() {
		delete(seen, e.URL)
	}
	if len(seen) > 0 {
		t.Errorf("%d URLs are missing in Expected", len(seen))
	}
}

// TestLinksAreWhatPagesSay compares LinksOf with the links in the pages, and the
// canonical form of each link with the result of a WHATWG parser.
func TestLinksAreWhatPagesSay(t *testing.T) {
	t.Logf("replay with -seed=%d", *seed)
	w := newWeb(t, Config{Seed: *seed, Hosts: 40, Pages: 1200, Hardships: All, MeanBytes: 1500})
	spelled := 0
	_, decoys := extract([]byte(noLinks))
	w.each(func(to target) bool {
		url := w.url(to)
		links := w.LinksOf(url)
		if to.kind != aPage || !w.fateOf(to.page).hasLinks() {
			if len(links) > 0 {
				t.Errorf("a crawl does not read %s, but LinksOf has %d links", url, len(links))
			}
			return true
		}
		_, hrefs := extract(w.appendPage(nil, to.page))
		base := url
		hrefs = slices.DeleteFunc(hrefs, func(h href) bool {
			if h.isBase {
				base = canonical(url, h.href)
			}
			return h.isBase || slices.Contains(decoys, h)
		})
		if len(hrefs) != len(links) {
			t.Fatalf("the page %s has %d links, but LinksOf has %d", url, len(hrefs), len(links))
		}
		for i, link := range links {
			if hrefs[i].href != link.Raw {
				t.Errorf("%s: link %d is %q in the page, but %q in LinksOf", url, i, hrefs[i].href, link.Raw)
			}
			if got := canonical(base, link.Raw); got != link.Canonical {
				t.Errorf("%s: canonical form of %q relative to %s = %q, but LinksOf has %q", url, link.Raw, base, got, link.Canonical)
			}
			if link.Raw != link.Canonical {
				spelled++
			}
		}
		return true
	})
	if spelled < 1000 {
		t.Errorf("%d links differ from their canonical form, want 1000 or more", spelled)
	}
}

// TestSpellings writes links to pages of every path style many times, relative to several
// base URLs. Each link must resolve to the canonical URL of its page.
func TestSpellings(t *testing.T) {
	w := hard(t, Spellings|Robots|Redirects)
	pages := map[int][]page{}
	w.each(func(to target) bool {
		if to.kind == aPage && to.page.index > 0 {
			style := w.styleOf(to.page)
			pages[style] = append(pages[style], to.page)
		}
		return true
	})
	if len(pages) != len(styles) {
		t.Errorf("%d styles have pages, want %d", len(pages), len(styles))
	}
	for style, pages := range pages {
		own, _, _ := strings.Cut(styles[style].prefix, "?")
		own = own[:strings.LastIndexByte(own, '/')+1] // the page's own folder
		times := 500
		// An HTML parser reads "&copy" as © if a line end follows directly. Few links have
		// a line end there, so a fault of spell shows only in many links.
		if style == styleCopy {
			times = 8000
		}
		for i := range times {
			p := pages[i%min(len(pages), 50)]
			d := dice{mix(*seed) + uint64(i)}
			for _, from := range []base{{0, "/", ""}, {9, "/base/of/pages/", ""}, {p.host, own, ""}, {p.host, "/", ""}} {
				checkSpelling(t, w, &d, from, p)
			}
		}
	}
}

func checkSpelling(t *testing.T, w *Web, d *dice, from base, p page) {
	t.Helper()
	s := w.spell(d, from, target{kind: aPage, page: p})
	_, links := extract(append(s.appendAttribute([]byte("<a "), "href"), '>'))
	if len(links) != 1 || links[0].href != string(s.value) {
		t.Fatalf("attribute %+v is read as %+v, want %q", s, links, s.value)
	}
	want, base := w.url(target{kind: aPage, page: p}), "http://"+hostName(from.host)+from.folder+"x.html"
	if got := canonical(base, links[0].href); got != want {
		t.Errorf("%q relative to %s is %s, want %s", links[0].href, base, got, want)
	}
}

// TestDrawsAreApart checks that the random numbers for different seeds, purposes and
// pages differ.
func TestDrawsAreApart(t *testing.T) {
	seen := map[uint64]string{}
	for s := range uint64(4) {
		w := newWeb(t, Config{Seed: s})
		for why := forFate; why <= forSize; why++ {
			for _, p := range []page{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {2, 0}} {
				name := fmt.Sprintf("seed %d, purpose %d, page %v", s, why, p)
				if other, isThere := seen[w.draw(why, p)]; isThere {
					t.Errorf("%s has the same random number as %s", name, other)
				}
				seen[w.draw(why, p)] = name
			}
		}
	}
}

// TestFlatMemory checks that a web of 10⁸ pages takes little memory, even after a walk
// over some of its URLs.
func TestFlatMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := newWeb(t, Config{Seed: *seed, Hosts: 100_000, Pages: 100_000_000, Hardships: All})
	walked := 0
	for range w.Expected() {
		if walked++; walked == 200_000 {
			break
		}
	}
	for host := 0; host < 100_000; host += 1000 {
		url := w.url(target{kind: aPage, page: page{host, w.shape.size(host) - 1}})
		if _, isExpected := w.Expect(url); !isExpected {
			t.Errorf("Expect(%q) has no expectation", url)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
		t.Errorf("a web of 10⁸ pages takes %d MiB, want at most 16", grown>>20)
	}
	runtime.KeepAlive(w)
}

func TestConfigFaults(t *testing.T) {
	_, err := New(Config{Hosts: 5, Pages: 3, LargestShare: 2, MeanBytes: -1, MaxBodyBytes: 100, Hardships: 1<<63 | Corners,
		Latency: -1, LatencySpread: math.NaN(), TLS: true})
	if err == nil {
		t.Fatal("New of a config with faults: no error")
	}
	for _, fault := range []string{"Pages", "LargestShare", "MeanBytes", "MaxBodyBytes", "Hardships", "Latency", "LatencySpread", "TLS"} {
		if !strings.Contains(err.Error(), fault+" ") {
			t.Errorf("the error does not name %s: %v", fault, err)
		}
	}
}

func TestParseHardships(t *testing.T) {
	for list, want := range map[string]Hardships{
		"all": All, "none": None, "": None, "4xx": ClientErrors, "429, reset": Throttling | Resets,
		"all,-dead,-huge": All &^ (Dead | Huge), "gzip,-gzip": None,
		"corners": Corners, "everything": Everything, "everything,-corners": All, "bombs,4xx": Bombs | ClientErrors,
	} {
		got, err := ParseHardships(list)
		if err != nil || got != want {
			t.Errorf("ParseHardships(%q) = %v, %v, want %v", list, got, err, want)
		}
		if again, err := ParseHardships(got.String()); err != nil || again != got {
			t.Errorf("the text of %v parses to %v, %v", got, again, err)
		}
	}
	if _, err := ParseHardships("latency,slwo"); err == nil || !strings.Contains(err.Error(), "slwo") {
		t.Errorf("ParseHardships with an unknown hardship: error %v, want one that names slwo", err)
	}
}

func TestHostnamesResolve(t *testing.T) {
	w := hard(t, Dead)
	names := w.Hostnames()
	if want := 100 + w.deadHosts(); len(names) != want {
		t.Errorf("%d host names, want %d", len(names), want)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 100+w.deadHosts() {
		t.Error("host names are not distinct")
	}
}

func BenchmarkServe(b *testing.B) {
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"bytes=4096/hardships=none", Config{MeanBytes: 4096, MeanLinks: 10}},
		{"bytes=14336/hardships=none", Config{}},
		{"bytes=4096/hardships=spellings,robots,redirects", Config{MeanBytes: 4096, MeanLinks: 10, Hardships: Spellings | Robots | Redirects}},
	} {
		b.Run(c.name, func(b *testing.B) {
			c.cfg.Hosts, c.cfg.Pages = 1000, 1_000_000
			w := newWeb(b, c.cfg)
			requests := benchRequests(w)
			out, bytes := &discard{}, 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				out.reset()
				w.serve(out, requests[i%len(requests)])
				bytes += out.bytes
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pages/s")
			b.ReportMetric(float64(bytes)/float64(b.N), "bytes/page")
		})
	}
}

func BenchmarkExpect(b *testing.B) {
	w := newWeb(b, Config{Hosts: 1000, Pages: 1_000_000, Hardships: All})
	url := w.url(target{kind: aPage, page: page{7, 900}})
	for b.Loop() {
		if _, isExpected := w.Expect(url); !isExpected {
			b.Fatal(fmt.Errorf("%s is not expected", url))
		}
	}
}
