package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// MissingError reports a file that is shorter than its committed length.
type MissingError = durable.MissingError

// Cut describes what is left of the active file of an output.
type Cut struct {
	Name      string // of the file
	Whole     int64  // bytes of the whole committed lines that are left
	Size      int64  // bytes of the file
	Committed int64  // bytes that were committed
}

// Missing reports whether committed bytes are missing.
func (c Cut) Missing() bool { return c.Size < c.Committed }

// Rest returns a copy of position. If committed bytes of the active file in cfg.Dir are
// missing, the copy ends after the last whole line of that file. Rest also returns the state
// of that file. It changes no files.
func Rest(cfg Config, position frontier.Position) (frontier.Position, Cut, error) {
	cfg = cfg.withDefaults()
	rest, end := slices.Clone(position), cfg.Series.EndOf(position)
	active := slices.IndexFunc(rest, func(at frontier.FileLength) bool { return at.File == cfg.Series.active() })
	if active < 0 {
		return rest, Cut{}, nil
	}
	cut := Cut{Name: cfg.FS.PathJoin(cfg.Dir, cfg.Series.closed(end.File)), Committed: end.Offset}
	file, err := cfg.FS.Open(cut.Name) // the file has this name if a crash came after a rotation and before its commit
	if errors.Is(err, fs.ErrNotExist) {
		cut.Name = cfg.FS.PathJoin(cfg.Dir, cfg.Series.active())
		file, err = cfg.FS.Open(cut.Name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		rest[active].Length = 0
		return rest, cut, nil
	}
	if err != nil {
		return nil, cut, fmt.Errorf("record: %w", err)
	}
	defer func() { _ = file.Close() }() // opened for reading only
	info, err := file.Stat()
	if err != nil {
		return nil, cut, fmt.Errorf("record: %w", err)
	}
	cut.Size = info.Size()
	if cut.Whole = cut.Committed; cut.Missing() {
		if cut.Whole, err = endOfLines(file, cut.Size); err != nil {
			return nil, cut, fmt.Errorf("record: read %s: %w", cut.Name, err)
		}
	}
	rest[active].Length = cut.Whole
	return rest, cut, nil
}

// endOfLines returns where the last whole line of a file of this size ends.
func endOfLines(file vfs.File, size int64) (int64, error) {
	room := make([]byte, blockBytes)
	for size > 0 {
		part := room[:min(size, blockBytes)]
		size -= int64(len(part))
		if _, err := file.ReadAt(part, size); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if at := bytes.LastIndexByte(part, '\n'); at >= 0 {
			return size + int64(at) + 1, nil
		}
	}
	return 0, nil
}

// MovedAway returns the numbers of the closed files in position that are not in the
// reader's directory.
func (r Reader) MovedAway() (away []int, err error) {
	numbers, err := r.closedNumbers()
	if err != nil {
		return nil, err
	}
	for n := 1; n < r.end().File; n++ {
		if _, here := slices.BinarySearch(numbers, n); !here {
			away = append(away, n)
		}
	}
	return away, nil
}
