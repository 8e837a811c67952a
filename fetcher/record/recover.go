package record

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/internal/durable"
)

// recover restores the files of the directory to the committed position. It does not cut
// the active file. It returns the numbers of the closed files that are not packed.
func (f *Files) recover() (plain []int, err error) {
	names, err := f.cfg.FS.List(f.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	series, packed := f.cfg.Series, make(map[int]bool)
	for _, name := range names {
		if n, ok := series.number(name); ok {
			packed[n] = packed[n] || strings.HasSuffix(name, zstdSuffix)
		}
	}
	for _, name := range names {
		n, closed := series.number(name)
		switch {
		case strings.HasSuffix(name, durable.NewSuffix) && (strings.HasPrefix(name, series.prefix()) || strings.HasPrefix(name, series.active())):
			err = f.cfg.FS.Remove(f.path(name)) // left by an interrupted write
		case !closed:
		case n == f.end.File && !packed[n] && f.end.Offset > 0:
			// This rotation was not committed: the closed file is the active file of the
			// position. The records of the new file belong to results that the store never
			// committed.
			err = f.cfg.FS.Rename(f.path(name), f.path(series.active()))
		case n > f.closed():
			err = fmt.Errorf("%s is there, but only %d closed files were committed: it belongs to another output",
				f.path(series.closed(n)), f.closed())
		case strings.HasSuffix(name, zstdSuffix):
		case packed[n]: // the removal of the plain file was interrupted
			err = f.cfg.FS.Remove(f.path(name))
		default:
			plain = append(plain, n)
		}
		if err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
	}
	slices.Sort(plain)
	return plain, nil
}

// openActive opens the active file and cuts it to the offset of f.end.
func (f *Files) openActive() (err error) {
	if f.file, err = durable.OpenAt(f.cfg.FS, f.path(f.cfg.Series.active()), f.end.Offset); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return f.syncDir(f.cfg.Dir)
}
