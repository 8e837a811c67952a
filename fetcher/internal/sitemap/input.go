package sitemap

import (
	"bufio"
	"bytes"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/bloomfrontier/crawler/internal/extract"
)

// peekBytes is the number of bytes used to detect the form of a file.
const peekBytes = 1 << 10

// input is the text of a file, uncompressed and in UTF-8.
type input struct {
	*bufio.Reader
	lines   bool // the text is a list of lines and not XML
	decoded bool // the file is in another charset: what could not be decoded is U+FFFD
}

// open opens a file. It reads at most limit bytes of the file, and of its uncompressed bytes.
func open(file io.Reader, contentType string, limit int64) (in input, err error) {
	text := bufio.NewReaderSize(&bounded{from: file, left: limit}, 4<<10)
	if magic, _ := text.Peek(2); bytes.Equal(magic, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(text)
		if err != nil {
			return in, err
		}
		text = bufio.NewReaderSize(&bounded{from: z, left: limit}, 4<<10)
	}
	begin, err := text.Peek(peekBytes)
	if len(begin) == 0 && err != nil && err != io.EOF {
		return in, err
	}
	charset := extract.XMLCharset(begin, contentType)
	if in.lines = isText(begin); in.lines { // is in UTF-8, whatever a server says that sends texts
		charset = extract.XMLCharset(begin, "")
	}
	if in.decoded = charset != "utf-8"; in.decoded {
		text = bufio.NewReaderSize(extract.NewReader(text, charset), 4<<10)
	}
	in.Reader = text
	return in, nil
}

// isText reports whether a file that begins like this is a list of lines and not XML.
func isText(begin []byte) bool {
	begin = skipBlank(plain(begin))
	return len(begin) > 0 && begin[0] != '<'
}

// plain returns the beginning of a file in UTF-8, if it is in UTF-16. Other charsets need not be
// known to recognise a file.
func plain(begin []byte) []byte {
	charset := extract.XMLCharset(begin, "")
	if !strings.HasPrefix(charset, "utf-16") {
		return begin
	}
	text, _ := io.ReadAll(extract.NewReader(bytes.NewReader(begin), charset)) // this does not fail
	return text
}

func skipBlank(text []byte) []byte { return bytes.TrimLeft(text, "\ufeff \t\r\n") }

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
