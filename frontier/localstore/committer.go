package localstore

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// op is one call waiting for the committer.
type op struct {
	// change changes the crawl. It is called first. If it returns an error that is not fatal,
	// it has changed nothing.
	change func(*group) error
	grant  func(*group) error // makes leases, or reads; it is called after all changes of the group, and sees them
	reads  bool               // the call changes nothing; no key is swept for it
	bytes  int64              // of memory that the offers and records of change hold, about
	err    error
	done   chan struct{}
}

// These limits bound the ops of one group, and the bytes that they hold. A group can hold the
// bytes of one more op. Its batch and the records that wait for the sync take some times as much.
const (
	maxGroup      = 256
	maxGroupBytes = 8 << 20
)

// group is the work of the committer between two syncs.
type group struct {
	*Store
	now      int64
	batch    *pebble.Batch
	dirty    []*host
	journal  []byte
	exact    map[bloomstore.Fingerprint]bool        // exact keys whose rows this group wrote, but cannot read yet
	sampled  map[bloomstore.Fingerprint]bool        // keys added to the sample
	retried  map[uint64]bool                        // failed rows that this group removed, by their numbers
	sizes    map[string]uint64                      // number of keys in the quota groups that changed
	reserved map[string]bool                        // keys added to quota groups
	notes    map[[32]byte][]byte                    // notes that this group wrote
	showed   map[frontier.Content]frontier.Referrer // contents that this group wrote
	records  bool                                   // a record was written to the output
	unsynced bool                                   // the last batch was applied, but not synced
	synced   bool                                   // a batch was synced to disk
	changed  bool                                   // the counters' row must be written
	scratch  []byte

	due, queue *pebble.Iterator // read by the grants; nil until used
	later      int64            // no host that the grants found due, and did not lease, is due earlier
}

func (s *Store) newGroup() *group {
	return &group{
		Store: s, now: s.now(), batch: s.db.NewBatch(), later: never,
		exact:    make(map[bloomstore.Fingerprint]bool),
		sampled:  make(map[bloomstore.Fingerprint]bool),
		retried:  make(map[uint64]bool),
		sizes:    make(map[string]uint64),
		reserved: make(map[string]bool),
		notes:    make(map[[32]byte][]byte),
		showed:   make(map[frontier.Content]frontier.Referrer),
	}
}

// run is the committer.
func (s *Store) run() {
	stage.Store.Begin()
	defer close(s.stopped)
	ops := make([]*op, 0, maxGroup)
	for {
		select {
		case o := <-s.asks:
			ops = append(ops[:0], o)
		case o := <-s.ops:
			ops = append(ops[:0], o)
		case <-s.closing:
			if s.mode != readOnly {
				s.finish(s.commit([]*op{{change: (*group).giveBackAll}}))
			}
			return
		}
		bytes := ops[0].bytes
	gather:
		for len(ops) < maxGroup && bytes < maxGroupBytes {
			select {
			case o := <-s.asks:
				ops = append(ops, o)
				continue
			default:
			}
			select {
			case o := <-s.ops:
				ops = append(ops, o)
				bytes += o.bytes
			default:
				break gather
			}
		}
		if !s.finish(s.commit(ops)) {
			return
		}
	}
}

// finish records a failed commit. It reports whether the commit succeeded.
func (s *Store) finish(err error) bool {
	if err != nil {
		s.guard.fail(err)
	}
	return err == nil
}

// commitOne commits an op before the committer starts or after it has stopped.
func (s *Store) commitOne(o *op) error { return s.commit([]*op{o}) }

// commit runs ops in two steps, first the changes and then the grants, and answers
// them. After an error the store cannot be used, because memory is ahead of the disk.
func (s *Store) commit(ops []*op) error {
	g := s.newGroup()
	defer g.close()
	if err := g.turnClock(); err != nil {
		return err
	}
	if err := g.checkPresent(); err != nil {
		return err
	}
	grants, sweeps := false, false
	for _, o := range ops {
		if o.change != nil {
			if o.err = o.change(g); isFatal(o.err) {
				return o.err
			}
		}
		grants, sweeps = grants || o.grant != nil, sweeps || !o.reads
	}
	if sweeps {
		if err := g.sweep(); err != nil {
			return err
		}
	}
	if err := g.writeChanges(!grants); err != nil {
		return err
	}
	if grants {
		for _, o := range ops {
			if o.grant != nil && o.err == nil {
				if o.err = o.grant(g); isFatal(o.err) {
					return o.err
				}
			}
		}
		if err := g.writeGrants(); err != nil {
			return err
		}
	}
	if g.synced {
		s.commits.Add(1)
	}
	crash.Point("committed")
	for _, o := range ops {
		if o.done != nil {
			close(o.done)
		}
	}
	s.maybeCheckpoint()
	s.trimHosts()
	return nil
}

// fatalError is an error after which memory and disk can differ.
type fatalError struct{ error }

func (e fatalError) Unwrap() error { return e.error }

func fatal(op string, err error) error {
	return fatalError{fmt.Errorf("localstore: %s: %w", op, err)}
}

func isFatal(err error) bool {
	var f fatalError
	return errors.As(err, &f)
}

// presentFor is how long a check of the directory is valid, in µs.
const presentFor = 1_000_000

// checkPresent returns an error if the directory was removed. Without this check, writes
// to the open files of a removed directory would succeed, but be lost.
func (g *group) checkPresent() error {
	if g.now < g.presentUntil {
		return nil
	}
	_, err := g.fs.Stat(g.fs.PathJoin(g.cfg.Dir, cardFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fatal("the directory was removed while it was in use", err)
	}
	g.presentUntil = g.now + presentFor
	return nil
}

// turnClock rotates the window of bulk keys, ends expired leases, queues delayed items that are due, and removes notes whose time is over. After a change of
// the policy it looks at what is parked.
func (g *group) turnClock() error {
	if g.mode == readOnly {
		return nil
	}
	if err := g.rotate(); err != nil {
		return err
	}
	if g.nextExpiry <= g.now {
		g.expireLeases()
	}
	if g.nextDelayed <= g.now {
		if err := g.mature(); err != nil {
			return err
		}
	}
	if g.nextNoteEnd <= g.now {
		if err := g.sweepNotes(); err != nil {
			return err
		}
	}
	return g.unpark()
}

// writeChanges commits the first step. Before it commits the batch, it syncs the new
// records, because the batch contains the position of their end.
func (g *group) writeChanges(sync bool) error {
	if g.batch.Empty() && len(g.dirty) == 0 && !g.changed {
		return nil
	}
	if g.records {
		g.guard.write("sync", "the output", func() (err error) {
			g.meta.Position, err = g.output.Sync()
			return err
		})
		g.records = false
	}
	g.writeJournal()
	return g.apply("commit", sync)
}

// writeJournal writes a row of the journal with the keys that were added to the filter.
func (g *group) writeJournal() {
	if len(g.journal) == 0 {
		return
	}
	g.meta.Journal++
	row := g.journal
	if g.window != nil { // all of them are in the newest generation: rotate runs first
		row = append(binary.BigEndian.AppendUint64(nil, uint64(g.meta.Window.Newest)), row...)
	}
	g.set(journalKey(g.meta.Journal), row)
}

// writeGrants commits the second step together with the first.
func (g *group) writeGrants() error {
	g.closeIterators()
	if !g.batch.Empty() || len(g.dirty) > 0 {
		return g.apply("lease", true)
	}
	if g.unsynced {
		if err := g.db.LogData(nil, pebble.Sync); err != nil {
			return fatal("sync", err)
		}
		g.synced = true
	}
	return nil
}

func (g *group) apply(point string, sync bool) error {
	g.writeHosts()
	meta := g.meta
	meta.Clock = g.now
	row, err := json.Marshal(&meta)
	if err != nil {
		return fatal("encode the counters", err)
	}
	g.set(metaKey, row)
	crash.Point(point)
	options := pebble.NoSync
	if sync {
		options = pebble.Sync
	}
	g.unsynced = !sync
	if err := g.db.Apply(g.batch, options); err != nil {
		return fatal("commit", err)
	}
	g.synced = g.synced || sync
	_ = g.batch.Close()
	g.batch = g.db.NewBatch()
	return nil
}

func (g *group) close() {
	g.closeIterators()
	_ = g.batch.Close()
}

func (g *group) closeIterators() {
	for _, it := range []**pebble.Iterator{&g.due, &g.queue} {
		if *it != nil {
			_ = (*it).Close()
			*it = nil
		}
	}
}

// The methods set and remove each add a change to the group's batch. This fails only if
// the batch is closed.
func (g *group) set(key, value []byte) { _ = g.batch.Set(key, value, nil) }
func (g *group) remove(key []byte)     { _ = g.batch.Delete(key, nil) }

func (g *group) nextSeq() uint64 {
	g.meta.Seq++
	return g.meta.Seq
}

// get returns a copy of a committed row, or nil if there is none.
func (s *Store) get(key []byte) ([]byte, error) { return getRow(s.db, key) }

// hasRow reports whether one of the keys has a committed row.
func (s *Store) hasRow(keys ...[]byte) (bool, error) {
	for _, key := range keys {
		if row, err := s.get(key); err != nil || row != nil {
			return row != nil, err
		}
	}
	return false, nil
}

func getRow(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fatal("read", err)
	}
	defer closer.Close()
	return append([]byte{}, value...), nil
}

// pebbleLog logs the errors of pebble. A fatal error is a failure of the store: Fatalf
// records it and never returns to pebble.
type pebbleLog struct{ *Store }

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.cfg.Logger.Debug("pebble", "message", fmt.Sprintf(format, args...))
}

func (l pebbleLog) Fatalf(format string, args ...any) {
	l.guard.stop(fmt.Errorf("localstore: "+format, args...))
}

// micros converts a duration to the store's unit. It rounds up, so that nothing happens
// too early.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }
