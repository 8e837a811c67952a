package extract

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/transform"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// queryEncoder percent-encodes the queries of a page's references in the charset of the
// page, as browsers do (URL standard, "percent-encode after encoding"). For example, if a
// page in windows-1251 links to ?q=да, the query is %E4%E0. A queryEncoder is not safe for
// concurrent use.
type queryEncoder struct {
	encoder transform.Transformer // returns an error for characters that the charset lacks
	amend   *strings.Replacer     // changes queries before they are encoded; may be nil

	src, dst, out []byte // reused
}

// newQueryEncoder returns the encoder of a charset.
func newQueryEncoder(charset string) *queryEncoder {
	// The encoder that package charset returns cannot be used: it writes &#960; for a
	// character that the charset lacks.
	q := &queryEncoder{encoder: transform.Nop, amend: amendments[charset]}
	if enc, err := htmlindex.Get(charset); err == nil {
		q.encoder = enc.NewEncoder().Transformer
	}
	return q
}

// amendments has the replacements for the queries of each charset. They replace the
// characters that x/text encodes differently from the Encoding standard.
var amendments = map[string]*strings.Replacer{
	"gb18030":     strings.NewReplacer("\uE5E5", lacking(0xE5E5)),
	"shift_jis":   strings.NewReplacer("−", "－", "¥", `\`, "‾", "~"),
	"euc-jp":      strings.NewReplacer("−", "－", "¥", `\`, "‾", "~"),
	"iso-2022-jp": strings.NewReplacer(amendmentsOfISO2022JP()...),
}

// amendmentsOfISO2022JP returns pairs of a text and its replacement. Half-width katakana
// become full-width, and controls that could shift the state of a decoder count as
// characters that the charset lacks. Tabs and newlines are removed, because they must not
// separate characters that are encoded together. (The URL parser would remove them
// later.)
func amendmentsOfISO2022JP() []string {
	pairs := []string{"−", "－", "\x0E", lacking(utf8.RuneError), "\x0F", lacking(utf8.RuneError), "\x1B", lacking(utf8.RuneError),
		"\t", "", "\n", "", "\r", ""}
	narrow := '｡'
	for _, wide := range "。「」、・ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン゛゜" {
		pairs = append(pairs, string(narrow), string(wide))
		narrow++
	}
	return pairs
}

// lacking returns the text that replaces, in a query, a character that the charset lacks:
// its character reference, such as "&#1076;", percent-encoded.
func lacking(r rune) string { return "%26%23" + strconv.Itoa(int(r)) + "%3B" }

// encode returns ref with the non-ASCII characters of its query encoded. It does not
// change a ref that is too long to be a URL. A nil encoder changes nothing.
func (q *queryEncoder) encode(ref string) string {
	mark := strings.IndexByte(ref, '?')
	if q == nil || mark < 0 || len(ref) > 4*canon.MaxBytes || isPlain(ref[mark:]) {
		return ref
	}
	query := ref[mark:]
	if q.amend != nil {
		query = q.amend.Replace(query)
	}
	q.out = append(q.out[:0], ref[:mark]...)
	for query != "" {
		n := 0
		for n < len(query) && query[n] < utf8.RuneSelf {
			n++
		}
		q.out = append(q.out, query[:n]...) // ASCII characters are the same in each charset
		query = query[n:]
		for n = 0; n < len(query) && query[n] >= utf8.RuneSelf; n++ {
		}
		q.appendEncoded(query[:n])
		query = query[n:]
	}
	return string(q.out)
}

// appendEncoded encodes text, which has no ASCII characters, and appends it to q.out.
func (q *queryEncoder) appendEncoded(text string) {
	q.src = append(q.src[:0], text...)
	q.dst = slices.Grow(q.dst[:0], 2*len(text)+16)[:2*len(text)+16]
	q.encoder.Reset()
	for src := q.src; ; {
		written, read, err := q.encoder.Transform(q.dst, src, true)
		for _, c := range q.dst[:written] {
			if c > ' ' && c < 0x7F && strings.IndexByte("\"#<>'", c) < 0 {
				q.out = append(q.out, c) // the second byte of a character can be a letter
			} else {
				q.out = append(q.out, '%', upperHex[c>>4], upperHex[c&15])
			}
		}
		src = src[read:]
		switch {
		case err == transform.ErrShortDst:
			continue
		case err == nil || len(src) == 0:
			return
		}
		r, size := utf8.DecodeRune(src)
		q.out = append(q.out, lacking(r)...)
		src = src[size:]
	}
}

const upperHex = "0123456789ABCDEF"

// isPlain reports whether text is the same in every charset: it must be ASCII, without
// the controls that shift the state of ISO-2022-JP.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c >= utf8.RuneSelf || c == 0x0E || c == 0x0F || c == 0x1B {
			return false
		}
	}
	return true
}
