package record

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
)

// Journal is the output of one worker of many, in files like those of Files. A
// store that the workers share cannot commit where a file on one machine ends,
// so it is the other way round: the line is on disk first, then the completion
// is asked for, and when it is refused a void line takes the record back. Each
// line therefore says whose it is (the fingerprint) and under which lease it
// was written, and what the records of the crawl are, Export says.
//
// A Journal must be called from one goroutine at a time. Many completions share
// one Sync where the store groups them.
type Journal struct {
	files  *Files
	unlock io.Closer
	err    error // of a Sync: what is on disk is not known since
}

var (
	_ Voider          = (*Journal)(nil)
	_ frontier.Output = (*Journal)(nil)
)

// OpenJournal opens the journal in cfg.Dir, or begins one. Whatever whole lines
// are there count; half a line, which a crash left, is cut off. It returns
// frontier.ErrLocked while another process has it open.
func OpenJournal(cfg Config) (*Journal, error) {
	cfg = cfg.withDefaults()
	if err := cfg.FS.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	unlock, err := cfg.FS.Lock(cfg.FS.PathJoin(cfg.Dir, cfg.Series.lock()))
	if err != nil {
		return nil, fmt.Errorf("record: %w: %s: %w", frontier.ErrLocked, cfg.Dir, err)
	}
	position, err := wholeLines(cfg.FS, cfg.Dir, cfg.Series)
	if err != nil {
		return nil, errors.Join(err, unlock.Close())
	}
	files, err := Open(cfg, position)
	if err != nil {
		return nil, errors.Join(err, unlock.Close())
	}
	return &Journal{files: files, unlock: unlock}, nil
}

// wholeLines returns where the whole lines in the files of dir end.
func wholeLines(filesystem vfs.FS, dir string, series Series) (frontier.Position, error) {
	names, err := filesystem.List(dir)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	var position frontier.Position
	closed := 0
	for _, name := range names {
		if n, ok := series.number(name); ok {
			closed = max(closed, n)
		} else if name == series.active() {
			length, err := wholeLinesOf(filesystem, filesystem.PathJoin(dir, name))
			if err != nil {
				return nil, fmt.Errorf("record: %w", err)
			}
			position = append(position, frontier.FileLength{File: name, Length: length})
		}
	}
	if closed > 0 {
		position = append(position, frontier.FileLength{File: series.closed(closed)})
	}
	return position, nil
}

// wholeLinesOf returns where the last whole line of a file ends.
func wholeLinesOf(filesystem vfs.FS, name string) (int64, error) {
	file, err := filesystem.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return endOfLines(file, info.Size())
}

// Append implements Sink. The line is on disk after Sync.
func (j *Journal) Append(r *Record) (err error) {
	j.files.buffer, err = r.appendLeased(j.files.buffer)
	return err
}

// Void implements Voider. Nobody waits for the line: when it is lost, the
// record is one of a worker that died before it could take it back.
func (j *Journal) Void(r *Record) error {
	j.files.buffer = r.appendVoid(j.files.buffer)
	return nil
}

// Sync implements frontier.Output: what was appended is on disk. After an error
// it is not known what is, and every further call fails.
func (j *Journal) Sync() (position frontier.Position, err error) {
	if j.err == nil && len(j.files.buffer) > 0 {
		j.err = j.files.makeRoom()
	}
	if j.err == nil {
		position, j.err = j.files.Sync()
	}
	return position, j.err
}

// Close syncs and closes the files. No other call may follow.
func (j *Journal) Close() error {
	_, err := j.Sync()
	return errors.Join(err, j.files.Close(), j.unlock.Close())
}
