// Package seeds adds the URLs of arguments, files and pipes to a crawl.
//
// A Reader reads the URLs line by line, in flat memory. Add adds them as seeds, and MarkSeen
// counts them as seen. Both work in batches, and wait while the store of the crawl is
// unavailable.
package seeds

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"unicode/utf8"
)

// maxLine is the longest line of a file in bytes.
const maxLine = 64 << 10

// Line is a URL and its source.
type Line struct {
	Text   string
	Source string // "argument", or FILE:LINE
}

// texts returns the URLs of lines.
func texts(lines []Line) []string {
	urls := make([]string, len(lines))
	for i, line := range lines {
		urls[i] = line.Text
	}
	return urls
}

// argument is the source of an argument.
const argument = "argument"

// Reader reads URLs: first the arguments, then the lines of a file. Empty lines and lines
// that begin with # are left out. A file can be compressed with gzip. A Reader is not safe for
// concurrent use.
type Reader struct {
	args []string
	name string
	// input is the file or stdin. The method begin makes the reader in the field lines from
	// input, and sets input to nil. For a file, Open calls begin. For stdin, Next calls begin
	// after the last argument.
	input  io.Reader
	lines  *bufio.Reader
	number int // number of the last line that was read
	file   *os.File
}

// Open returns a Reader of the arguments and of a file. The name "-" means stdin, and "" means
// no file. When ctx ends, reading from stdin or from a pipe ends too.
func Open(ctx context.Context, args []string, name string, stdin io.Reader) (*Reader, error) {
	r := &Reader{args: args, name: name}
	switch name {
	case "":
		return r, nil
	case "-":
		r.name, r.input = "stdin", Interruptible(ctx, stdin)
		return r, nil
	}
	input, f, err := openFile(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("seeds: %w", err)
	}
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.Join(fmt.Errorf("seeds: %s is a directory, want a file with one URL a line", name), f.Close())
	}
	r.input, r.file = input, f
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// Close closes the file.
func (r *Reader) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// ReadFile returns the contents of a file, like os.ReadFile. When ctx ends while a pipe is opened
// or read, it returns the error of ctx.
func ReadFile(ctx context.Context, name string) ([]byte, error) {
	input, f, err := openFile(ctx, name)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(input)
	return text, errors.Join(err, f.Close())
}

// openFile opens a file. The input is the file, or for a pipe an Interruptible reader of it. To
// open a pipe can take for ever, so the goroutine that does it can run until the process ends.
func openFile(ctx context.Context, name string) (io.Reader, *os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	go func() {
		f, err := os.Open(name)
		opened <- result{f, err}
	}()
	var f *os.File
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, nil, r.err
		}
		f = r.f
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if info, err := f.Stat(); err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0 {
		return Interruptible(ctx, f), f, nil
	}
	return f, f, nil
}

// Interruptible returns a reader of the text of r. After ctx has ended, reads from this reader
// return an error. A read from a terminal or a pipe cannot be interrupted, so the goroutine
// that reads can run until the process ends.
func Interruptible(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(ctx.Err()) })
	return out
}

// begin detects the format from the first bytes.
func (r *Reader) begin() error {
	r.lines, r.input = bufio.NewReaderSize(r.input, maxLine), nil
	if head, _ := r.lines.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(r.lines)
		if err != nil {
			return fmt.Errorf("seeds: %s: %w", r.name, err)
		}
		r.lines = bufio.NewReaderSize(z, maxLine)
	}
	_, _ = r.lines.Peek(1) // wait for one byte only, because a pipe might not have more yet
	if head, _ := r.lines.Peek(min(r.lines.Buffered(), 512)); bytes.IndexByte(head, 0) >= 0 {
		return fmt.Errorf("seeds: %s is a binary file, want one URL a line, plain or gzip", r.name)
	}
	return nil
}

// Next returns the next URL, or io.EOF after the last one. If the error is a *LineError, one
// line is faulty, and the caller can go on with the next line.
func (r *Reader) Next() (Line, error) {
	if len(r.args) > 0 {
		text := r.args[0]
		r.args = r.args[1:]
		return Line{text, argument}, nil
	}
	if r.input != nil {
		if err := r.begin(); err != nil {
			return Line{}, err
		}
	}
	for r.lines != nil {
		line, err := r.lines.ReadSlice('\n')
		if len(line) == 0 && err != nil {
			if err != io.EOF {
				err = fmt.Errorf("seeds: %s:%d: %w", r.name, r.number+1, err)
			}
			return Line{}, err
		}
		r.number++
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.lines.ReadSlice('\n')
			}
			return Line{}, &LineError{r.source(), fmt.Sprintf("longer than %d bytes", maxLine)}
		}
		text := strings.TrimSpace(strings.TrimPrefix(string(line), "\ufeff"))
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		case !utf8.ValidString(text):
			return Line{}, &LineError{r.source(), "not UTF-8"}
		}
		return Line{text, r.source()}, nil
	}
	return Line{}, io.EOF
}

// source returns the source of the last line that was read.
func (r *Reader) source() string { return fmt.Sprintf("%s:%d", r.name, r.number) }

// mayBlock reports whether reading the next line can take long. If so, the caller passes on
// the URLs that it has read so far, because a pipe can stay open for hours.
func (r *Reader) mayBlock() bool {
	return r.name == "stdin" && len(r.args) == 0 && (r.lines == nil || r.lines.Buffered() == 0)
}

// LineError reports a line that cannot be a URL.
type LineError struct{ Source, Fault string }

// Error implements error.
func (e *LineError) Error() string { return e.Source + ": " + e.Fault }
