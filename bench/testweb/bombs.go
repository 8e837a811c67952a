package testweb

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
)

// bombs: pages of a gigabyte and more that are small on the wire, a robots.txt
// and a sitemap. What is read of them is like others, cut at the limit. They are put together from
// pieces that were packed once, and are never anywhere as a whole.
var bombs = hardship{
	bit: Bombs, name: "bombs",
	doc: "pages of 1.1 GB that are a megabyte or less in gzip, brotli, zstd",
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
		s.closed("/closed")

		if c.sitemaps {
			s = c.siteWithMaps("maps-bomb.corner.test", "/bomb.xml.gz")
			entry := []byte(strings.TrimSuffix(urlsetOf(s.at("/only/bomb")), "</urlset>\n"))
			s.sitemap("/bomb.xml.gz", "").typed("application/gzip").stream(func(out io.Writer) error { return gzipBomb(entry, out) })
			s.pages("/only/bomb")
		}
	},
}

const (
	bombBytes = 1_100 << 20
	bombPiece = 1 << 20
	blanks    = "                                "
)

func blankPiece() []byte { return bytes.Repeat([]byte(" "), bombPiece) }

// gzipBomb writes one gzip member after the other, which is gzip as well.
func gzipBomb(begin []byte, out io.Writer) error {
	if _, err := out.Write(gzipOf(begin)); err != nil {
		return err
	}
	return repeat(out, gzipOf(blankPiece()), bombBytes/bombPiece)
}

// brotliBomb repeats what the compressor writes for one piece, flushed, behind
// another: the second is the same as all after it.
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
		_ = write() // a buffer takes everything
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

// zstdBomb writes a frame (RFC 8878) of one raw block and many that say how
// often a byte is repeated: four bytes for 128 KiB.
func zstdBomb(begin []byte, out io.Writer) error {
	const (
		block    = 128 << 10
		window   = 7 << 3 // of 2^(10+7) bytes: no block may be longer
		raw, run = 0, 1 << 1
		last     = 1
	)
	header := func(size, kind int) []byte {
		return binary.LittleEndian.AppendUint32(nil, uint32(size<<3|kind))[:3]
	}
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, window}
	frame = append(append(frame, header(len(begin), raw)...), begin...)
	if _, err := out.Write(frame); err != nil {
		return err
	}
	if err := repeat(out, append(header(block, run), ' '), bombBytes/block); err != nil {
		return err
	}
	_, err := out.Write(header(0, raw|last))
	return err
}

// repeat writes piece n times.
func repeat(out io.Writer, piece []byte, n int) error {
	for range n {
		if _, err := out.Write(piece); err != nil {
			return err
		}
	}
	return nil
}
