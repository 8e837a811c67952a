package warc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// lockFile is the name of the lock that OpenWhole takes. Open takes no lock, because the
// store of its caller has locked the directory.
const lockFile = "warc.lock"

// open restores the files to the committed position.
func (w *Writer) open(position frontier.Position) error {
	if err := w.create(); err != nil {
		return err
	}
	for _, at := range position {
		name, ours := strings.CutPrefix(at.File, Folder+"/")
		if !ours {
			continue
		}
		serial, ok := w.serialOf(name)
		if !ok {
			return fmt.Errorf("%s was committed, but its name does not have the prefix %q", at.File, w.cfg.Prefix)
		}
		w.name, w.serial, w.length = name, serial, at.Length
	}
	if err := w.dropUncommitted(); err != nil || w.serial == 0 {
		return err
	}
	if _, err := w.cfg.FS.Stat(w.path(w.name)); err != nil { // because OpenAt would create it
		return fmt.Errorf("answers are missing: %w", err)
	}
	var err error
	if w.file, err = durable.OpenAt(w.cfg.FS, w.path(w.name), w.length); err != nil {
		return err
	}
	return durable.SyncDir(w.cfg.FS, w.folder())
}

// create creates the folder and its missing parents.
func (w *Writer) create() error {
	if strings.ContainsAny(w.cfg.Prefix, `/\`) {
		return fmt.Errorf("the prefix %q cannot be part of a file's name", w.cfg.Prefix)
	}
	if err := durable.MkdirAll(w.cfg.FS, w.cfg.Dir); err != nil {
		return err
	}
	return durable.MkdirAll(w.cfg.FS, w.folder())
}

// dropUncommitted removes the file that a rotation created, if a crash came before the
// rotation was committed. Its records belong to results that the store never committed. There
// is at most one such file. dropUncommitted also removes the temporary files that remain if
// the cutting of a file was interrupted.
func (w *Writer) dropUncommitted() error {
	names, err := w.cfg.FS.List(w.folder())
	if err != nil {
		return err
	}
	var drop []string
	for _, name := range names {
		whole, cut := strings.CutSuffix(name, durable.NewSuffix) // the suffix of temporary files
		serial, ok := w.serialOf(whole)
		switch {
		case !ok || serial <= w.serial && !cut:
			continue
		case serial > w.serial+1:
			return fmt.Errorf("%s is there, but only %d files were committed: it belongs to another output", w.path(name), w.serial)
		}
		drop = append(drop, name)
	}
	for _, name := range drop {
		if err := w.cfg.FS.Remove(w.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// openWhole opens the files at the end of the last whole record.
func (w *Writer) openWhole() error {
	if err := w.create(); err != nil {
		return err
	}
	unlock, err := durable.Lock(w.cfg.FS, w.cfg.FS.PathJoin(w.cfg.Dir, lockFile))
	if errors.Is(err, durable.ErrHeld) {
		return fmt.Errorf("%w: %s", frontier.ErrLocked, w.cfg.Dir)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", w.cfg.Dir, err)
	}
	position, err := w.wholeRecords()
	if err == nil {
		err = w.open(position)
	}
	if err != nil {
		return errors.Join(err, unlock.Close())
	}
	w.unlock = unlock
	return nil
}

// wholeRecords returns the position where the whole records of the last file end.
func (w *Writer) wholeRecords() (frontier.Position, error) {
	names, err := w.cfg.FS.List(w.folder())
	if err != nil {
		return nil, err
	}
	last, name := 0, ""
	for _, n := range names {
		if serial, ok := w.serialOf(n); ok && serial > last {
			last, name = serial, n
		}
	}
	if last == 0 {
		return nil, nil
	}
	file, err := w.cfg.FS.Open(w.path(name))
	if err != nil {
		return nil, err
	}
	length, err := wholeMembers(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", w.path(name), err)
	}
	return frontier.Position{{File: Folder + "/" + name, Length: length}}, nil
}

// wholeMembers returns the length of the whole gzip members at the beginning of a file. It
// returns an error only if the file cannot be read.
func wholeMembers(file io.Reader) (length int64, err error) {
	counted := &counter{r: file}
	in := bufio.NewReaderSize(counted, 256<<10) // an io.ByteReader, so that gzip does not read beyond its member
	var member gzip.Reader
	for {
		if err := member.Reset(in); err != nil {
			return length, counted.err
		}
		member.Multistream(false)
		if _, err := io.Copy(io.Discard, &member); err != nil {
			return length, counted.err
		}
		length = counted.n - int64(in.Buffered())
	}
}

// counter counts the bytes that are read, and stores an error other than io.EOF.
type counter struct {
	r   io.Reader
	n   int64
	err error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}
