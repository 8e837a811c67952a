package record

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"github.com/bloomfrontier/crawler/frontier"
)

// Config says where records go.
type Config struct {
	Dir         string
	FS          vfs.FS             // nil: the operating system's
	RotateBytes int64              // close pages.jsonl beyond this length; 0 means 1 GiB, negative never
	Compress    bool               // closed files become .zst
	Crash       func(point string) // called at points where a crash is worth a test; nil: nothing
}

// The files of an output: records go to the active one; rotation gives it the
// next number.
const (
	activeFile   = "pages.jsonl"
	closedPrefix = "pages-"
	closedSuffix = ".jsonl"
	zstdSuffix   = ".zst"
)

func closedFile(n int) string { return fmt.Sprintf("%s%06d%s", closedPrefix, n, closedSuffix) }

// Files is an output in the files of a directory. Its methods but Close must be
// called from one goroutine at a time.
type Files struct {
	cfg     Config
	file    vfs.File // the active one; nil after a rotation that failed
	length  int64    // of the active file, on disk
	buffer  []byte
	closed  int // number of the last closed file; 0: none
	pack    int // the closed file to compress after the next commit; 0: none
	packing sync.WaitGroup
	mu      sync.Mutex
	packErr error
}

var (
	_ Sink            = (*Files)(nil)
	_ frontier.Output = (*Files)(nil)
)

// Open opens the output in cfg.Dir and cuts it to position: what a store
// committed last. A nil position is an empty output.
func Open(cfg Config, position frontier.Position) (*Files, error) {
	cfg.RotateBytes = cmp.Or(cfg.RotateBytes, 1<<30)
	if cfg.FS == nil {
		cfg.FS = vfs.Default
	}
	if cfg.Crash == nil {
		cfg.Crash = func(string) {}
	}
	f := &Files{cfg: cfg}
	for _, at := range position {
		if n, ok := closedNumber(at.File); ok {
			f.closed = n
		} else if at.File == activeFile {
			f.length = at.Length
		}
	}
	if err := cfg.FS.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := f.undoRotation(); err != nil {
		return nil, err
	}
	if err := f.openActive(); err != nil {
		return nil, err
	}
	return f, nil
}

// closedNumber returns the number in the name of a closed file, packed or not.
func closedNumber(name string) (int, bool) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(name, zstdSuffix), closedPrefix)
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, closedSuffix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0
}

func (f *Files) path(name string) string { return f.cfg.FS.PathJoin(f.cfg.Dir, name) }

// undoRotation takes back a rotation that no commit knows of: the active file
// of the position is then the one that was closed last.
func (f *Files) undoRotation() error {
	names, err := f.cfg.FS.List(f.cfg.Dir)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, closedPrefix) && strings.HasSuffix(name, ".new") {
			if err := f.cfg.FS.Remove(f.path(name)); err != nil { // a compression that was cut short
				return fmt.Errorf("record: %w", err)
			}
		}
	}
	unknown := closedFile(f.closed + 1)
	if _, err := f.cfg.FS.Stat(f.path(unknown)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := f.cfg.FS.Rename(f.path(unknown), f.path(activeFile)); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return f.syncDir()
}

// openActive opens the active file and cuts it to f.length.
func (f *Files) openActive() error {
	name := f.path(activeFile)
	file, err := f.cfg.FS.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("record: %w", err), file.Close())
	}
	if info.Size() < f.length {
		return errors.Join(fmt.Errorf("record: %s has %d bytes, but %d were committed: records are missing",
			name, info.Size(), f.length), file.Close())
	}
	if info.Size() > f.length {
		if file, err = cut(f.cfg.FS, file, name, f.length); err != nil {
			return fmt.Errorf("record: cut %s to %d bytes: %w", name, f.length, err)
		}
	}
	f.file = file
	return f.syncDir()
}

// cut shortens an open file. A file system that cannot truncate gets a copy.
func cut(filesystem vfs.FS, file vfs.File, name string, length int64) (vfs.File, error) {
	if filesystem == vfs.Default {
		if err := os.Truncate(name, length); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}
	fresh, err := filesystem.Create(name+".new", vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	_, err = io.Copy(fresh, io.NewSectionReader(file, 0, length))
	if err = errors.Join(err, fresh.Sync(), fresh.Close(), file.Close()); err != nil {
		return nil, err
	}
	if err := filesystem.Rename(name+".new", name); err != nil {
		return nil, err
	}
	return filesystem.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
}

func (f *Files) syncDir() error {
	dir, err := f.cfg.FS.OpenDir(f.cfg.Dir)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// Append implements Sink. What it appends is on disk after Sync.
func (f *Files) Append(r *Record) (err error) {
	if len(f.buffer) == 0 && f.cfg.RotateBytes > 0 && f.length >= f.cfg.RotateBytes {
		if err := f.rotate(); err != nil {
			return err
		}
	}
	f.buffer, err = r.AppendLine(f.buffer)
	return err
}

// rotate closes the active file. Its end was committed, for Sync is only called
// again after that.
func (f *Files) rotate() error {
	file := f.file
	f.file = nil // until there is another: Close may come in between
	if err := file.Close(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := f.cfg.FS.Rename(f.path(activeFile), f.path(closedFile(f.closed+1))); err != nil {
		return fmt.Errorf("record: rotate: %w", err)
	}
	// The new active file must not reach the disk before this: in the old one's
	// place it would be all that a power loss leaves.
	if err := f.syncDir(); err != nil {
		return err
	}
	f.cfg.Crash("rotate")
	f.closed++
	f.length = 0
	if f.cfg.Compress {
		f.pack = f.closed
	}
	return f.openActive()
}

// Sync implements frontier.Output.
func (f *Files) Sync() (frontier.Position, error) {
	if err := f.failed(); err != nil {
		return nil, err
	}
	if len(f.buffer) > 0 {
		half := len(f.buffer) / 2
		for _, part := range [][]byte{f.buffer[:half], f.buffer[half:]} {
			if _, err := f.file.WriteAt(part, f.length); err != nil {
				return nil, fmt.Errorf("record: write %s: %w", f.path(activeFile), err)
			}
			f.length += int64(len(part))
			f.cfg.Crash("append")
		}
		f.buffer = f.buffer[:0]
		if err := f.file.Sync(); err != nil {
			return nil, fmt.Errorf("record: sync %s: %w", f.path(activeFile), err)
		}
	}
	if f.pack > 0 && f.pack < f.closed || f.pack > 0 && f.length > 0 {
		f.packClosed()
	}
	position := frontier.Position{{File: activeFile, Length: f.length}}
	if f.closed > 0 {
		position = append(position, frontier.FileLength{File: closedFile(f.closed)})
	}
	return position, nil
}

func (f *Files) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.packErr
}

// Close waits for compressions and closes the files. What was not synced is lost.
func (f *Files) Close() error {
	f.packing.Wait()
	if f.file == nil {
		return f.failed() // a rotation failed half-way
	}
	return errors.Join(f.failed(), f.file.Close())
}

// packClosed compresses, in the background, the file that was closed last.
func (f *Files) packClosed() {
	name := closedFile(f.pack)
	f.pack = 0
	f.packing.Go(func() {
		if err := f.compress(name); err != nil {
			f.mu.Lock()
			f.packErr = errors.Join(f.packErr, fmt.Errorf("record: compress %s: %w", f.path(name), err))
			f.mu.Unlock()
		}
	})
}

func (f *Files) compress(name string) (err error) {
	in, err := f.cfg.FS.Open(f.path(name))
	if err != nil {
		return err
	}
	defer in.Close()
	temporary := f.path(name + zstdSuffix + ".new")
	out, err := f.cfg.FS.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return errors.Join(err, out.Close())
	}
	_, err = io.Copy(z, in)
	if err = errors.Join(err, z.Close(), out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := f.cfg.FS.Rename(temporary, f.path(name+zstdSuffix)); err != nil {
		return err
	}
	if err := f.syncDir(); err != nil {
		return err
	}
	return f.cfg.FS.Remove(f.path(name))
}
