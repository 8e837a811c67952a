package localstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
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
	parts  []snapshotPart
	files  []generationFile // those of parts, and older files of closed generations; nil without a window
	replay uint64           // the first journal row that is not in the files
	adds   int              // number of adds in the journal before replay
}

// snapshotPart is a snapshot of the filter, or of one generation of a window.
type snapshotPart struct {
	bits *membits.Snapshot
	file string
}

func (s *Store) snapshotFilter() filterSnapshot {
	snapshot := filterSnapshot{replay: s.meta.Journal + 1, adds: s.journaled}
	name := fmt.Sprintf("%s%012d", checkpointPrefix, snapshot.replay)
	if filter, single := s.filter.(*membits.Filter); single {
		snapshot.parts = []snapshotPart{{filter.Snapshot(s.card.ID), name + checkpointSuffix}}
		return snapshot
	}
	for _, g := range s.window.Generations() {
		at := slices.IndexFunc(s.meta.Window.Files, func(f generationFile) bool { return f.Number == g.Number && f.Closed })
		if at >= 0 && s.mode != rebuilding {
			snapshot.files = append(snapshot.files, s.meta.Window.Files[at])
			continue
		}
		file := fmt.Sprintf("%s-%d%s", name, g.Number, checkpointSuffix)
		snapshot.parts = append(snapshot.parts, snapshotPart{g.Filter.Snapshot(s.card.ID), file})
		snapshot.files = append(snapshot.files, generationFile{g.Number, file, g.Number < s.meta.Window.Newest})
	}
	return snapshot
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

// checkpoint writes a snapshot to its files. Then it calls commit with an op that stores
// their names in the counters.
func (s *Store) checkpoint(snapshot filterSnapshot, commit func(*op) error) error {
	keep := make(map[string]bool)
	for _, f := range snapshot.files {
		keep[f.File] = true
	}
	for _, part := range snapshot.parts {
		keep[part.file] = true
		err := durable.ReplacePrivate(s.fs, s.fs.PathJoin(s.cfg.Dir, part.file), func(w io.Writer) error {
			half := &crashWriter{w: w, bytesLeft: part.bits.Bytes() / 2}
			_, err := part.bits.WriteTo(half)
			return err
		})
		if err != nil {
			return fmt.Errorf("localstore: write checkpoint: %w", err)
		}
	}
	err := commit(&op{change: func(g *group) error {
		lower, upper := journalKey(0), journalKey(snapshot.replay)
		if err := g.batch.DeleteRange(lower, upper, nil); err != nil {
			return fatal("cut the journal", err)
		}
		g.meta.Replay = snapshot.replay
		if g.meta.Window.Files = snapshot.files; g.window == nil {
			g.meta.Checkpoint = snapshot.parts[0].file
		}
		g.journaled -= snapshot.adds
		return nil
	}})
	if err != nil {
		return err
	}
	return s.removeCheckpoints(keep)
}

func (s *Store) removeCheckpoints(keep map[string]bool) error {
	names, err := s.fs.List(s.cfg.Dir)
	if err != nil {
		return fmt.Errorf("localstore: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, checkpointPrefix) && !keep[name] {
			if err := s.fs.Remove(s.fs.PathJoin(s.cfg.Dir, name)); err != nil {
				return fmt.Errorf("localstore: %w", err)
			}
		}
	}
	return nil
}

func (s *Store) readCheckpoint(name string, config membits.Config) (*membits.Filter, error) {
	const remedy = "rebuild it from the crawl's tables (crawler rebuild)"
	path := s.fs.PathJoin(s.cfg.Dir, name)
	f, err := s.fs.Open(path)
	if err != nil {
		return nil, fmt.Errorf("localstore: %w: %w; %s", frontier.ErrFilterLost, err, remedy)
	}
	defer f.Close()
	filter, err := membits.Read(f, config, s.card.ID)
	if err != nil {
		return nil, fmt.Errorf("localstore: %s: %w; %s", path, err, remedy)
	}
	return filter, nil
}

// rebuildFilter rebuilds the filter from the tables. Every key that was ever added has a
// row in one of the tables, because its item waits, is leased or has an outcome, or because
// MarkSeen added the key. Only keys that were swept have no row; the filter gets those of them that are in the
// shadow sample, with which it is compared. A window gets each key in the generation in which it
// was finished, or in the newest one if it waits or has failed.
func (s *Store) rebuildFilter() (err error) {
	if s.cfg.Windows[frontier.Bulk] > 0 {
		return s.rebuildWindow()
	}
	if err = s.newFilter(); err != nil {
		return err
	}
	return s.eachKey(func(print bloomstore.Fingerprint, table byte, _ []byte) error {
		if _, added := s.filter.Add(print); added && table == tableShadow {
			s.meta.Swept.Left++
		}
		return nil
	})
}

// eachKey calls visit for each key that waits, and for each row of a key, with its table. The rows of the shadow sample
// are the last ones.
func (s *Store) eachKey(visit func(print bloomstore.Fingerprint, table byte, row []byte) error) error {
	s.meta.Swept.Left = 0
	var fault error
	waits := func(item frontier.Item) bool {
		fault = visit(item.Fingerprint, tableQueue, nil)
		return fault == nil
	}
	if err := errors.Join(s.scanWaiting(s.db, waits), fault); err != nil {
		return err
	}
	for _, letter := range []byte{tableOutcome, tableExact, tableKnown, tableShadow} {
		err := s.scan(s.db, letter, func(key, row []byte) error {
			print, err := printOf(key)
			if err != nil {
				return err
			}
			return visit(print, letter, row)
		})
		if err != nil {
			return err
		}
	}
	return nil
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
