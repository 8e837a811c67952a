package fetcher_test

import (
	"testing"
	"testing/synctest"
)

// TestTextDigest: pages that show the same text have the same text_digest, and others do not. Pages
// without text and other files have none.
func TestTextDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, pages(map[string]reply{
			"http://a.test/":      page(`<a href="/1">a</a><a href="/2">b</a><a href="/3">c</a><a href="/empty">d</a><a href="/plain">e</a>`),
			"http://a.test/1":     page(`<title>1</title><p class="x">Not found.</p><a href="/"></a>`),
			"http://a.test/2":     page(`<title>2</title><p>Not   found.</p><a href="/3" title="session 5"></a>`),
			"http://a.test/3":     page(`<p>Found.</p>`),
			"http://a.test/empty": page(`<title>3</title>`),
			"http://a.test/plain": text("Not found."),
		}))
		w.crawl(w.config(), "http://a.test/")
		digest := func(path string) string { return w.sink.recordOf(t, "http://a.test"+path).TextDigest }
		// echo -n Notfound. | sha256sum
		const want = "sha256:e9a20d5e3fb628cec817579439a81d4214c7ebf2921f07d0e57e4bdd394f0459"
		if digest("/1") != want || digest("/2") != want {
			t.Errorf("pages with the same text have %s and %s, want %s", digest("/1"), digest("/2"), want)
		}
		if other := digest("/3"); other == want || other == "" {
			t.Errorf("a page with another text has %q", other)
		}
		if digest("/empty") != "" || digest("/plain") != "" {
			t.Errorf("a page without text has %q, and a text file %q", digest("/empty"), digest("/plain"))
		}
	})
}
