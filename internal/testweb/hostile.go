package testweb

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/andybalholm/brotli"
)

// endless is a hardship: bodies that never end. If a body comes fast, a correct crawl
// stops reading at Config.MaxBodyBytes, even inside a tag or a comment. If a body comes
// at one byte per second, or stops, every attempt fails.
var endless = hardship{
	bit: Endless, name: "endless",
	doc: "bodies without end, fast or a byte a second",
	corner: func(c *corners) {
		s := c.site("endless.corner.test")
		s.enter("/", "/text", "/tag", "/comment", "/attribute")
		for _, body := range []struct{ name, begin, more string }{
			{"text", "", "<p>and on</p>\n"}, {"tag", "", "<b><i>"}, {"comment", "<!--", " <a href=/decoy> "}, {"attribute", "<a title='", "and on "},
		} {
			p := s.page("/" + body.name)
			begin := string(documentOf(p.titleOf(), []string{"/beside/" + body.name})) + body.begin
			p.stream(func(out io.Writer) error { return endlessly(out, begin, body.more) })
			p.want.Truncated = true
			s.pages("/beside/" + body.name)
		}
		for _, name := range []string{"drip", "pause"} {
			s := c.site(name + ".corner.test")
			s.enter("/", "/body", "/open")
			s.pages("/open")
			p := s.page("/body").stream(dripping(name == "drip")).expects("network", 0)
			p.failing(forever, asGood)
		}
	},
}

// dripping returns a function that writes some text. After that, if isSlow is true, the
// function writes one byte per second without end. Otherwise it writes one more byte
// and then nothing.
func dripping(isSlow bool) func(io.Writer) error {
	return func(out io.Writer) error {
		if !drip(out, bytes.Repeat([]byte("<p>on</p>"), 100), 0) {
			return io.ErrShortWrite
		}
		for drip(out, []byte("."), time.Second) {
			for !isSlow && drip(out, nil, time.Second) {
			}
		}
		return io.ErrShortWrite
	}
}

// headers is a hardship: answers with very large headers, in one line or in many. A
// correct crawl treats an answer with a header of a megabyte as a network error, and
// accepts a header of about 100 KiB. The limit is 256 KiB.
var headers = hardship{
	bit: Headers, name: "headers",
	doc: "headers of a megabyte, in one line or in many, and large but valid headers",
	corner: func(c *corners) {
		const flood = 1 << 20
		lines := func(n int) (all []string) {
			for i := range n {
				all = append(all, fmt.Sprintf("line %d of too many, which says nothing at all", i))
			}
			return all
		}
		s := c.site("headers.corner.test")
		s.enter("/", "/large", "/many")
		s.page("/large").with("X-Large", strings.Repeat("x", 100<<10))
		s.page("/many").with("X-Many", lines(1000)...)
		for _, name := range []string{"long", "flood"} {
			s := c.site("headers-" + name + ".corner.test")
			s.enter("/", "/body", "/open")
			s.pages("/open")
			p := s.page("/body").expects("network", 0)
			if name == "long" {
				p.with("X-Long", strings.Repeat("x", flood))
			} else {
				p.with("X-Flood", lines(flood/64)...)
			}
			p.failing(forever, asGood)
		}
	},
}

// nesting is a hardship: links inside 5,000 nested elements, and after the end tags of
// these elements. Parsers treat some kinds of elements specially.
var nesting = hardship{
	bit: Nesting, name: "nesting",
	doc: "pages of 5,000 nested elements with links at the bottom",
	corner: func(c *corners) {
		const levels = 5000
		s := c.site("nesting.corner.test")
		s.enter("/")
		for _, element := range strings.Fields("div b font a1 ul-li table-tr-td blockquote svg-g") {
			path := "/" + element
			tags := strings.Split(element, "-")
			open := strings.Repeat("<"+strings.Join(tags, "><")+">", levels)
			p := s.addListed(path)
			title := p.titleOf()
			p.document(title, []byte("<!DOCTYPE html><title>"+title+"</title>"+open+
				"<a href='/bottom"+path+"'>bottom</a><noscript><a href='/bare"+path+"'>bare</a></noscript>"+strings.Repeat("</"+tags[0]+">", levels)+"<a href='/behind"+path+"'>behind</a>"))
			s.pages("/bottom"+path, "/bare"+path, "/behind"+path)
		}
	},
}

// bombs is a hardship: pages and a robots.txt that are small on the wire,
// but more than a gigabyte when they are unpacked. A correct crawl reads them like
// other bodies, up to the usual limit. The server repeats pieces that it compressed
// once, and never has a whole bomb in memory.
var bombs = hardship{
	bit: Bombs, name: "bombs",
	doc: "pages of 1.1 GB, compressed to a megabyte or less with gzip, brotli, zstd",
	corner: func(c *corners) {
		s := c.site("bombs.corner.test")
		s.enter("/", "/gzip", "/brotli", "/zstd")
		for _, bomb := range []struct {
			name, coding string
			pack         func(begin []byte, out io.Writer) error
		}{
			{"gzip", "gzip", gzipBomb}, {"brotli", "br", brotliBomb}, {"zstd", "zstd", zstdBomb},
		} {
			p := s.page("/"+bomb.name, "/beside/"+bomb.name).with("Content-Encoding", bomb.coding)
			begin := documentOf(p.titleOf(), []string{"/beside/" + bomb.name})
			p.stream(func(out io.Writer) error { return endlessly(out, string(begin), blanks) })
			p.packed = func(out io.Writer) error { return bomb.pack(begin, out) }
			p.want.Truncated = true
			s.pages("/beside/" + bomb.name)
		}

		rules := []byte("User-agent: *\nDisallow: /closed\n")
		s = c.site("robots-bomb.corner.test")
		s.robots("").with("Content-Encoding", "gzip").stream(func(out io.Writer) error { return gzipBomb(rules, out) })
		s.enter("/", "/open", "/closed")
		s.pages("/open")
		s.addClosed("/closed")
	},
}

const (
	bombBytes = 1_100 << 20
	bombPiece = 1 << 20
	blanks    = "                                "
)

func blankPiece() []byte { return bytes.Repeat([]byte(" "), bombPiece) }

// gzipBomb writes many gzip members, and zstdBomb many zstd frames. Several of them in
// a row are valid (RFC 1952, RFC 8878).
func gzipBomb(begin []byte, out io.Writer) error { return framesBomb(gzipOf, begin, out) }
func zstdBomb(begin []byte, out io.Writer) error { return framesBomb(zstdOf, begin, out) }

func framesBomb(pack func([]byte) []byte, begin []byte, out io.Writer) error {
	if _, err := out.Write(pack(begin)); err != nil {
		return err
	}
	return repeat(out, pack(blankPiece()), bombBytes/bombPiece)
}

// brotliBomb compresses the first bytes (begin) and a few blank pieces, and then
// repeats the compressed form of the last piece. This is valid, because after the first
// blank pieces the compressor's output is the same for each further piece.
func brotliBomb(begin []byte, out io.Writer) error {
	head, piece, tail := brotliPieces(begin)
	if _, err := out.Write(head); err != nil {
		return err
	}
	if err := repeat(out, piece, bombBytes/bombPiece); err != nil {
		return err
	}
	_, err := out.Write(tail)
	return err
}

func brotliPieces(begin []byte) (head, piece, tail []byte) {
	var packed bytes.Buffer
	z, blank := brotli.NewWriterLevel(&packed, 5), blankPiece()
	next := func(write func() error) []byte {
		_ = write() // writes to a buffer do not fail
		_ = z.Flush()
		defer packed.Reset()
		return bytes.Clone(packed.Bytes())
	}
	blankAgain := func() error { _, err := z.Write(blank); return err }
	head = next(func() error { _, err := z.Write(begin); return err })
	head = append(head, next(blankAgain)...)
	head = append(head, next(blankAgain)...)
	piece = next(blankAgain)
	_ = z.Close()
	return head, piece, packed.Bytes()
}

func repeat(out io.Writer, piece []byte, n int) error {
	for range n {
		if _, err := out.Write(piece); err != nil {
			return err
		}
	}
	return nil
}
