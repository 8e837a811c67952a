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

// peekBytes is the number of bytes used to detect the form of a file.
const peekBytes = 1 << 10

// input is the file that is being read.
type input struct {
	wire  *bounded // as received
	plain *bounded // uncompressed; the same as wire if the file is not compressed; nil before open
	gzip  bool
	limit int64 // of wire and of plain, in bytes
}

func newInput(r io.Reader, limit int64) *input {
	return &input{wire: &bounded{from: r, left: limit}, limit: limit}
}

// open returns the file's text in UTF-8. lines reports that the text is a list of lines and
// not XML.
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

// bytes returns the number of uncompressed bytes that were read.
func (in *input) bytes() int64 {
	if in.plain == nil {
		return 0
	}
	return in.limit - in.plain.left
}

// declaration finds the charset that an XML declaration names.
var declaration = regexp.MustCompile(`^[\s]*<\?xml\s[^>]*\bencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// decoderOf returns a transformer to UTF-8 for a file with this beginning. A byte order
// mark wins over the XML declaration. decoderOf returns nil if the file is UTF-8 or names
// no charset.
func decoderOf(begin []byte) transform.Transformer {
	if bytes.HasPrefix(begin, []byte("\xfe\xff")) || bytes.HasPrefix(begin, []byte("\xff\xfe")) {
		return unicode.BOMOverride(transform.Nop)
	}
	named := declaration.FindSubmatch(bytes.TrimPrefix(begin, []byte("\xef\xbb\xbf")))
	if named == nil || bytes.HasPrefix(begin, []byte("\xef\xbb\xbf")) {
		return nil
	}
	enc, name := charset.Lookup(string(named[1]))
	// The declaration was found in ASCII text, so the file is not UTF-16, even if it says so.
	if enc == nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") || name == "replacement" {
		return nil
	}
	return enc.NewDecoder()
}

// bounded is a reader with a limit: it reads from the reader in the field from until the field
// left is 0. If that reader has more bytes, Read then returns ErrTooLarge.
type bounded struct {
	from io.Reader
	left int64 // bytes that may still be read
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
	return n, err
}
