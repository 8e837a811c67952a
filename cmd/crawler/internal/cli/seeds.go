package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// maxSeedLine is the longest line of a seed file in bytes.
const maxSeedLine = 64 << 10

// seedLine is a seed and its source.
type seedLine struct {
	text   string
	source string // "argument", or FILE:LINE
}

// seedReader returns seeds one by one: first the arguments, then the lines of a file. It
// reads the file line by line.
type seedReader struct {
	args []string
	name string
	// input is the file or stdin. The method begin makes the reader in the field lines from
	// input, and sets input to nil. For a file, newSeedReader calls begin. For stdin, next
	// calls begin after the last argument.
	input  io.Reader
	lines  *bufio.Reader
	number int // number of the last line that was read
	close  func() error
}

// newSeedReader opens file. "-" means stdin, and "" means no file. When ctx ends, reading
// from stdin ends too.
func newSeedReader(ctx context.Context, args []string, file string, stdin io.Reader) (*seedReader, error) {
	r := &seedReader{args: args, name: file, close: func() error { return nil }}
	switch file {
	case "":
		return r, nil
	case "-":
		r.name, r.input = "stdin", interruptible(ctx, stdin)
		return r, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("seeds: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("seeds: %s is a directory, want a file with one URL a line", file), f.Close())
	}
	r.input, r.close = f, f.Close
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// interruptible returns a reader of the text of r. After ctx has ended, reads from this reader
// return an error. A read from a terminal or a pipe cannot be interrupted, so the goroutine
// that reads can run until the process ends.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}

// begin detects the format from the first bytes.
func (r *seedReader) begin() error {
	r.lines, r.input = bufio.NewReaderSize(r.input, maxSeedLine), nil
	if head, _ := r.lines.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r.lines)
		if err != nil {
			return fmt.Errorf("seeds: %s: %w", r.name, err)
		}
		r.lines = bufio.NewReaderSize(z, maxSeedLine)
	}
	_, _ = r.lines.Peek(1) // wait for one byte only, because a pipe might not have more yet
	if head, _ := r.lines.Peek(min(r.lines.Buffered(), 512)); bytes.IndexByte(head, 0) >= 0 {
		return fmt.Errorf("seeds: %s is a binary file, want one URL a line, plain or gzip", r.name)
	}
	return nil
}

// next returns the next seed, or io.EOF after the last one. If it returns a lineError,
// one line is faulty, and the caller can go on with the next line.
func (r *seedReader) next() (seedLine, error) {
	if len(r.args) > 0 {
		text := r.args[0]
		r.args = r.args[1:]
		return seedLine{text, "argument"}, nil
	}
	if r.input != nil {
		if err := r.begin(); err != nil {
			return seedLine{}, err
		}
	}
	for r.lines != nil {
		line, err := r.lines.ReadSlice('\n')
		if len(line) == 0 && err != nil {
			if err != io.EOF {
				err = fmt.Errorf("seeds: %s:%d: %w", r.name, r.number+1, err)
			}
			return seedLine{}, err
		}
		r.number++
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.lines.ReadSlice('\n')
			}
			return seedLine{}, r.fault("longer than %d bytes", maxSeedLine)
		}
		text := strings.TrimSpace(strings.TrimPrefix(string(line), "\ufeff"))
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		case !utf8.ValidString(text):
			return seedLine{}, r.fault("not UTF-8")
		}
		return seedLine{text, fmt.Sprintf("%s:%d", r.name, r.number)}, nil
	}
	return seedLine{}, io.EOF
}

// lineError reports a line that is not a seed.
type lineError struct{ error }

func (r *seedReader) fault(format string, args ...any) error {
	return lineError{fmt.Errorf("%s:%d: %w", r.name, r.number, fmt.Errorf(format, args...))}
}

// defaultDir returns the directory of a crawl without --dir. It is named after the host
// of the first seed, or after the seed file. Without seeds, it is the result of findDir.
func defaultDir(args []string, file string) (string, error) {
	switch {
	case len(args) > 0:
		c, err := canon.New(canon.Options{})
		if err != nil {
			return "", err
		}
		url, err := seed.Parse(c, args[0])
		if err != nil {
			return "", fmt.Errorf("argument %s", seed.Fault(args[0], err, seed.WantSeed))
		}
		return hostDir(url), nil
	case file == "-":
		return "", errors.New("seeds from stdin want --dir, the directory that the crawl is kept in")
	case file != "":
		return filepath.Base(file) + ".crawl", nil
	}
	return findDir()
}

// Names of the files that mark directories.
const (
	crawlFile  = "crawl.json"  // in the directory of a crawl
	workerFile = "worker.json" // in the directory of a worker
)

// findDir returns the directory of the only crawl in the current directory. It returns
// errNoCrawl if there is none.
func findDir() (string, error) {
	if _, err := os.Stat(crawlFile); err == nil {
		return ".", nil
	}
	found, _ := filepath.Glob(filepath.Join("*", crawlFile))
	switch len(found) {
	case 1:
		return filepath.Dir(found[0]), nil
	case 0:
		return "", errNoCrawl
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return "", fmt.Errorf("%d crawls in this directory (%s): name one with --dir", len(found), strings.Join(found, ", "))
}

// errNoCrawl reports that the command line names no crawl and that the current directory
// contains none.
var errNoCrawl = errors.New("no crawl in this directory, and no seeds: name a URL, --seeds FILE or --dir DIR")
