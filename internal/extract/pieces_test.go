package extract_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// TestLinksComeInPieces reads pages whose links take far more memory than a piece, with enough
// memory, with little and with none. All links arrive, in their order, and never more than a
// piece at once. All memory but that of the last piece is given back.
func TestLinksComeInPieces(t *testing.T) {
	const links = 12_000
	var b strings.Builder
	fmt.Fprintf(&b, `<base href="http://a.test/%s/">`, strings.Repeat("y", 1900))
	for i := range links {
		fmt.Fprintf(&b, `<a href=%d>text</a>`, i)
	}
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := c.Parse("http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	for _, memory := range []int64{1 << 30, 4 << 20, 1 << 20, 0} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			taken, most, next, calls := int64(0), int64(0), 0, 0
			check := func(page *extract.Page) bool {
				calls++
				bytes := 0
				for i, link := range page.Links {
					url := link.URL.String()
					if want := fmt.Sprintf("/%d", next); memory >= 4<<20 && !strings.HasSuffix(url, want) {
						t.Fatalf("link %s, want the one that ends with %s", url, want)
					}
					if page.LinkTexts[i].Text != "text" && memory >= 4<<20 {
						t.Fatalf("link %d has the text %q", next, page.LinkTexts[i].Text)
					}
					bytes += len(url)
					next++
				}
				if bytes > extract.PieceBytes {
					t.Errorf("a piece has %d bytes of URLs", bytes)
				}
				return true
			}
			page := extract.HTML([]byte(b.String()), "text/html; charset=utf-8", base, extract.Options{
				Canon: c, LinkTexts: true, OnPiece: check,
				Hold: func(more int64) bool {
					if taken+more > memory {
						return false
					}
					taken += more
					most = max(most, taken)
					return true
				},
			})
			if memory > 0 && calls < 3 {
				t.Errorf("%d pieces before the last, want at least 3", calls)
			}
			check(page)
			if next+page.TooMany != links || memory >= 4<<20 && page.TooMany > 0 {
				t.Errorf("%d links, %d too many, want %d", next, page.TooMany, links)
			}
			if most > 16<<20 || taken < 0 || taken > extract.PieceBytes+2<<20 {
				t.Errorf("at most %d bytes reserved, %d at the end", most, taken)
			}
		})
	}
}

// TestLinksOfSmallPageTakeOneReservation: the memory of an ordinary page is reserved at once, and
// not link by link.
func TestLinksOfSmallPageTakeOneReservation(t *testing.T) {
	c, _ := canon.New(canon.Options{})
	base, _ := c.Parse("http://a.test/")
	calls := 0
	page := extract.HTML([]byte(strings.Repeat("<a href=/x>x</a><p>text</p>", 1000)+strings.Repeat(`<a href="/some/path?x=1">x</a>`, 100)),
		"text/html; charset=utf-8", base, extract.Options{Canon: c, Hold: func(int64) bool { calls++; return true }})
	if calls != 1 || len(page.Links) != 2 {
		t.Errorf("%d calls of Hold for %d links, want 1 for 2", calls, len(page.Links))
	}
}

// TestDecodedTextIsReserved: the text of a page in another charset can be three times as long as
// its body, and is reserved before it is made.
func TestDecodedTextIsReserved(t *testing.T) {
	c, _ := canon.New(canon.Options{})
	base, _ := c.Parse("http://a.test/")
	for charset, body := range map[string]string{
		"windows-1252": strings.Repeat("\x80", 100_000), "koi8-r": strings.Repeat("\xc1", 100_000),
		"utf-16le": strings.Repeat("AN", 100_000), "gb18030": strings.Repeat("\xb0\xa1", 50_000),
	} {
		reserved := int64(0)
		page := extract.HTML([]byte(body), "text/html; charset="+charset, base, extract.Options{
			Canon: c, Hold: func(more int64) bool { reserved += more; return true },
		})
		if made := extract.TextBytes(page); reserved < int64(made) || made < len(body) {
			t.Errorf("%s: %d bytes reserved for a text that takes %d", charset, reserved, made)
		}
	}
}

// TestTextIsGivenBackForTheNext: if a page names its charset late, it is read a second time. The text
// in the wrong charset gives its memory back before memory for the right one is reserved.
func TestTextIsGivenBackForTheNext(t *testing.T) {
	c, _ := canon.New(canon.Options{})
	base, _ := c.Parse("http://a.test/")
	letters := strings.Repeat("\xc1", 100_000)
	for _, d := range []struct {
		contentType, body string
		factor            int // of the reserved memory, for each byte of the body
	}{
		{"text/html", "<!--" + strings.Repeat(" ", 1500) + "--><meta charset=koi8-r><a href=x>x</a>" + letters, 3},
		{"application/xhtml+xml", xhtmlBegin + "<!--" + strings.Repeat(" ", 1500) + "--><meta charset='koi8-r'/><a href='x'>x</a>" + letters, 6},
	} {
		var h heldMemory
		page := extract.HTML([]byte(d.body), d.contentType, base, extract.Options{Canon: c, Hold: h.hold})
		if page.Charset != "koi8-r" || len(page.Links) != 1 {
			t.Errorf("%s: %d links in the charset %s, want 1 in koi8-r", d.contentType, len(page.Links), page.Charset)
		}
		made, limit := int64(extract.TextBytes(page)), int64(d.factor*len(d.body)+100<<10)
		if h.most > limit || h.taken < made || h.taken > made+100<<10 {
			t.Errorf("%s: at most %d bytes reserved, want at most %d; at the end %d, for a text of %d", d.contentType, h.most, limit, h.taken, made)
		}
	}
}

const xhtmlBegin = "<html xmlns='http://www.w3.org/1999/xhtml'>"

// TestXHTMLIsReserved: what XHTML becomes is reserved before it is made. After a refusal, nothing more is
// made. With enough memory, the document needs no more than twelve times its bytes.
func TestXHTMLIsReserved(t *testing.T) {
	c, _ := canon.New(canon.Options{})
	base, _ := c.Parse("http://a.test/")
	const size = 1 << 20
	for name, body := range map[string]string{
		"text": strings.Repeat("text ", size/5), "quotes in CDATA": "<![CDATA[" + strings.Repeat(`"`, size) + "]]>",
		"many sections": strings.Repeat(`<![CDATA["]]>`, size/13), "elements": strings.Repeat("<b/>", size/4), "less than": strings.Repeat("<", size),
		"script": "<script>" + strings.Repeat("&lt;/", size/5) + "</script>", "script in CDATA": "<script><![CDATA[" + strings.Repeat("</", size/2) + "]]></script>",
		"comment": "<!--" + strings.Repeat("x", size) + "-->", "value": "<p title='" + strings.Repeat("x", size) + "'/>",
		"name": "<" + strings.Repeat("x", size) + "/>", "name of an attribute": "<p " + strings.Repeat("x", size) + "=''/>",
		"namespace": "<p xmlns='" + strings.Repeat("&lt;", size/4) + "'/>", "other charset": "<p>" + strings.Repeat("\xe4", size) + "</p>",
	} {
		for _, memory := range []int64{0, 2 * size, 4 * size, 16 * size} {
			granted, refused, h := int64(0), false, heldMemory{}
			options := extract.Options{Canon: c, Hold: func(more int64) bool {
				if h.taken+more > memory {
					refused = true
					return false
				}
				granted += max(more, 0)
				return h.hold(more)
			}}
			document := []byte(xhtmlBegin + body)
			before := largeBytes()
			page := extract.HTML(document, "application/xhtml+xml", base, options)
			if made := largeBytes() - before; made > granted+256<<10 {
				t.Errorf("%s, with %d bytes of memory: %d reserved, %d made", name, memory, granted, made)
			}
			if cut := page.TooMany > 0; cut != refused {
				t.Errorf("%s, with %d bytes of memory: %d references too many, memory was refused: %t", name, memory, page.TooMany, refused)
			}
			if h.most > 12*size {
				t.Errorf("%s: %d bytes reserved for a document of %d", name, h.most, size)
			}
		}
	}
}

// largeBytes returns how many bytes were made so far in pieces for which the runtime has no size
// class, which are some 20 KiB and larger.
func largeBytes() int64 {
	var all runtime.MemStats
	runtime.ReadMemStats(&all)
	for _, class := range all.BySize {
		all.TotalAlloc -= uint64(class.Size) * class.Mallocs
	}
	return int64(all.TotalAlloc)
}

// heldMemory counts reserved memory.
type heldMemory struct{ taken, most int64 }

func (h *heldMemory) hold(more int64) bool {
	h.taken += more
	h.most = max(h.most, h.taken)
	return true
}
