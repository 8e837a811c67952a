// Package warc keeps requests and their answers as they were on the wire, in
// WARC 1.1 files (ISO 28500:2017) that a crash leaves no half record in.
//
// It owns the form of the records (Pack), the files and their rotation, and
// says where they end (frontier.Position), so that they are committed and cut
// with the records that point into them (package record). It does not make
// requests and does not decide which answers are kept.
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

// Folder is where the files are, in the directory of a crawl.
const Folder = "warc"

// Config says where records go.
type Config struct {
	Dir         string // the crawl's; the files are in its Folder
	FS          vfs.FS // nil means the operating system's
	Prefix      string // of the files' names, different for each worker; empty means "crawl"
	RotateBytes int64  // begin another file beyond this length; 0 means 1 GB, negative never
	Info        Info   // written at the beginning of each file
}

// Info is what a file says of the crawl that wrote it. Empty fields are left out.
type Info struct {
	Software  string // name/version
	UserAgent string
	Robots    string // what was done about robots.txt: obey or ignore
	IsPartOf  string // name of the crawl
	Operator  string
}

// Location is the file and the byte in it at which a record begins.
type Location struct {
	File   string // in the crawl's directory
	Offset int64
}

// Writer is an output of WARC files. It is safe for concurrent use. After an
// error it is not known what is on disk, and every further call fails.
type Writer struct {
	cfg    Config
	unlock io.Closer // nil means that it needed no lock

	mu      sync.Mutex
	file    vfs.File // nil means that there is none yet
	name    string   // of file
	serial  int      // of file; 0 means that there is none yet
	length  int64    // of file, with what is in the buffer
	buffer  []byte   // not written yet
	changed bool     // since the last sync
	rotated bool     // since the last sync
	err     error
}

var _ frontier.Output = (*Writer)(nil)

// bufferBytes is how much is written at once: small records together.
const bufferBytes = 256 << 10

func (c Config) withDefaults() Config {
	c.RotateBytes = cmp.Or(c.RotateBytes, 1_000_000_000)
	c.Prefix = cmp.Or(c.Prefix, "crawl")
	if c.FS == nil {
		c.FS = vfs.Default
	}
	return c
}

// Open opens the files in cfg.Dir and cuts them to position: what a store
// committed last; it ignores the files of other outputs in it. An
// error: a file or bytes are missing that were committed, or there are files of
// another crawl.
func Open(cfg Config, position frontier.Position) (*Writer, error) {
	w := &Writer{cfg: cfg.withDefaults()}
	if err := w.open(position); err != nil {
		return nil, errors.Join(fmt.Errorf("warc: %w", err), w.Close())
	}
	return w, nil
}

// OpenWhole opens the files of one of many workers, who share a store that
// commits no positions: whatever whole records are there count, and the rest of
// one, which a crash left, is cut off. It reads the last file. It returns
// frontier.ErrLocked while another process has the files open.
func OpenWhole(cfg Config) (*Writer, error) {
	w := &Writer{cfg: cfg.withDefaults()}
	if err := w.openWhole(); err != nil {
		return nil, errors.Join(fmt.Errorf("warc: %w", err), w.Close())
	}
	return w, nil
}

func (w *Writer) folder() string          { return w.cfg.FS.PathJoin(w.cfg.Dir, Folder) }
func (w *Writer) path(name string) string { return w.cfg.FS.PathJoin(w.cfg.Dir, Folder, name) }

// fileSuffix ends the names of WARC files that are compressed record by record.
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

// Append writes a packed request and answer and says where the answer is. They
// are on disk after Sync. A second Append of the same says the same and writes
// nothing: a completion may have to be repeated.
func (w *Writer) Append(p *Packed) (Location, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.makeRoom()
	}
	if w.err != nil {
		return Location{}, fmt.Errorf("warc: %w", w.err)
	}
	if p.members == nil {
		return p.location, nil
	}
	p.location = Location{File: Folder + "/" + w.name, Offset: w.length}
	w.write(p.members.Bytes())
	p.release()
	if w.err != nil {
		return Location{}, fmt.Errorf("warc: %w", w.err)
	}
	return p.location, nil
}

// makeRoom sees to it that there is a file with room, and that it has begun. A
// second rotation waits for a Sync: after a crash there is at most one file
// that no commit knows of.
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

// rotate begins the next file. What is in the one before is on disk.
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

// write appends bytes to the file; err says if it failed. Small ones wait for
// others.
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
	half := len(b) / 2 // a crash may come in between
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

// Close closes the files. What was not synced is lost.
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
