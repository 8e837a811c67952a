package localstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// A checkpoint is a file with the filter's bits. Open reads it, and replays only the
// journal rows that were written after it. Adds continue while the file is written, so
// it can contain bits of adds that are not committed yet. This does no harm: Open uses
// the file only if its name is in the counters' row, and that row is committed after all
// these adds.

const (
	checkpointPrefix = "filter-"
	checkpointSuffix = ".bits"
)

// filterSnapshot is a snapshot of the filter. It contains all keys of the journal rows
// before the row replay.
type filterSnapshot struct {
	bits   *membits.Snapshot
	file   string
	replay uint64 // the first journal row that is not in bits
	adds   int    // number of adds in the journal before replay
}

func (s *Store) snapshotFilter() filterSnapshot {
	replay := s.meta.Journal + 1
	return filterSnapshot{
		bits: s.filter.Snapshot(s.card.ID), replay: replay, adds: s.journaled,
		file: fmt.Sprintf("%s%012d%s", checkpointPrefix, replay, checkpointSuffix),
	}
}

// maybeCheckpoint starts a checkpoint when the journal has become long.
func (s *Store) maybeCheckpoint() {
	limit := s.cfg.CheckpointAdds
	if limit == 0 {
		limit = int(max(1_000_000, s.meta.Stats.Added/8))
	}
	if s.journaled < limit || !s.checkpointing.CompareAndSwap(false, true) {
		return
	}
	snapshot := s.snapshotFilter()
	// After a failure, Close may already be waiting for the WaitGroup s.behind, so no
	// checkpoint may start any more. After a failure, guard.write does not call its function.
	s.guard.write("start", "a checkpoint", func() error {
		s.behind.Go(func() { s.checkpointBehind(snapshot) })
		return nil
	})
}

// checkpointBehind writes a checkpoint while adds continue.
func (s *Store) checkpointBehind(snapshot filterSnapshot) {
	// The next checkpoint must not start before the old files are removed. Otherwise
	// removeCheckpoints would also remove the file of the next checkpoint.
	defer s.checkpointing.Store(false)
	err := s.checkpoint(snapshot, func(o *op) error { return s.submitAny(context.Background(), o) })
	if err != nil && !errors.Is(err, frontier.ErrClosed) {
		s.guard.fail(err)
	}
}

// checkpoint writes a snapshot to its file. Then it calls commit with an op that stores
// the file's name in the counters.
func (s *Store) checkpoint(snapshot filterSnapshot, commit func(*op) error) error {
	err := durable.ReplacePrivate(s.fs, s.fs.PathJoin(s.cfg.Dir, snapshot.file), func(w io.Writer) error {
		half := &crashWriter{w: w, bytesLeft: snapshot.bits.Bytes() / 2}
		_, err := snapshot.bits.WriteTo(half)
		return err
	})
	if err != nil {
		return fmt.Errorf("localstore: write checkpoint: %w", err)
	}
	err = commit(&op{change: func(g *group) error {
		lower, upper := journalKey(0), journalKey(snapshot.replay)
		if err := g.batch.DeleteRange(lower, upper, nil); err != nil {
			return fatal("cut the journal", err)
		}
		g.meta.Checkpoint, g.meta.Replay = snapshot.file, snapshot.replay
		g.journaled -= snapshot.adds
		return nil
	}})
	if err != nil {
		return err
	}
	return s.removeCheckpoints(snapshot.file)
}

func (s *Store) removeCheckpoints(keep string) error {
	names, err := s.fs.List(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("localstore: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, checkpointPrefix) && name != keep {
			if err := s.fs.Remove(s.fs.PathJoin(s.cfg.Dir, name)); err != nil {
				return fmt.Errorf("localstore: %w", err)
			}
		}
	}
	return nil
}

func (s *Store) readCheckpoint(name string) (*membits.Filter, error) {
	const remedy = "rebuild it from the crawl's tables (crawler rebuild)"
	path := s.fs.PathJoin(s.cfg.Dir, name)
	f, err := s.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("localstore: %w: %w; %s", frontier.ErrFilterLost, err, remedy)
	}
	defer f.Close()
	filter, err := membits.Read(f, s.cfg.Filter, s.card.ID)
	if err != nil {
		return nil, fmt.Errorf("localstore: %s: %w; %s", path, err, remedy)
	}
	return filter, nil
}

// rebuildFilter rebuilds the filter from the tables. Every key that was ever added has a
// row in one of the tables, because its item waits, is leased or has an outcome, or because
// MarkSeen added the key. Only keys that were swept have no row; the filter gets those of them that are in the
// shadow sample, with which it is compared.
func (s *Store) rebuildFilter() (err error) {
	if s.filter, err = membits.New(s.cfg.Filter); err != nil {
		return err
	}
	for _, letter := range []byte{tableOutcome, tableExact, tableKnown} {
		err := s.scan(s.db, letter, func(key, _ []byte) error {
			print, err := printOf(key)
			if err == nil {
				s.filter.Add(print)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	err = s.scanWaiting(s.db, func(item frontier.Item) bool {
		s.filter.Add(item.Fingerprint)
		return true
	})
	if err != nil {
		return err
	}
	s.meta.Swept.Left = 0
	return s.scan(s.db, tableShadow, func(key, _ []byte) error {
		print, err := printOf(key)
		if _, added := s.filter.Add(print); added && err == nil {
			s.meta.Swept.Left++
		}
		return err
	})
}

// crashWriter reaches the crash point "checkpoint" when bytesLeft bytes have been written.
type crashWriter struct {
	w         io.Writer
	bytesLeft int64
}

func (c *crashWriter) Write(p []byte) (int, error) {
	if before := c.bytesLeft; before >= 0 {
		if c.bytesLeft -= int64(len(p)); c.bytesLeft < 0 {
			crash.Point("checkpoint")
		}
	}
	return c.w.Write(p)
}
