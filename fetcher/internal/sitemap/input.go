package sitemap

import (
	"bufio"
	"bytes"
	"io"
	"regexp"
	"strings"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// peekBytes is how much is looked at to tell what a file is.
const peekBytes = 1 << 10

// input is a file on its way to its text.
type input struct {
	wire  *bounded // as it came
	plain *bounded // uncompressed; nil: not opened, or no gzip after all
	gzip  bool
	limit int64 // of either, in bytes
}

func newInput(r io.Reader, limit int64) *input {
	return &input{wire: &bounded{from: r, left: limit}, limit: limit}
}

// open returns the file's text in UTF-8, and whether it is a list of lines and
// no XML.
func (in *input) open() (text *bufio.Reader, lines bool, err error) {
	wire := bufio.NewReaderSize(in.wire, 4<<10)
	text = wire
	if magic, _ := wire.Peek(2); bytes.Equal(magic, []byte("\x1f\x8b")) {
		in.gzip = true
		z, err := gzip.NewReader(wire)
		if err != nil {
			return nil, false, err
		}
		in.plain = &bounded{from: z, left: in.limit}
		text = bufio.NewReaderSize(in.plain, 4<<10)
	} else {
		in.plain = in.wire
	}
	begin, err := text.Peek(peekBytes)
	if len(begin) == 0 && err != nil && err != io.EOF {
		return nil, false, err
	}
	if decoder := decoderOf(begin); decoder != nil {
		text = bufio.NewReaderSize(transform.NewReader(text, decoder), 4<<10)
		begin, _ = text.Peek(peekBytes)
	}
	begin = bytes.TrimLeft(begin, "\ufeff \t\r\n")
	return text, len(begin) > 0 && begin[0] != '<', nil
}

// bytes returns how much was read, uncompressed.
func (in *input) bytes() int64 {
	if in.plain == nil {
		return 0
	}
	return in.plain.read
}

// declaration finds the charset that an XML declaration names.
var declaration = regexp.MustCompile(`^[\s]*<\?xml\s[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// decoderOf returns what makes UTF-8 of a file that begins so: a byte order mark
// decides before the XML declaration. nil: it is UTF-8 already, or says nothing.
func decoderOf(begin []byte) transform.Transformer {
	if bytes.HasPrefix(begin, []byte("\xfe\xff")) || bytes.HasPrefix(begin, []byte("\xff\xfe")) {
		return unicode.BOMOverride(transform.Nop)
	}
	named := declaration.FindSubmatch(bytes.TrimPrefix(begin, []byte("\xef\xbb\xbf")))
	if named == nil || bytes.HasPrefix(begin, []byte("\xef\xbb\xbf")) {
		return nil
	}
	enc, name := charset.Lookup(string(named[1]))
	// What reads like ASCII here is no UTF-16, whatever it says of itself.
	if enc == nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return nil
	}
	return enc.NewDecoder()
}

// bounded reads at most left bytes, then fails with ErrTooLarge if there are
// more.
type bounded struct {
	from io.Reader
	left int64
	read int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if b.left == 0 {
		var one [1]byte
		if n, err := b.from.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, ErrTooLarge
	}
	n, err := b.from.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.read += int64(n)
	return n, err
}
