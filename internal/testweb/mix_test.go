package testweb

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func newMix(t testing.TB, hosts, pages int) *Web {
	t.Helper()
	w, err := New(Config{Seed: 1, Hosts: hosts, Pages: pages, Mix: MixWeb})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestPackedIsPage: the prepared gzip of a page is the gzip of the page.
func TestPackedIsPage(t *testing.T) {
	w := newMix(t, 20, 0)
	for i := range 300 {
		p := page{i % 20, i * i}
		z, err := gzip.NewReader(bytes.NewReader(w.appendPacked(nil, p)))
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := io.ReadAll(z)
		if want := w.appendPage(nil, p); err != nil || !bytes.Equal(unpacked, want) {
			t.Fatalf("page %v: %d bytes, %v, want the %d of the page", p, len(unpacked), err, len(want))
		}
	}
}

// TestMixFigures: the figures of the mix are those of its table.
func TestMixFigures(t *testing.T) {
	w := newMix(t, 2000, 0)
	var sizes, links []float64
	redirects, failed, pages, refused := 0.0, 0.0, 0.0, 0.0
	seen, asked, fresh := make(map[page]bool), 0.0, 0.0
	queue := []page{}
	find := func(p page) {
		if asked++; !seen[p] {
			seen[p] = true
			fresh++
			queue = append(queue, p)
		}
	}
	for host := range 1000 { // as the seeds of the broad benchmark
		find(page{host, 0})
	}
	asked, fresh = 0, 0
	for len(queue) > 0 && pages < 20_000 { // as a crawl does in its first minutes
		p := queue[0]
		queue = queue[1:]
		switch f := w.fateOf(p); {
		case f == moved:
			redirects++
			find(w.movedTo(p))
		case f == fateRobots:
			refused++
		case !f.hasLinks():
			if failed++; f.outcome != "client_error" {
				failed += 3 // further attempts
			}
		default:
			pages++
			sizes = append(sizes, float64(len(w.appendPage(nil, p))))
			all := w.links(nil, p)
			links = append(links, float64(len(all)))
			for _, to := range all {
				find(to.page)
			}
		}
	}
	quantile := func(all []float64, q float64) float64 {
		slices.Sort(all)
		return all[int(q*float64(len(all)))]
	}
	for _, c := range []struct {
		what            string
		got, want, most float64 // most is the largest relative difference
	}{
		{"bytes, p50", quantile(sizes, 0.5), 66e3, 0.1}, {"bytes, p95", quantile(sizes, 0.95), 407e3, 0.1}, {"bytes, p99", quantile(sizes, 0.99), 846e3, 0.15},
		{"links, p50", quantile(links, 0.5), 39, 0.1}, {"links, p95", quantile(links, 0.95), 281, 0.1}, {"links, p99", quantile(links, 0.99), 699, 0.15},
		{"new links", fresh / asked, 0.34, 0.1}, {"links a page", asked / pages, 76, 0.15},
		{"redirects a page", redirects / pages, 0.39, 0.1}, {"failed requests", failed / (failed + pages + redirects), 0.19, 0.1},
		{"refused by robots.txt", refused / (refused + redirects + pages + failed), 0.25, 0.15},
	} {
		t.Logf("%s: %.4g, table %.4g", c.what, c.got, c.want)
		if math.Abs(c.got/c.want-1) > c.most {
			t.Errorf("%s: %.4g, want %.4g within %g %%", c.what, c.got, c.want, 100*c.most)
		}
	}
}

// BenchmarkServeMix measures what an answer costs the server without TLS.
func BenchmarkServeMix(b *testing.B) {
	w := newMix(b, 1000, 0)
	h := w.Handler()
	n := 0
	for b.Loop() {
		n++
		p := page{n % 1000, 1 + n%500}
		r := httptest.NewRequest(http.MethodGet, w.url(target{kind: aPage, page: p}), nil)
		r.Header.Set("Accept-Encoding", "gzip")
		if w.fateOf(p).hasLinks() {
			h.ServeHTTP(&discard{header: http.Header{}}, r)
		}
	}
}

// TestMixConfig: a mix cannot be combined with hardships.
func TestMixConfig(t *testing.T) {
	for _, c := range []Config{{Mix: MixWeb, Hardships: Robots}, {Mix: "other"}} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), "Mix") {
			t.Errorf("New(%+v): %v, want an error about Mix", c, err)
		}
	}
}
