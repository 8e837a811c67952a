package record

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// Journal is the output of one of several workers, in files like those of Files. A
// store that workers share cannot commit the end of a file on a worker's machine. So the
// order differs from that of Files: the line is written and synced first, then the item is
// completed. If the completion is refused, a void line takes the record back. Each
// line contains its item (the fingerprint) and the lease under which it was
// written. Export computes the records of the crawl from all lines.
//
// The methods of a Journal must not be called concurrently. Many completions share
// one Sync if the store groups them.
type Journal struct {
	files  *Files
	unlock io.Closer
	err    error // of a failed Sync, after which the content of the disk is unknown

	account *account // nil for the series Links
}

var (
	_ Settler         = (*Journal)(nil)
	_ frontier.Output = (*Journal)(nil)
)

// OpenJournal opens the journal in cfg.Dir, or creates one. It keeps all whole lines and
// cuts off an incomplete line that a crash left. It returns frontier.ErrLocked while
// another process has the journal open.
func OpenJournal(cfg Config) (*Journal, error) {
	cfg = cfg.withDefaults()
	if err := durable.MkdirAll(cfg.FS, cfg.Dir); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	unlock, err := durable.Lock(cfg.FS, cfg.FS.PathJoin(cfg.Dir, cfg.Series.lock()))
	if errors.Is(err, durable.ErrHeld) {
		return nil, fmt.Errorf("record: %w: %s", frontier.ErrLocked, cfg.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("record: lock %s: %w", cfg.Dir, err)
	}
	end, err := wholeLines(cfg.FS, cfg.Dir, cfg.Series)
	if err != nil {
		return nil, errors.Join(err, unlock.Close())
	}
	files, err := Open(cfg, cfg.Series.position(end))
	if err != nil {
		return nil, errors.Join(err, unlock.Close())
	}
	if err := files.file.Sync(); err != nil { // a killed process might not have synced its last lines
		return nil, errors.Join(fmt.Errorf("record: %w", err), files.Close(), unlock.Close())
	}
	j := &Journal{files: files, unlock: unlock}
	if cfg.Series.name() != Pages.name() {
		return j, nil
	}
	if j.account, err = openAccount(cfg, end); err != nil {
		return nil, errors.Join(err, files.Close(), unlock.Close())
	}
	return j, nil
}

// Settle implements Settler.
func (j *Journal) Settle(item bloomstore.Fingerprint, lease frontier.LeaseID, confirmed bool) {
	if j.account != nil {
		j.account.settle(item, lease, confirmed)
	}
}

// Answered returns the position before which the state of every line is settled: the line
// counts, a void line takes it back, or Reader.Doubt lists it. Answered may be called while
// another method runs.
func (j *Journal) Answered() (frontier.Position, error) {
	if j.account == nil {
		return nil, nil
	}
	end, err := j.account.answered()
	return j.files.cfg.Series.position(end), err
}

// wholeLines returns where the whole lines in the files of dir end.
func wholeLines(filesystem vfs.FS, dir string, series Series) (Place, error) {
	names, err := filesystem.List(dir)
	if err != nil {
		return Place{}, fmt.Errorf("record: %w", err)
	}
	end := Place{File: 1}
	for _, name := range names {
		if n, ok := series.number(name); ok {
			end.File = max(end.File, n+1)
		} else if name == series.active() {
			if end.Offset, err = wholeLinesOf(filesystem, filesystem.PathJoin(dir, name)); err != nil {
				return Place{}, fmt.Errorf("record: %w", err)
			}
		}
	}
	return end, nil
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
	from := len(j.files.buffer)
	j.files.buffer, err = r.appendLeased(j.files.buffer)
	if err == nil && j.account != nil {
		j.account.append(r, from, len(j.files.buffer))
	}
	return err
}

// Void implements Voider. It does not sync the void line. A lost void line has the same
// effect as the death of the worker before Void.
func (j *Journal) Void(r *Record) error {
	j.files.buffer = r.appendVoid(j.files.buffer)
	if j.account != nil {
		j.account.void(r)
	}
	return nil
}

// Sync implements frontier.Output. It syncs all lines that were appended. After an error
// the content of the disk is unknown, and every further call fails.
func (j *Journal) Sync() (position frontier.Position, err error) {
	if j.err == nil && len(j.files.buffer) > 0 {
		j.err = j.files.makeRoom()
	}
	from := j.files.end
	if j.err == nil {
		position, j.err = j.files.Sync()
	}
	if j.err == nil && j.account != nil {
		j.err = j.account.sync(from, j.files.end)
	}
	return position, j.err
}

// Close syncs and closes the files. The Journal must not be used afterwards.
func (j *Journal) Close() error {
	_, err := j.Sync()
	if err == nil && j.account != nil {
		_, err = j.account.answered()
		err = errors.Join(err, j.account.save())
	}
	return errors.Join(err, j.files.Close(), j.unlock.Close())
}
