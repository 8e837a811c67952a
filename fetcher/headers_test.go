package fetcher_test

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestHeadersMeanWhatElementsMean: Refresh and Link name links and the canonical URL, relative to
// the URL of the answer and not to a base element, and nofollow applies to them.
func TestHeadersMeanWhatElementsMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://h.test/d/a": {body: `<base href="/other/"><p>Wait.`, header: map[string]string{
				"Refresh": "0; url=r", "Link": `<n>; rel=next, <c>; rel=canonical`,
			}},
			"http://h.test/no":   {header: map[string]string{"Refresh": "0; url=/never", "X-Robots-Tag": "nofollow"}},
			"http://h.test/meta": {body: `<meta name=robots content=nofollow>`, header: map[string]string{"Link": "</never>; rel=next"}},
		}))
		w.crawl(w.config(), "http://h.test/d/a", "http://h.test/no", "http://h.test/meta")
		for url, want := range map[string]int{"http://h.test/d/r": 1, "http://h.test/d/n": 1, "http://h.test/d/c": 0, "http://h.test/never": 0} {
			if n := w.wire.count(url); n != want {
				t.Errorf("%d requests for %s, want %d", n, url, want)
			}
		}
		if r := w.sink.recordOf(t, "http://h.test/d/a"); r.Canonical != "http://h.test/d/c" {
			t.Errorf("canonical %q", r.Canonical)
		}
	})
}

// TestRefreshToAnotherSpelling: a refresh to another spelling of the same URL is like a redirect to
// it, and the links of the first page are kept.
func TestRefreshToAnotherSpelling(t *testing.T) {
	for _, first := range []reply{
		{body: `<meta http-equiv=refresh content="0;url=?PHPSESSID=1"><a href=/first>x</a>`},
		{body: `<a href=/first>x</a>`, header: map[string]string{"Refresh": "0;url=/a?PHPSESSID=1"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, pages(map[string]reply{
				"http://h.test/a":             first,
				"http://h.test/a?PHPSESSID=1": page(`<title>here</title><meta http-equiv=refresh content="300"><a href=/second>x</a>`),
			}))
			w.crawl(w.config(), "http://h.test/a")
			urls := w.wire.urls()
			if !slices.Contains(urls, "http://h.test/first") || !slices.Contains(urls, "http://h.test/second") || len(urls) != 5 {
				t.Errorf("requests %q", urls)
			}
			if r := w.sink.recordOf(t, "http://h.test/a"); r.Title != "here" || r.Spelling != "http://h.test/a?PHPSESSID=1" {
				t.Errorf("record %+v", r)
			}
		})
	}
}
