package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// maxSeedLine is the longest line of a seed file.
const maxSeedLine = 64 << 10

// seedLine is a seed with where it stood.
type seedLine struct {
	text   string
	source string // "argument", or FILE:LINE
}

// seedReader hands out seeds one after the other: arguments, then a file, line
// by line and never whole in memory.
type seedReader struct {
	args   []string
	name   string
	lines  *bufio.Reader
	number int
	close  func() error
	stdin  io.Reader
}

// newSeedReader opens file, "-" for stdin, "" for none.
func newSeedReader(args []string, file string, stdin io.Reader) (*seedReader, error) {
	r := &seedReader{args: args, name: file, stdin: stdin, close: func() error { return nil }}
	var in io.Reader
	switch file {
	case "":
		return r, nil
	case "-":
		r.name, in = "stdin", stdin
	default:
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("seeds: %w", err)
		}
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, errors.Join(fmt.Errorf("seeds: %s is a directory, want a file with one URL a line", file), f.Close())
		}
		r.close, in = f.Close, f
	}
	r.lines = bufio.NewReaderSize(in, maxSeedLine)
	if head, _ := r.lines.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r.lines)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("seeds: %s: %w", r.name, err), r.close())
		}
		r.lines = bufio.NewReaderSize(z, maxSeedLine)
	}
	if head, _ := r.lines.Peek(512); bytes.IndexByte(head, 0) >= 0 {
		return nil, errors.Join(fmt.Errorf("seeds: %s is a binary file, want one URL a line, plain or gzip", r.name), r.close())
	}
	return r, nil
}

// next returns the next seed; io.EOF after the last. A *lineError is about one
// line: the reader goes on behind it.
func (r *seedReader) next() (seedLine, error) {
	if len(r.args) > 0 {
		text := r.args[0]
		r.args = r.args[1:]
		return seedLine{text, "argument"}, nil
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

// lineError reports a line that is no seed.
type lineError struct{ error }

func (r *seedReader) fault(format string, args ...any) error {
	return lineError{fmt.Errorf("%s:%d: %w", r.name, r.number, fmt.Errorf(format, args...))}
}

// defaultDir returns the directory of a crawl that --dir does not name: after
// the first seed's host, or after the seed file.
func defaultDir(args []string, file string, hostOf func(string) (string, error)) (string, error) {
	switch {
	case len(args) > 0:
		host, err := hostOf(args[0])
		if err != nil {
			return "", fmt.Errorf("seed %q: %w", args[0], err)
		}
		return strings.Trim(host, "[]") + ".crawl", nil
	case file == "-":
		return "", errors.New("seeds from stdin want --dir: where the crawl is kept")
	case file != "":
		name := filepath.Base(file)
		name = strings.TrimSuffix(name, ".gz")
		return strings.TrimSuffix(name, filepath.Ext(name)) + ".crawl", nil
	}
	return findDir()
}

// findDir returns the one crawl in the current directory.
func findDir() (string, error) {
	if _, err := os.Stat("crawl.json"); err == nil {
		return ".", nil
	}
	found, _ := filepath.Glob(filepath.Join("*", "crawl.json"))
	switch len(found) {
	case 1:
		return filepath.Dir(found[0]), nil
	case 0:
		return "", errors.New("no seeds, and no crawl in this directory: name seeds, --seeds FILE or --dir DIR")
	}
	return "", fmt.Errorf("%d crawls in this directory: name one with --dir", len(found))
}

// input returns what stdin can be closed by, if seeds come from there.
func (r *seedReader) input() (io.Closer, bool) {
	c, ok := r.stdin.(io.Closer)
	return c, ok && r.name == "stdin"
}
