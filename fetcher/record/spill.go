package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// spills are the temporary files of an export or a join, in a directory of their own.
type spills struct {
	dir   string
	files []*os.File
}

func newSpills(temp, name string) (*spills, error) {
	dir, err := os.MkdirTemp(temp, name)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	return &spills{dir: dir}, nil
}

// remove closes and removes the files.
func (s *spills) remove() (err error) {
	for _, file := range s.files {
		err = errors.Join(err, file.Close())
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// spill is a file that is written once, then read once.
type spill struct {
	file *os.File
	*bufio.Writer
}

func (s *spills) create() (*spill, error) {
	file, err := os.CreateTemp(s.dir, "")
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	s.files = append(s.files, file)
	return &spill{file, bufio.NewWriterSize(file, 16<<10)}, nil
}

// reader flushes the writer and returns a reader at the start of the file.
func (s *spill) reader() (*bufio.Reader, error) {
	if err := s.Flush(); err != nil {
		return nil, err
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return bufio.NewReaderSize(s.file, 16<<10), nil
}

// all flushes the writer and returns the content of the file.
func (s *spill) all() ([]byte, error) {
	if err := s.Flush(); err != nil {
		return nil, err
	}
	return os.ReadFile(s.file.Name())
}
