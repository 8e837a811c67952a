package sitemap

import (
	"bufio"
	"bytes"
	"io"

	"github.com/klauspost/compress/gzip"
)

// peekBytes is the number of bytes used to detect the form of a file.
const peekBytes = 1 << 10

// open returns the uncompressed text of a file. It reads at most limit bytes of the file and
// of the text. lines reports that the text is a list of lines and not XML.
func open(file io.Reader, limit int64) (text *bufio.Reader, lines bool, err error) {
	text = bufio.NewReaderSize(&bounded{from: file, left: limit}, 4<<10)
	if magic, _ := text.Peek(2); bytes.Equal(magic, []byte("\x1f\x8b")) {
		z, err := gzip.NewReader(text)
		if err != nil {
			return nil, false, err
		}
		text = bufio.NewReaderSize(&bounded{from: z, left: limit}, 4<<10)
	}
	begin, err := text.Peek(peekBytes)
	if len(begin) == 0 && err != nil && err != io.EOF {
		return nil, false, err
	}
	begin = bytes.TrimLeft(begin, "\ufeff \t\r\n")
	return text, len(begin) > 0 && begin[0] != '<', nil
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
