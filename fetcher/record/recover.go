package record

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/internal/durable"
)

// found tells which forms of a closed file exist.
type found struct{ plain, packed bool }

// recover restores the directory to the committed position, except the length of the
// active file. It returns the closed files that must be packed.
func (f *Files) recover() (plain []int, err error) {
	names, err := f.cfg.FS.List(f.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	closed := make(map[int]found)
	for _, name := range names {
		if strings.HasPrefix(name, f.cfg.Series.prefix()) || strings.HasPrefix(name, f.cfg.Series.active()) {
			if strings.HasSuffix(name, durable.NewSuffix) { // left by an interrupted write
				if err := f.cfg.FS.Remove(f.path(name)); err != nil {
					return nil, fmt.Errorf("record: %w", err)
				}
				continue
			}
		}
		if n, ok := f.cfg.Series.number(name); ok {
			is := closed[n]
			if strings.HasSuffix(name, zstdSuffix) {
				is.packed = true
			} else {
				is.plain = true
			}
			closed[n] = is
		}
	}
	for n, is := range closed {
		switch {
		case n == f.end.File && !is.packed && f.end.Offset > 0:
			// This rotation was not committed: the closed file is the active file of the
			// position. The records of the new file belong to completions that never took
			// effect.
			err = f.cfg.FS.Rename(f.path(f.cfg.Series.closed(n)), f.path(f.cfg.Series.active()))
		case n > f.closed():
			err = fmt.Errorf("%s is there, but only %d closed files were committed: it belongs to another output",
				f.path(f.cfg.Series.closed(n)), f.closed())
		case is.plain && is.packed: // the removal of the plain file was interrupted
			err = f.cfg.FS.Remove(f.path(f.cfg.Series.closed(n)))
		case is.plain:
			plain = append(plain, n)
		}
		if err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
	}
	slices.Sort(plain)
	return plain, nil
}

// openActive opens the active file and cuts it to the end of the lines.
func (f *Files) openActive() (err error) {
	if f.file, err = durable.OpenAt(f.cfg.FS, f.path(f.cfg.Series.active()), f.end.Offset); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return f.syncDir(f.cfg.Dir)
}
