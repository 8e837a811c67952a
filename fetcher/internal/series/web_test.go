package series_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/fetcher/internal/series"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/extract"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// crawl requests all pages of the web in the order in which they are found. Of the pages of traps it requests none.
// The argument keep is called with the state after each page, and returns the state for the next one.
func crawl(t *testing.T, web *testweb.Web, keep func(*series.Host) *series.Host) map[string][]string {
	t.Helper()
	canonicalizer, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	queue, hosts := web.Seeds(), map[string]*series.Host{}
	seen := map[string]bool{queue[0]: true}
	for requests := 0; len(queue) > 0; requests++ {
		if requests == 10_000 {
			t.Errorf("the crawl does not end")
			break
		}
		url, err := canonicalizer.Parse(queue[0])
		if err != nil {
			t.Fatal(err)
		}
		queue = queue[1:]
		if hosts[url.Host()] == nil {
			hosts[url.Host()] = new(series.Host)
		}
		host := hosts[url.Host()]
		if _, trap := host.Judge(url.String()); trap {
			continue
		}
		answer := httptest.NewRecorder()
		request := httptest.NewRequest("GET", url.String(), nil)
		request.RequestURI = url.Path()
		web.Handler().ServeHTTP(answer, request)
		if !strings.HasPrefix(answer.Header().Get("Content-Type"), "text/html") {
			continue
		}
		var added []string
		page := extract.HTML(answer.Body.Bytes(), "text/html; charset=utf-8", url, extract.Options{Canon: canonicalizer})
		for _, link := range page.Links {
			if to := link.URL.String(); !seen[to] {
				seen[to] = true
				queue, added = append(queue, to), append(added, to)
			}
		}
		pattern, numbered := series.Pattern(url.String())
		if !numbered || answer.Code != 200 {
			continue
		}
		if host.Skips(pattern, url.String()) {
			continue
		}
		var text series.Text
		if text.Read(answer.Body.Bytes()); !host.Text(pattern, &text) {
			host.Links(pattern, added)
		}
		hosts[url.Host()] = keep(host)
	}
	traps := map[string][]string{}
	for name, host := range hosts {
		if all := host.Traps(); len(all) > 0 {
			traps[name] = all
		}
	}
	return traps
}

// TestTable: the endless series of the test web are traps after at most 100 pages, and its archives, forums and
// shops are crawled whole. The state is stored and read after each page.
func TestTable(t *testing.T) {
	t.Parallel()
	web, err := testweb.New(testweb.Config{Seed: 1, Hosts: 1, Pages: 1, Hardships: testweb.Numbered, Year: 2026, KeepLog: true})
	if err != nil {
		t.Fatal(err)
	}
	longest := 0
	traps := crawl(t, web, func(h *series.Host) *series.Host {
		stored, err := h.AppendBinary(nil)
		if err != nil || len(stored) > series.MaxBytes {
			t.Fatalf("%d bytes, %v", len(stored), err)
		}
		longest = max(longest, len(stored))
		again := new(series.Host)
		if err := again.UnmarshalBinary(stored); err != nil {
			t.Fatal(err)
		}
		return again
	})
	asked := map[string]int{}
	for _, r := range web.Log() {
		asked["http://"+r.Host+r.Path]++
	}
	pages := map[string]int{}
	for url := range asked {
		if host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/"); strings.HasSuffix(host, ".endless.test") {
			pattern, _ := series.Pattern(url)
			pages[pattern]++
		}
	}
	for pattern, n := range pages {
		t.Logf("%s: %d pages", pattern, n)
		if n > 100 {
			t.Errorf("%d pages of %s, want at most 100", n, pattern)
		}
	}
	if len(pages) < 9 {
		t.Errorf("%d endless series were reached, want 9", len(pages))
	}
	for host, patterns := range traps {
		t.Logf("%s: %v", host, patterns)
		if strings.HasSuffix(host, ".whole.test") {
			t.Errorf("%s has traps: %v", host, patterns)
		}
	}
	whole := 0
	for e := range web.Expected() {
		if asked[e.URL] != 1 {
			t.Errorf("%s is requested %d times, want once", e.URL, asked[e.URL])
		}
		whole++
	}
	t.Logf("%d pages to crawl whole; the longest state has %d bytes", whole, longest)
}
