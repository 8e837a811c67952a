package fetcher_test

import (
	"encoding/hex"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/frontier"
)

// mirror returns a web with two equal pages, a page with other links, one with another text, and files.
func mirror() map[string]reply {
	return map[string]reply{
		"http://a.test/":     page(`<a href="/1">1</a> <a href="/2">2</a> <a href="/3">3</a> <a href="/4">4</a> <a href="/file">5</a> <a href="/copy">6</a>`),
		"http://a.test/1":    page(`<title>one</title><p>The same text</p><a href="/x"></a><a href="/y"></a>`),
		"http://a.test/2":    page(`<title>two</title><p>The same  text</p><a href="/y"></a><a href="/x"></a><a href="/x"></a>`),
		"http://a.test/3":    page(`<p>The same text</p><a href="/z"></a>`),
		"http://a.test/4":    page(`<p>Another text</p><a href="/x"></a><a href="/y"></a>`),
		"http://a.test/file": page(`<title>empty</title>`),
		"http://a.test/copy": page(`<title>empty</title>`),
		"http://a.test/x":    page(`x`),
		"http://a.test/y":    page(`y`),
		"http://a.test/z":    page(`z<a href="/only"></a>`),
		"http://a.test/only": page(`only`),
	}
}

// TestDuplicateOf: records name the first page with the same text, whatever its links are. With SkipDuplicates, the links of pages with
// the same text and the same links are refused, and of no others.
func TestDuplicateOf(t *testing.T) {
	for _, skip := range []bool{false, true} {
		t.Run(fmt.Sprintf("skip=%t", skip), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, pages(mirror()))
				cfg := w.config()
				cfg.SkipDuplicates = skip
				w.crawl(cfg, "http://a.test/")
				of := func(path string) string { return w.sink.recordOf(t, "http://a.test"+path).DuplicateOf }
				first := w.sink.recordOf(t, "http://a.test/1")
				if first.DuplicateOf != "" || of("/2") != first.ID || of("/3") != first.ID {
					t.Errorf("/1, /2 and /3 are duplicates of %q, %q and %q, want none, %q and %q", first.DuplicateOf, of("/2"), of("/3"), first.ID, first.ID)
				}
				if of("/4") != "" || of("/x") != "" || of("/file") != "" || of("/copy") != w.sink.recordOf(t, "http://a.test/file").ID {
					t.Errorf("/4, /x, /file and /copy are duplicates of %q, %q, %q and %q", of("/4"), of("/x"), of("/file"), of("/copy"))
				}
				stats := w.stats()
				want := uint64(0)
				if skip {
					want = 2
				}
				if stats.Refused[frontier.ReasonDuplicate] != want {
					t.Errorf("%d links are refused, want %d", stats.Refused[frontier.ReasonDuplicate], want)
				}
				w.sink.recordOf(t, "http://a.test/only") // the links of /3 are followed
			})
		})
	}
}

// TestSameText: a host that answers every URL with the same text is named with the number of these pages, and others are not.
func TestSameText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := map[string]reply{}
		links := ""
		for i := range 40 {
			path := fmt.Sprintf("/n%s", hex.EncodeToString([]byte{byte(i)}))
			links += fmt.Sprintf(`<a href="%s"></a>`, path)
			web["http://soft.test"+path] = page(`<title>` + path + `</title>No such page`)
			web["http://good.test"+path] = page(fmt.Sprintf(`Page %d`, i/2))
		}
		web["http://soft.test/"], web["http://good.test/"] = page("Start "+links), page("Start "+links)
		w := newWorld(t, pages(web))
		c := w.worker(w.config())
		w.crawlWith(c, fetcher.Empty, "http://soft.test/", "http://good.test/")
		counts := map[string]uint64{}
		c.Hosts(func(h fetcher.HostCounts) {
			for _, host := range h.SameText.Top(10) {
				counts[host.Key] = host.Count
			}
		})
		if n := counts["soft.test"]; n < 38 || n > 40 || len(counts) != 1 {
			t.Errorf("pages with the same text by host: %v, want about 40 of soft.test and none of good.test", counts)
		}
	})
}
