package sitemap

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html"
)

// LookBytes is how much of a file Looks needs.
const LookBytes = 4 << 10

// Looks reports whether a file that begins with the given bytes is a sitemap in XML or a feed,
// gzipped or not.
func Looks(begin []byte) bool {
	if bytes.HasPrefix(begin, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(bytes.NewReader(begin))
		if err != nil {
			return false
		}
		text := make([]byte, LookBytes)
		n, _ := io.ReadFull(z, text) // the file is longer than begin
		begin = text[:n]
	}
	if !bytes.HasPrefix(bytes.TrimLeft(begin, "\ufeff \t\r\n"), []byte("<")) {
		return false
	}
	for tokens := html.NewTokenizer(bytes.NewReader(begin)); ; {
		switch tokens.Next() {
		case html.ErrorToken, html.EndTagToken:
			return false
		case html.StartTagToken, html.SelfClosingTagToken:
			tag, _ := tokens.TagName()
			return isFirst(local(tag))
		}
	}
}
