package localstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// ErrReadOnly reports a change to a store that OpenReadOnly opened.
var ErrReadOnly = errors.New("localstore: the store is open for reading only")

// OpenReadOnly opens an existing store and changes nothing in its directory, which can be
// on a read-only file system or belong to another user. It shows the store as the last
// process left it: leases of a killed process still exist. Methods that change the store
// return ErrReadOnly. OpenReadOnly does not call cfg.OpenOutput.
//
// It returns the errors of Open. It also returns ErrLocked if another process has the
// lock and this process cannot write the lock file.
func OpenReadOnly(cfg Config) (*Store, error) { return open(cfg, readOnly) }

// enterReadOnly reads the card. It takes the directory's lock if the lock file is
// writable, so that no process changes the store meanwhile.
func (s *Store) enterReadOnly() (err error) {
	dir := s.cfg.Dir
	if s.card, err = readCard(s.fs, dir); err != nil {
		return fmt.Errorf("localstore: %w", err)
	}
	if err := s.card.accept(dir, s.cfg); err != nil {
		return err
	}
	return s.lockToRead()
}

// lockToRead takes the directory's lock if the lock file is writable.
func (s *Store) lockToRead() error {
	dir := s.cfg.Dir
	s.unlock = func() error { return nil }
	name := s.fs.PathJoin(dir, lockFile)
	if _, err := s.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil // a copy without a lock file; Lock would create one
	}
	lock, err := durable.Lock(s.fs, name)
	if err == nil {
		s.unlock = lock.Close
		return nil
	}
	if errors.Is(err, durable.ErrHeld) || s.fs == vfs.Default && durable.LockedByOther(name) {
		return fmt.Errorf("localstore: lock %s: %w", dir, frontier.ErrLocked)
	}
	return nil // the file is not writable, and no other process has the lock
}

// StoredPosition returns the end of the records that the last process committed to the
// store in dir. It reads neither the filter nor the hosts, and holds the lock only for
// a moment. It returns ErrLocked while a process has the store open. A nil filesystem means
// the operating system's.
func StoredPosition(filesystem vfs.FS, dir string) (frontier.Position, error) {
	cfg, err := Config{Dir: dir, FS: filesystem, CacheBytes: 1 << 20}.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, fs: cfg.FS, guard: newGuard(), mode: readOnly}
	if s.card, err = readCard(s.fs, dir); err != nil {
		return nil, fmt.Errorf("localstore: %w", err)
	}
	if err := s.lockToRead(); err != nil {
		return nil, err
	}
	if err := s.openDB(true); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	err = errors.Join(s.readMeta(), s.db.Close(), s.unlock())
	return append(frontier.Position{}, s.meta.Position...), err
}

// ask makes the committer run a function that only reads.
func (s *Store) ask(ctx context.Context, read func(*group)) error {
	return s.submitAny(ctx, &op{reads: true, grant: func(g *group) error {
		read(g)
		return nil
	}})
}
