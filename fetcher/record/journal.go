package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

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
// A Journal is safe for concurrent use. Callers of Sync share its cost: while
// one waits for the disk, what the others append makes the next group.
type Journal struct {
	files  *Files
	unlock io.Closer

	mu       sync.Mutex
	lines    []byte // appended since the last group was taken
	appended uint64 // lines so far

	syncing  sync.Mutex // one group at a time
	spare    []byte     // the other buffer of lines
	synced   uint64     // lines on disk
	position frontier.Position
	err      error // of a write: what the file's end is like is not known any more
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
	return &Journal{files: files, unlock: unlock, position: position}, nil
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

// wholeLinesOf returns where the last line of a file ends that ends at all.
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
	end, room := info.Size(), make([]byte, 64<<10)
	for end > 0 {
		part := room[:min(end, int64(len(room)))]
		if _, err := file.ReadAt(part, end-int64(len(part))); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return end - int64(len(part)) + int64(i) + 1, nil
		}
		end -= int64(len(part))
	}
	return 0, nil
}

// Append implements Sink. The line is on disk after Sync.
func (j *Journal) Append(r *Record) error {
	line, err := r.appendLeased(nil)
	if err != nil {
		return err
	}
	j.append(line)
	return nil
}

// Void implements Voider. Nobody waits for the line: when it is lost, the
// record is one of a worker that died before it could take it back.
func (j *Journal) Void(r *Record) error {
	j.append(r.appendVoid(nil))
	return nil
}

func (j *Journal) append(line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line...)
	j.appended++
}

// Sync implements frontier.Output: what was appended before the call is on
// disk. After an error it is not known what is, and every further call fails.
func (j *Journal) Sync() (frontier.Position, error) {
	j.mu.Lock()
	mine := j.appended
	j.mu.Unlock()
	j.syncing.Lock()
	defer j.syncing.Unlock()
	if j.err == nil && j.synced < mine { // else another caller's group had it
		j.err = j.writeGroup()
	}
	return j.position, j.err
}

// writeGroup writes all lines that wait; syncing is held.
func (j *Journal) writeGroup() (err error) {
	j.mu.Lock()
	lines, appended := j.lines, j.appended
	j.lines = j.spare[:0]
	j.mu.Unlock()
	j.spare = lines
	if err := j.files.makeRoom(); err != nil {
		return err
	}
	j.files.buffer = append(j.files.buffer, lines...)
	if j.position, err = j.files.Sync(); err == nil {
		j.synced = appended
	}
	return err
}

// Close syncs and closes the files. No other call may be under way, or follow.
func (j *Journal) Close() error {
	_, err := j.Sync()
	return errors.Join(err, j.files.Close(), j.unlock.Close())
}
