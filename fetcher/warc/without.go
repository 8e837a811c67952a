package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/textproto"

	"github.com/klauspost/compress/gzip"
)

// Without copies a WARC file of a crawl, except the requests and answers that drop selects by their URL. It returns the numbers of records that were copied and left out. A record that
// is not whole ends the file, as in one that is being written.
func Without(dst io.Writer, src interface {
	io.Reader
	io.ReaderAt
}, drop func(url string) bool,
) (copied, dropped int, err error) {
	counted := &counter{r: src}
	in := bufio.NewReaderSize(counted, 256<<10) // an io.ByteReader, so that gzip does not read beyond its member
	var member gzip.Reader
	for at := int64(0); ; {
		if err := member.Reset(in); err != nil {
			return copied, dropped, counted.err
		}
		member.Multistream(false)
		text := bufio.NewReader(&member)
		_, err := text.ReadString('\n') // the version
		var fields textproto.MIMEHeader
		if err == nil {
			fields, err = textproto.NewReader(text).ReadMIMEHeader()
		}
		if err == nil {
			_, err = io.Copy(io.Discard, text)
		}
		end := counted.n - int64(in.Buffered())
		switch {
		case counted.err != nil:
			return copied, dropped, counted.err
		case errors.Is(err, io.ErrUnexpectedEOF):
			return copied, dropped, nil
		case err != nil:
			return copied, dropped, fmt.Errorf("the record at byte %d: %w", at, err)
		}
		if url := fields.Get("Warc-Target-Uri"); url != "" && drop(url) {
			dropped++
		} else if _, err := io.Copy(dst, io.NewSectionReader(src, at, end-at)); err != nil {
			return copied, dropped, err
		} else {
			copied++
		}
		at = end
	}
}
