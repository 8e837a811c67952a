package localstore

import (
	"bytes"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// lines is an Output with one line for each record. Each opening begins a new file and
// truncates none. The position says how much of each file counts.
type lines struct {
	fs       vfs.FS
	dir      string
	position frontier.Position
	file     vfs.File
	buffer   []byte
}

func openLines(fs vfs.FS, dir string, position frontier.Position) (*lines, error) {
	name := fmt.Sprintf("records-%06d", len(position))
	file, err := fs.Create(fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	position = append(position[:len(position):len(position)], frontier.FileLength{File: name})
	return &lines{fs: fs, dir: dir, position: position, file: file}, durable.SyncDir(fs, dir)
}

func (l *lines) write(print bloomstore.Fingerprint, round uint32) error {
	l.buffer = fmt.Appendf(l.buffer, "%x %d\n", print, round)
	return nil
}

// Sync implements frontier.Output.
func (l *lines) Sync() (frontier.Position, error) {
	last := len(l.position) - 1
	n, err := l.file.Write(l.buffer)
	if err != nil {
		return nil, err
	}
	l.buffer = l.buffer[:0]
	l.position[last].Length += int64(n)
	if err := l.file.Sync(); err != nil {
		return nil, err
	}
	return append(frontier.Position(nil), l.position...), nil
}

// readLines returns how often each record is in the files, up to the lengths in position.
func readLines(fs vfs.FS, dir string, position frontier.Position) (map[string]int, error) {
	counts := make(map[string]int)
	for _, part := range position {
		file, err := fs.Open(fs.PathJoin(dir, part.File))
		if err != nil {
			return nil, err
		}
		text := make([]byte, part.Length)
		_, err = io.ReadFull(file, text)
		_ = file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.File, err)
		}
		for line := range bytes.Lines(text) {
			counts[string(line)]++
		}
	}
	return counts, nil
}

func line(print bloomstore.Fingerprint, round uint32) string {
	return fmt.Sprintf("%x %d\n", print, round)
}
