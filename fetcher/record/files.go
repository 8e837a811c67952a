package record

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Config configures an output in files.
type Config struct {
	Dir         string
	Series      Series // names the files; empty means Pages
	FS          vfs.FS // nil means the operating system's
	RotateBytes int64  // close the active file beyond this length; 0 means 1 GiB, negative never
	Compress    bool   // closed files become .zst
	// OpenArchive opens the archive: a second output in dir, to whose files the records
	// refer. The archive is synced before the records, and Files.Sync returns the positions
	// of both outputs as one. OpenArchive is called after dir has been locked. If
	// OpenArchive is nil or returns nil, there is no archive. Files.Sync then returns the
	// entries for files of other outputs unchanged, as they were in the position for Open.
	OpenArchive func(dir string) (frontier.Output, error)
}

func (c Config) withDefaults() Config {
	c.RotateBytes = cmp.Or(c.RotateBytes, 1<<30)
	if c.FS == nil {
		c.FS = vfs.Default
	}
	return c
}

// Files is an output in the files of a directory. Its methods must not be called
// concurrently. After Sync, the returned position must be committed before any method
// except Close is called.
type Files struct {
	cfg     Config
	file    vfs.File // the active one; nil after a rotation that failed
	end     Place    // of the lines on disk
	buffer  []byte
	packed  int               // the closed files up to this number are packed or being packed
	synced  int               // number of the last closed file in the position that Sync returned last
	archive frontier.Output   // nil means that there is none
	others  frontier.Position // entries for files of other outputs, such as the archive

	packing sync.WaitGroup
	mu      sync.Mutex
	packErr error
}

var (
	_ Sink            = (*Files)(nil)
	_ frontier.Output = (*Files)(nil)
)

// Open opens the output in cfg.Dir and cuts it to position, which a store committed.
// A nil position means an empty output. It returns an error if committed files or
// bytes are missing, or if there are files of another output.
func Open(cfg Config, position frontier.Position) (*Files, error) {
	cfg = cfg.withDefaults()
	others := slices.DeleteFunc(slices.Clone(position), func(at frontier.FileLength) bool { return cfg.Series.Has(at.File) })
	f := &Files{cfg: cfg, end: cfg.Series.EndOf(position), others: others}
	f.synced, f.packed = f.closed(), f.closed()
	if err := durable.MkdirAll(cfg.FS, cfg.Dir); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	left, err := f.recover()
	if err != nil {
		return nil, err
	}
	if cfg.OpenArchive != nil {
		if f.archive, err = cfg.OpenArchive(cfg.Dir); err != nil {
			return nil, err
		}
	}
	if err := f.openActive(); err != nil {
		return nil, err
	}
	if cfg.Compress {
		f.pack(left)
	}
	return f, nil
}

// closed returns the number of the last closed file, or 0 if there is none.
func (f *Files) closed() int { return f.end.File - 1 }

func (f *Files) path(name string) string { return f.cfg.FS.PathJoin(f.cfg.Dir, name) }

func (f *Files) syncDir(name string) error {
	if err := durable.SyncDir(f.cfg.FS, name); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// Append implements Sink. The record is on disk after Sync.
func (f *Files) Append(r *Record) error { return f.append(r.AppendLine) }

// append appends lines to the buffer. The function lines appends them to its argument.
func (f *Files) append(lines func([]byte) ([]byte, error)) (err error) {
	if len(f.buffer) == 0 {
		if err := f.makeRoom(); err != nil {
			return err
		}
	}
	f.buffer, err = lines(f.buffer)
	return err
}

// makeRoom rotates if the active file is long enough. The end of the active file must be
// committed.
func (f *Files) makeRoom() error {
	f.packCommitted()
	if f.cfg.RotateBytes > 0 && f.end.Offset >= f.cfg.RotateBytes {
		return f.rotate()
	}
	return nil
}

// rotate closes the active file. Its end must be committed.
func (f *Files) rotate() error {
	file := f.file
	f.file = nil // until the new file is open, because Close may be called in between
	if err := file.Close(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := f.cfg.FS.Rename(f.path(f.cfg.Series.active()), f.path(f.cfg.Series.closed(f.end.File))); err != nil {
		return fmt.Errorf("record: rotate: %w", err)
	}
	// The rename must reach the disk before the new active file does. Otherwise the new
	// file could replace the old one after a power loss.
	if err := f.syncDir(f.cfg.Dir); err != nil {
		return err
	}
	crash.Point("rotate")
	f.end = Place{File: f.end.File + 1}
	return f.openActive()
}

// Sync implements frontier.Output.
func (f *Files) Sync() (frontier.Position, error) {
	f.packCommitted()
	if err := f.failed(); err != nil {
		return nil, err
	}
	if f.archive != nil {
		others, err := f.archive.Sync()
		if err != nil {
			return nil, err
		}
		f.others = others
	}
	if len(f.buffer) > 0 {
		half := len(f.buffer) / 2
		for _, part := range [][]byte{f.buffer[:half], f.buffer[half:]} {
			if _, err := f.file.WriteAt(part, f.end.Offset); err != nil {
				return nil, fmt.Errorf("record: write %s: %w", f.path(f.cfg.Series.active()), err)
			}
			f.end.Offset += int64(len(part))
			crash.Point("append")
		}
		f.buffer = f.buffer[:0]
		if err := f.file.Sync(); err != nil {
			return nil, fmt.Errorf("record: sync %s: %w", f.path(f.cfg.Series.active()), err)
		}
	}
	f.synced = f.closed()
	return append(f.cfg.Series.position(f.end), f.others...), nil
}

func (f *Files) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.packErr
}

// Close waits for compressions and closes the files. Records that were not synced are lost.
func (f *Files) Close() error {
	f.packing.Wait()
	if f.file == nil {
		return f.failed() // a rotation failed
	}
	return errors.Join(f.failed(), f.file.Close())
}
