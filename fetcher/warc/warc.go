// Package warc writes requests and their answers, as sent on the wire, to WARC 1.1 files
// (ISO 28500:2017). After a crash and a restart, the files contain only whole records.
//
// It owns the form of the records (Pack), the files and their rotation. Writer.Sync
// returns the position at which the files end. A store commits this position together
// with the position of the records that refer to the files (package record). After a crash
// both outputs are cut to their positions. The package makes no requests and does not decide
// which answers are kept.
package warc

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Folder is the folder of the files in the directory of a crawl.
const Folder = "warc"

// Config configures a Writer. Dir is required.
type Config struct {
	Dir         string // the crawl's directory; the files are in its Folder
	FS          vfs.FS // nil means the operating system's
	Prefix      string // of the files' names, different for each worker; empty means "crawl"
	RotateBytes int64  // a file that has reached this length is followed by another; 0 means 1 GB, negative no limit
	Info        Info   // written at the beginning of each file
}

// Info describes the crawl in the first record of each file. Empty fields are left out.
type Info struct {
	Software  string // name/version
	UserAgent string
	Robots    string // whether robots.txt was obeyed: obey or ignore
	IsPartOf  string // name of the crawl
	Operator  string
}

// Location is the place where a record begins.
type Location struct {
	File   string // path in the crawl's directory
	Offset int64  // in bytes
}

// Writer is an output of WARC files. It is safe for concurrent use. After an error the
// content of the disk is unknown, and every further call fails.
type Writer struct {
	cfg    Config
	unlock io.Closer // nil if the Writer holds no lock of its own

	mu      sync.Mutex
	file    vfs.File // nil means that there is none yet
	name    string   // of file
	serial  int      // of file; 0 means that there is none yet
	length  int64    // of file, including the buffer
	buffer  []byte   // bytes that are not written yet
	changed bool     // bytes were appended since the last Sync
	rotated bool     // a new file was created since the last Sync
	err     error
}

var _ frontier.Output = (*Writer)(nil)

// bufferBytes is how many bytes of small records are collected before they are written.
const bufferBytes = 256 << 10

func (c Config) withDefaults() Config {
	c.RotateBytes = cmp.Or(c.RotateBytes, 1_000_000_000)
	c.Prefix = cmp.Or(c.Prefix, "crawl")
	if c.FS == nil {
		c.FS = vfs.Default
	}
	return c
}

// Open opens the files in cfg.Dir and cuts them to position, which a store committed. It
// ignores files of other outputs in position. It returns an error if committed files or
// bytes are missing, or if there are files of another crawl.
func Open(cfg Config, position frontier.Position) (*Writer, error) {
	return start(cfg, func(w *Writer) error { return w.open(position) })
}

// start returns a Writer after the function open has opened its files.
func start(cfg Config, open func(*Writer) error) (*Writer, error) {
	w := &Writer{cfg: cfg.withDefaults()}
	if err := open(w); err != nil {
		return nil, errors.Join(fmt.Errorf("warc: %w", err), w.Close())
	}
	return w, nil
}

// OpenWhole opens the files of one of many workers that share a store. Such a store
// commits no positions, so all whole records in the files count. A part of a record that a
// crash left is cut off. OpenWhole reads the last file. It returns frontier.ErrLocked
// while another process has the files open.
func OpenWhole(cfg Config) (*Writer, error) { return start(cfg, (*Writer).openWhole) }

func (w *Writer) folder() string          { return w.cfg.FS.PathJoin(w.cfg.Dir, Folder) }
func (w *Writer) path(name string) string { return w.cfg.FS.PathJoin(w.cfg.Dir, Folder, name) }

// fileSuffix is the end of the names of WARC files whose records are compressed one by one.
const fileSuffix = ".warc.gz"

// fileName returns the name of a new file: prefix, time and serial number.
func (w *Writer) fileName(serial int, now time.Time) string {
	return fmt.Sprintf("%s-%s-%05d%s", w.cfg.Prefix, now.UTC().Format("20060102150405"), serial, fileSuffix)
}

// serialOf returns the serial number in the name of a file with the writer's prefix.
func (w *Writer) serialOf(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, w.cfg.Prefix+"-")
	stem, gz := strings.CutSuffix(rest, fileSuffix)
	at, digits, found := strings.Cut(stem, "-")
	serial, err := strconv.Atoi(digits)
	return serial, ok && gz && found && len(at) == len("20060102150405") && err == nil && serial > 0
}

// Append writes a packed request and answer, and returns the location of the answer. They
// are on disk after Sync. A second Append of the same Packed returns the same location and
// writes nothing, because a caller may repeat all its steps after a later one has failed.
func (w *Writer) Append(p *Packed) (Location, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.makeRoom()
	}
	if w.err == nil && p.members != nil {
		p.location = Location{File: Folder + "/" + w.name, Offset: w.length}
		w.write(p.members.Bytes())
		p.release()
	}
	if w.err != nil {
		return Location{}, fmt.Errorf("warc: %w", w.err)
	}
	return p.location, nil
}

// makeRoom opens a new file if there is none or the present one is full, and writes the
// first record of a new file. After a rotation, the next rotation waits for a Sync, so that
// a crash leaves at most one uncommitted file.
func (w *Writer) makeRoom() error {
	full := w.cfg.RotateBytes > 0 && w.length >= w.cfg.RotateBytes
	if w.file == nil || full && !w.rotated {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	if w.length > 0 {
		return nil
	}
	info, err := packInfo(w.cfg.Info, w.name, time.Now())
	if err != nil {
		return err
	}
	w.write(info.members.Bytes())
	info.release()
	return w.err
}

// rotate syncs and closes the current file, and creates the next one.
func (w *Writer) rotate() error {
	if w.file != nil {
		err := errors.Join(w.flush(), w.file.Sync(), w.file.Close())
		w.file = nil
		if err != nil {
			return err
		}
	}
	name := w.fileName(w.serial+1, time.Now())
	file, err := w.cfg.FS.Create(w.path(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	w.file, w.name, w.length = file, name, 0
	w.serial++
	w.rotated, w.changed = true, true
	crash.Point("warc rotate")
	return durable.SyncDir(w.cfg.FS, w.folder())
}

// write appends b to the file. Small writes are collected in the buffer. An error is stored
// in w.err.
func (w *Writer) write(b []byte) {
	w.changed = true
	if len(w.buffer)+len(b) > bufferBytes {
		w.err = w.flush()
	}
	if w.err == nil && len(b) > bufferBytes {
		w.err = w.writeAt(b, w.length)
	} else {
		w.buffer = append(w.buffer, b...)
	}
	w.length += int64(len(b))
}

func (w *Writer) flush() error {
	err := w.writeAt(w.buffer, w.length-int64(len(w.buffer)))
	w.buffer = w.buffer[:0]
	return err
}

func (w *Writer) writeAt(b []byte, at int64) error {
	half := len(b) / 2 // two writes, so that tests can crash between them
	for _, part := range [][]byte{b[:half], b[half:]} {
		if _, err := w.file.WriteAt(part, at); err != nil {
			return fmt.Errorf("write %s: %w", w.path(w.name), err)
		}
		at += int64(len(part))
		crash.Point("warc append")
	}
	return nil
}

// Sync implements frontier.Output.
func (w *Writer) Sync() (frontier.Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil && w.changed {
		w.err = errors.Join(w.flush(), w.file.Sync())
		w.changed, w.rotated = false, false
	}
	switch {
	case w.err != nil:
		return nil, fmt.Errorf("warc: %w", w.err)
	case w.serial == 0:
		return nil, nil
	}
	return frontier.Position{{File: Folder + "/" + w.name, Length: w.length}}, nil
}

// Close closes the files. Bytes that were not synced are lost.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	if w.file != nil {
		errs = append(errs, w.file.Close())
	}
	if w.unlock != nil {
		errs = append(errs, w.unlock.Close())
	}
	w.file, w.unlock = nil, nil
	w.err = cmp.Or(w.err, frontier.ErrClosed)
	return errors.Join(errs...)
}
