package localstore

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
	"github.com/bloomfrontier/crawler/internal/recent"
)

const (
	lockFile = "LOCK"
	dbDir    = "store"
)

// Open opens the store in cfg.Dir, or creates it. It finds everything that the last process
// committed, even if that process was killed. Open ends the leases of that process. Their
// hosts are due after one delay, or later.
//
// Open returns ErrLocked if another process has the store open. It returns
// ErrParamsMismatch if cfg.Settings differ from the stored ones (a
// *frontier.SettingsError), or if the directory has another format or belongs to another
// crawl. It returns ErrFilterLost if the file of the filter is missing or damaged. In that
// case, Rebuild can restore the filter from the tables.
func Open(cfg Config) (*Store, error) { return open(cfg, readWrite) }

// Rebuild opens a store like Open, and rebuilds its filter from the queues, the outcomes,
// the exact keys and the keys of MarkSeen.
func Rebuild(cfg Config) (*Store, error) { return open(cfg, rebuilding) }

type mode int

const (
	readWrite mode = iota
	rebuilding
	readOnly
)

func open(cfg Config, how mode) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, fs: cfg.FS, guard: newGuard(), mode: how,
		ops: make(chan *op, maxGroup), asks: make(chan *op), closing: make(chan struct{}), stopped: make(chan struct{}),
		scope: newScopeCache(), members: recent.New(rememberedKeys),
	}
	s.close = sync.OnceValue(s.shutDown)
	s.hosts, s.leases = make(map[string]*host), make(map[frontier.LeaseID]*lease)
	s.nextExpiry = never
	s.sites.byName = make(map[string]*site)
	exists, err := s.enter()
	if err != nil {
		return nil, err
	}
	if err := s.guard.await(func() error { return s.load(exists) }); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	go s.run()
	return s, nil
}

// enter locks the directory and reads its card (the file crawl.json), if there is one.
func (s *Store) enter() (exists bool, err error) {
	if s.mode == readOnly {
		return true, s.enterReadOnly()
	}
	dir := s.cfg.Dir
	if err := durable.MkdirAll(s.fs, dir); err != nil {
		return false, fmt.Errorf("localstore: %w", err)
	}
	if err := s.refuseForeign(); err != nil {
		return false, err
	}
	lock, err := durable.Lock(s.fs, s.fs.PathJoin(dir, lockFile))
	if errors.Is(err, durable.ErrHeld) {
		return false, fmt.Errorf("localstore: lock %s: %w", dir, frontier.ErrLocked)
	}
	if err != nil {
		return false, fmt.Errorf("localstore: lock %s: %w", dir, err)
	}
	s.unlock = lock.Close
	s.card, err = readCard(s.fs, dir)
	if err == nil {
		err = s.card.accept(dir, s.cfg)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, errors.Join(err, s.unlock())
	}
	return true, nil
}

// refuseForeign returns an error for a directory that is not empty and has no crawl.
func (s *Store) refuseForeign() error {
	names, err := s.fs.List(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("localstore: %w", err)
	}
	foreign := ""
	for _, name := range names {
		switch name {
		case cardFile:
			return nil
		case lockFile, cardFile + durable.NewSuffix, dbDir: // left by an interrupted creation
		default:
			foreign = name
		}
	}
	if foreign != "" {
		return mismatch("%s is not empty (%q) and holds no crawl: it has no %s", s.cfg.Dir, foreign, cardFile)
	}
	return nil
}

// load opens the database and reads the state. For a new crawl it creates an empty database
// first, and writes the card last. Therefore a directory that has a card but no database is
// never treated as a new crawl.
func (s *Store) load(exists bool) error {
	if err := s.openDB(exists); err != nil {
		return err
	}
	if err := s.loadState(exists); err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

func (s *Store) loadState(exists bool) (err error) {
	if !exists {
		if err := s.create(); err != nil {
			return err
		}
	} else if err := s.resume(); err != nil {
		return err
	}
	s.opened = s.cfg.Now()
	s.meta.Clock = max(s.meta.Clock, s.opened.UnixMicro())
	if s.mode == readOnly {
		return nil
	}
	if s.cfg.OpenOutput != nil {
		if s.output, err = s.cfg.OpenOutput(frontier.Identity{ID: hex.EncodeToString(s.card.ID[:])}, s.meta.Position); err != nil {
			return err
		}
	}
	crash.Point("open")
	if err := s.recoverLeases(); err != nil {
		return err
	}
	if s.mode == rebuilding {
		s.meta.Journal++ // gives the checkpoint's file a new name
		return s.checkpoint(s.snapshotFilter(), s.commitOne)
	}
	return nil
}

// create creates a new crawl in an empty database. It writes the card last.
func (s *Store) create() (err error) {
	err = s.scanRange(s.db, nil, nil, func(_, _ []byte) (bool, error) {
		return false, mismatch("%s has a store but no %s, which holds the key of its fingerprints", s.cfg.Dir, cardFile)
	})
	if err != nil {
		return err
	}
	if err := s.newFilter(); err != nil {
		return fmt.Errorf("localstore: %w", err)
	}
	if s.card, err = createCard(s.fs, s.cfg.Dir, s.cfg); err != nil {
		return err
	}
	s.meta.Crawl = s.card.ID
	s.hasher = bloomstore.NewHasher(bloomstore.Key(s.card.Key))
	return nil
}

// resume reads what an existing crawl has committed.
func (s *Store) resume() error {
	s.hasher = bloomstore.NewHasher(bloomstore.Key(s.card.Key))
	s.cfg.Generations = s.card.Window.Generations
	if err := s.readMeta(); err != nil {
		return err
	}
	if s.mode == rebuilding {
		return s.rebuildFilter()
	}
	return s.openFilter()
}

func (s *Store) openDB(exists bool) (err error) {
	cache := pebble.NewCache(s.cfg.CacheBytes)
	defer cache.Unref()
	options := &pebble.Options{
		FS:                          guardFS{markerFS{s.fs}, s.guard},
		ErrorIfNotExists:            exists,
		ReadOnly:                    s.mode == readOnly,
		FormatMajorVersion:          pebble.FormatVirtualSSTables,
		Cache:                       cache,
		MemTableSize:                16 << 20,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		MaxOpenFiles:                512,
		Logger:                      pebbleLog{s},
	}
	options.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) { s.cfg.Logger.Debug("pebble", "err", err) },
	}
	options.EnsureDefaults()
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	s.db, err = pebble.Open(s.fs.PathJoin(s.cfg.Dir, dbDir), options)
	if errors.Is(err, pebble.ErrDBDoesNotExist) {
		return fmt.Errorf("localstore: %s has a %s, but its folder %q is gone or empty: %w",
			s.cfg.Dir, cardFile, dbDir, frontier.ErrFilterLost)
	}
	if err != nil {
		return fmt.Errorf("localstore: open %s: %w", s.cfg.Dir, err)
	}
	return nil
}

func (s *Store) readMeta() error {
	row, err := s.get(metaKey)
	if err != nil {
		return err
	}
	if row == nil { // no group was ever committed
		s.meta.Crawl = s.card.ID
		return nil
	}
	if err := json.Unmarshal(row, &s.meta); err != nil {
		return fmt.Errorf("localstore: read the counters of %s: %w", s.cfg.Dir, err)
	}
	if s.meta.Crawl != s.card.ID {
		return mismatch("%s has the %s of another crawl", s.cfg.Dir, cardFile)
	}
	return nil
}

// openFilter reads the checkpoint and replays the adds in the journal after it.
func (s *Store) openFilter() (err error) {
	newest := s.meta.Window.Newest
	switch {
	case newest != 0:
		err = s.openWindow()
	case s.meta.Checkpoint == "":
		err = s.newFilter()
	default:
		s.filter, err = s.readCheckpoint(s.meta.Checkpoint, s.cfg.Filter)
	}
	if err != nil {
		return err
	}
	lower, upper := journalKey(s.meta.Replay), []byte{tableJournal + 1}
	err = s.scanRange(s.db, lower, upper, func(key, value []byte) (bool, error) {
		n, err := s.replay(value)
		if err != nil {
			return false, fmt.Errorf("localstore: replay journal row %d: %w", binary.BigEndian.Uint64(key[1:]), err)
		}
		s.journaled += n
		return true, nil
	})
	if err == nil && newest != 0 { // it may have no keys
		err = s.window.Restore(newest, 0, nil)
	}
	return err
}

// replay adds the keys of one journal row to the filter, and returns their number.
func (s *Store) replay(row []byte) (n int, err error) {
	restore := func(layer int, prints []bloomstore.Fingerprint) error {
		n += len(prints)
		return s.filter.(*membits.Filter).Restore(layer, prints)
	}
	if s.window != nil {
		if len(row) < journalNumber {
			return 0, errRow
		}
		number := int64(binary.BigEndian.Uint64(row))
		row, restore = row[journalNumber:], func(layer int, prints []bloomstore.Fingerprint) error {
			n += len(prints)
			return s.window.Restore(number, layer, prints)
		}
	}
	if len(row)%journalAdd != 0 {
		return 0, errRow
	}
	prints := make([]bloomstore.Fingerprint, 0, len(row)/journalAdd)
	for len(row) > 0 {
		layer := row[0]
		prints = prints[:0]
		for len(row) > 0 && row[0] == layer {
			prints = append(prints, bloomstore.Fingerprint(row[1:journalAdd]))
			row = row[journalAdd:]
		}
		if err := restore(int(layer), prints); err != nil {
			return 0, err
		}
	}
	return n, nil
}
