package localstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
)

const (
	lockFile = "LOCK"
	dbDir    = "store"
)

// Open opens the store in cfg.Dir, or creates it. It finds what the last
// process committed, whether that closed the store or was killed: what it had
// leased is given back, and no host that it had leased is due before one delay
// from now.
//
// ErrLocked: another process has it open. ErrParamsMismatch: cfg.Settings
// differ from those it was created with (a *frontier.SettingsError), or the
// directory has another format. ErrFilterLost: the filter's file is gone or
// damaged; Rebuild makes it anew from the other tables.
func Open(cfg Config) (*Store, error) { return open(cfg, false) }

// Rebuild opens a store like Open, with its filter made anew from the queue,
// the outcomes and the exact keys.
func Rebuild(cfg Config) (*Store, error) { return open(cfg, true) }

func open(cfg Config, rebuild bool) (_ *Store, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{
		cfg: cfg, fs: cfg.FS, guard: newGuard(),
		ops: make(chan *op, maxGroup), closing: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.hosts, s.leases = make(map[string]*host), make(map[frontier.LeaseID]*lease)
	s.nextExpiry = never
	defer func() {
		if err != nil {
			err = errors.Join(err, s.abandon())
		}
	}()
	if err := s.enter(); err != nil {
		return nil, err
	}
	if err := s.openDB(); err != nil {
		return nil, err
	}
	if err := s.openFilter(rebuild); err != nil {
		return nil, err
	}
	if cfg.OpenOutput != nil {
		if s.output, err = cfg.OpenOutput(s.meta.Position); err != nil {
			return nil, err
		}
	}
	s.cfg.Crash("open")
	if err := s.recoverLeases(); err != nil {
		return nil, err
	}
	s.guard.arm()
	go s.run()
	return s, nil
}

// abandon releases what a failed Open had taken.
func (s *Store) abandon() (err error) {
	if s.db != nil {
		err = s.db.Close()
	}
	if s.unlock != nil {
		err = errors.Join(err, s.unlock())
	}
	return err
}

// enter takes the directory's lock and reads or writes its card.
func (s *Store) enter() error {
	if err := s.fs.MkdirAll(s.cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("localstore: %w", err)
	}
	lock, err := s.fs.Lock(s.fs.PathJoin(s.cfg.Dir, lockFile))
	if err != nil {
		if errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), "lock") {
			return fmt.Errorf("localstore: %w", err)
		}
		return fmt.Errorf("localstore: lock %s: %w (%w)", s.cfg.Dir, frontier.ErrLocked, err)
	}
	s.unlock = lock.Close
	s.card, err = readCard(s.fs, s.cfg.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, statErr := s.fs.Stat(s.fs.PathJoin(s.cfg.Dir, dbDir)); statErr == nil {
			return fmt.Errorf("localstore: %s has a store but no %s: %w", s.cfg.Dir, cardFile, frontier.ErrParamsMismatch)
		}
		s.card, err = createCard(s.fs, s.cfg.Dir, s.cfg)
	}
	if err != nil {
		return err
	}
	if err := s.card.Settings.Compare(s.cfg.Settings); err != nil {
		return err
	}
	if got := filterCard(s.cfg.Filter); got != s.card.Filter {
		return fmt.Errorf("localstore: %s was created with filter %+v, not %+v: %w",
			s.cfg.Dir, s.card.Filter, got, frontier.ErrParamsMismatch)
	}
	s.hasher = bloomstore.NewHasher(bloomstore.Key(s.card.Key))
	return nil
}

func (s *Store) openDB() (err error) {
	cache := pebble.NewCache(s.cfg.CacheBytes)
	defer cache.Unref()
	options := &pebble.Options{
		FS:                          guardFS{markerFS{s.fs}, s.guard},
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
		BackgroundError: func(err error) { s.cfg.Logger.Debug("store", "err", err) },
	}
	options.EnsureDefaults()
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	if s.db, err = pebble.Open(s.fs.PathJoin(s.cfg.Dir, dbDir), options); err != nil {
		return fmt.Errorf("localstore: open %s: %w", s.cfg.Dir, err)
	}
	row, err := s.get(metaKey)
	if err != nil {
		return err
	}
	if row != nil {
		if err := json.Unmarshal(row, &s.meta); err != nil {
			return fmt.Errorf("localstore: read the counters of %s: %w", s.cfg.Dir, err)
		}
	}
	s.opened = s.cfg.Now()
	s.meta.Clock = max(s.meta.Clock, s.opened.UnixMicro())
	return nil
}

// recoverLeases gives back what a process that ended without Close had leased.
func (s *Store) recoverLeases() error {
	g := &group{Store: s, now: s.now(), batch: s.db.NewBatch()}
	defer g.close()
	lower, upper := table(tableLease)
	it, err := s.newIter(lower, upper)
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		g.remove(it.Key())
		key, inFlight, places, err := decodeLease(it.Value())
		if err != nil {
			return err
		}
		h, err := g.hostOf(key)
		if err != nil {
			return err
		}
		if err := g.recoverLease(h, inFlight, places); err != nil {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return err
	}
	if g.batch.Empty() {
		return nil
	}
	return g.apply("recover", true)
}

func (g *group) recoverLease(h *host, inFlight int, places []place) error {
	for _, at := range places {
		key := appendQueueKey(nil, h.key, at)
		entry, err := g.get(key)
		if err != nil {
			return err
		}
		if entry == nil {
			continue // completed
		}
		if inFlight > 0 && len(entry) > entryDeliveries {
			inFlight--
			entry[entryDeliveries] = min(entry[entryDeliveries], 254) + 1
			g.set(key, entry)
		}
		h.enqueued(at)
		g.meta.Stats.Leased--
		g.meta.Stats.Queued++
	}
	h.counted = true // as leased, until now
	h.due = max(h.due, g.now+h.delay)
	g.touch(h)
	return nil
}

// openFilter reads the checkpoint and replays the journal of adds since.
func (s *Store) openFilter(rebuild bool) (err error) {
	switch {
	case rebuild:
		return s.rebuildFilter()
	case s.meta.Checkpoint == "":
		s.filter, err = membits.New(s.cfg.Filter)
	default:
		s.filter, err = s.readCheckpoint(s.meta.Checkpoint)
	}
	if err != nil {
		return err
	}
	it, err := s.newIter(journalKey(s.meta.Replay), []byte{tableJournal + 1})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		n, err := s.replay(it.Value())
		if err != nil {
			return fmt.Errorf("localstore: replay journal row %d: %w", binary.BigEndian.Uint64(it.Key()[1:]), err)
		}
		s.journaled += n
	}
	return it.Error()
}

// replay restores the adds of one journal row, run by run of one layer.
func (s *Store) replay(row []byte) (int, error) {
	if len(row)%journalAdd != 0 {
		return 0, errRow
	}
	n := len(row) / journalAdd
	prints := make([]bloomstore.Fingerprint, 0, n)
	for len(row) > 0 {
		layer := row[0]
		prints = prints[:0]
		for len(row) > 0 && row[0] == layer {
			prints = append(prints, bloomstore.Fingerprint(row[1:journalAdd]))
			row = row[journalAdd:]
		}
		if err := s.filter.Restore(int(layer), prints); err != nil {
			return 0, err
		}
	}
	return n, nil
}
