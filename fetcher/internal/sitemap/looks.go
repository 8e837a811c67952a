package sitemap

import (
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html"
)

// LookBytes is how much of a file FormOf needs.
const LookBytes = 4 << 10

// Form is what a file is.
type Form uint8

const (
	None    Form = iota // neither a sitemap in XML nor a feed
	Listing             // a sitemap, or an index of sitemaps
	Feed                // RSS or Atom
)

// FormOf returns the form of a file that begins with the given bytes, gzipped or not.
func FormOf(begin []byte) Form {
	if bytes.HasPrefix(begin, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(bytes.NewReader(begin))
		if err != nil {
			return None
		}
		text := make([]byte, LookBytes)
		n, _ := io.ReadFull(z, text) // the file is longer than begin
		begin = text[:n]
	}
	begin = skipBlank(plain(begin))
	if !bytes.HasPrefix(begin, []byte("<")) {
		return None
	}
	for tokens := html.NewTokenizer(bytes.NewReader(begin)); ; {
		switch tokens.Next() {
		case html.ErrorToken, html.EndTagToken:
			return None
		case html.StartTagToken, html.SelfClosingTagToken:
			tag, _ := tokens.TagName()
			form := formOf(local(tag))
			if form == Feed && local(tag) == "rdf" && !isRSS(begin) {
				return None
			}
			return form
		}
	}
}

// isRSS reports whether a document of RDF uses the elements of RSS 0.90, 1.0 or 1.1.
func isRSS(begin []byte) bool {
	for _, space := range []string{"//purl.org/rss/", "//purl.org/net/rss1.1", "//my.netscape.com/rdf/simple/", "//channel.netscape.com/rdf/simple/"} {
		if bytes.Contains(begin, []byte(space)) {
			return true
		}
	}
	return false
}
