// Package localstore is the embedded frontier: one directory, one process, no server.
//
// The database pebble stores the queue, hosts, leases, exact keys, one small row for the
// outcome of each finished URL, and the committed position of the output. An exact key is the
// fingerprint of a URL for which the rows, and not the filter, decide whether the URL is new.
//
// The Bloom filter of the known URLs is in memory. A checkpoint is a copy of the filter in a
// file. A journal in the database has the keys that were added after the checkpoint, so Open
// restores the filter exactly.
//
// One goroutine, the committer, collects calls into groups. Therefore filter bits, verdicts
// and completions take effect in one order. A call returns after its group is synced to disk.
// After a failed write the store cannot be used any more: every call returns the error of
// that write. The next Open finds the state of the last committed group.
package localstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/recent"
)

// MaxBatch is the maximum number of items in a new lease.
const MaxBatch = 32

// Config configures a store. Only Dir is required.
type Config struct {
	Dir      string
	FS       vfs.FS            // nil means the operating system's
	Settings frontier.Settings // fixed when the store is created; later calls of Open compare them
	Filter   membits.Config    // fixed when the store is created

	// Policy returns the present policy. The store calls it when it adds and leases items, and
	// takes the delays and MaxPerHost from it. A host whose delay has become longer since its
	// HostUpdate is leased as much later. nil means no delay and no limit.
	Policy func() *policy.Policy

	LeaseTTL time.Duration // 0 means 60 s

	// Windows has a time for each class. An exact key counts as seen for this time after its
	// completion; 0 means for ever. A key that is offered after this time is added
	// again in a later round, even beyond MaxPerHost.
	//
	// The time of the class Bulk makes the filter a membits.Window, for Filter.Capacity new keys in that
	// time. Bulk keys then count as seen for this time after their completion, and for at most
	// 1/Generations of it longer; later only with the probability Filter.FPR. It is fixed when the store is created.
	Windows [maxClass + 1]time.Duration
	// Generations is the number of generations of the filter, if it is a window. 0 means
	// sizing.RecommendedGenerations, or those of the existing store.
	Generations int
	// Pure reports that all offers of a URL of a class have this class, or are sitemap files. Only of such a class, the rows of done
	// keys are deleted after their window: the URL of another key may wait as a bulk URL, and without the row of
	// the key the store would have to search for it in the queue. nil means no class.
	Pure func(frontier.Class) bool

	// OpenOutput opens the output that belongs to the store. It is optional. Without it,
	// completions must have no Record.
	OpenOutput frontier.OpenOutput

	CheckpointAdds int              // adds between two checkpoints of the filter; 0 means 1,000,000 or an eighth of the keys, whichever is more
	CacheBytes     int64            // pebble's block cache; 0 means 32 MiB
	Now            func() time.Time // for tests; nil means time.Now
	Logger         *slog.Logger     // nil discards
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("localstore: Dir is empty, want a directory"))
	}
	if c.LeaseTTL != 0 && c.LeaseTTL < time.Second {
		errs = append(errs, fmt.Errorf("localstore: LeaseTTL is %v, want at least 1s", c.LeaseTTL))
	}
	if c.CacheBytes < 0 {
		errs = append(errs, fmt.Errorf("localstore: CacheBytes is %d, want 0 or more", c.CacheBytes))
	}
	if c.CheckpointAdds < 0 {
		errs = append(errs, fmt.Errorf("localstore: CheckpointAdds is %d, want 0 or more", c.CheckpointAdds))
	}
	errs = append(errs, c.checkWindows())
	if c.Pure == nil {
		c.Pure = func(frontier.Class) bool { return false }
	}
	if c.Policy == nil {
		c.Policy = policy.NewLive(new(policy.Policy)).Load
	}
	c.LeaseTTL = cmp.Or(c.LeaseTTL, time.Minute)
	c.CacheBytes = cmp.Or(c.CacheBytes, 32<<20)
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// Store is an open embedded frontier. It is safe for concurrent use.
type Store struct {
	cfg    Config
	fs     vfs.FS // Config.FS without the guard, so a failed write returns its error
	guard  *guard
	card   card // the content of crawl.json
	hasher bloomstore.Hasher
	unlock func() error
	mode   mode

	db     *pebble.DB
	filter filter
	window *membits.Window // is filter, if bulk keys have a window; nil otherwise
	output frontier.Output // nil means none

	ops           chan *op
	asks          chan *op       // that only read: they go before ops, however many wait
	closing       chan struct{}  // closed by Close
	stopped       chan struct{}  // closed when the committer returned
	behind        sync.WaitGroup // checkpoints being written
	readers       sync.WaitGroup // calls that read the database, except those of the committer; see hold
	closeMu       sync.Mutex     // held during close(closing) and readers.Add
	commits       atomic.Uint64  // see Commits
	checkpointing atomic.Bool    // a checkpoint is being written, or older ones are being removed
	close         func() error   // runs once, in Close
	scope         *scopeCache
	members       *recent.Keys // keys of quota groups

	state
}

var (
	_ frontier.Store     = (*Store)(nil)
	_ frontier.Scope     = (*Store)(nil)
	_ frontier.Quota     = (*Store)(nil)
	_ frontier.Inspector = (*Store)(nil)
	_ frontier.Control   = (*Store)(nil)
)

// state belongs to the committer. No other goroutine reads or writes it.
type state struct {
	meta         meta
	opened       time.Time // time of Open, according to Config.Now; see Store.now
	clock        int64     // µs since 1970: the store's time, which never goes back
	hosts        map[string]*host
	leases       map[frontier.LeaseID]*lease
	ended        endedLeases
	dueFloor     int64  // tableDue has no key with an earlier time; scans start here to skip deleted keys
	delayedFloor int64  // the same for tableDelayed
	nextDelayed  int64  // no delayed item is due earlier
	nextExpiry   int64  // no lease expires earlier
	nextNoteEnd  int64  // no note ends earlier
	notesFloor   int64  // as dueFloor, for tableNoteEnd
	nextSweep    int64  // sweep removes nothing earlier
	sweepFloor   int64  // as delayedFloor, for tableExpiry
	presentUntil int64  // time of the next check that the directory exists
	journaled    int    // adds in the journal
	carry        *carry // of keys into the newest generation of the window; nil if it has not begun, or has ended
	unparking    unparking
	sites        sites
}

const never = math.MaxInt64

// meta is the row of counters. It is written with every batch.
type meta struct {
	Crawl      hexKey            `json:"crawl"`   // the id in the card
	Seq        uint64            `json:"seq"`     // last sequence number in tableQueue, tableDelayed and tableFailed
	Journal    uint64            `json:"journal"` // last journal row
	Clock      int64             `json:"clock"`
	Stats      frontier.Stats    `json:"stats"` // without the filter
	Position   frontier.Position `json:"position,omitempty"`
	Checkpoint string            `json:"checkpoint,omitempty"` // file with the filter's bits; empty means none yet
	Replay     uint64            `json:"replay"`               // first journal row that is not in the checkpoint
	Known      uint64            `json:"known,omitempty"`      // keys that MarkSeen put into the filter
	Readmitted uint64            `json:"readmitted,omitempty"` // rows of tableReadmit
	Window     windowState       `json:"window,omitzero"`
	Swept      sweptKeys         `json:"swept,omitzero"`
	Lost       *RecordLoss       `json:"lost,omitempty"` // records that are missing: see AcceptLoss
}

// ID returns the crawl's random id.
func (s *Store) ID() [16]byte { return s.card.ID }

// Hasher returns the hasher of the crawl's fingerprints.
func (s *Store) Hasher() bloomstore.Hasher { return s.hasher }

// Failed returns a channel that is closed when a failure makes the store unusable. After
// that, Err returns the error.
func (s *Store) Failed() <-chan struct{} { return s.guard.failed }

// Commits returns how often this process has committed changes and synced them to disk. One
// commit can contain the changes of many calls.
func (s *Store) Commits() uint64 { return s.commits.Load() }

// Err returns the failure after which the store cannot be used any more, or nil.
func (s *Store) Err() error { return s.guard.failure() }

// Close ends all leases, writes a checkpoint of the filter and releases the directory. A
// host that was leased is due after one delay, or later. After a failed write, Close
// returns that failure and writes nothing, and the memory of the store is not freed until
// the process ends. Committed changes are on disk.
//
// Close ends calls that read the store, and waits for them. So the visit function of List
// must not call Close.
func (s *Store) Close() error { return s.close() }

func (s *Store) shutDown() error {
	s.closeMu.Lock()
	close(s.closing)
	s.closeMu.Unlock()
	err := s.guard.await(func() error {
		<-s.stopped
		s.behind.Wait()
		if err := s.Err(); err != nil {
			return err
		}
		var err error
		if s.journaled > 0 && s.mode != readOnly {
			err = s.checkpoint(s.snapshotFilter(), s.commitOne)
		}
		s.readers.Wait()
		s.carry.close()
		return errors.Join(err, s.db.Close())
	})
	s.behind.Wait() // again, because await returns early after a failed write
	return errors.Join(err, s.unlock())
}

// hold keeps the database open until the caller calls readers.Done. It returns an error if
// the store has failed, or if Close was called.
func (s *Store) hold() error {
	if err := s.Err(); err != nil {
		return err
	}
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.isClosing() {
		return frontier.ErrClosed
	}
	s.readers.Add(1)
	return nil
}

// isClosing reports whether Close was called.
func (s *Store) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// now returns the store's time in µs since 1970. It follows the monotonic clock, and does
// not start before the last time that the previous process stored.
func (s *Store) now() int64 {
	t := s.cfg.Now()
	s.clock = max(s.clock, s.meta.Clock+t.Sub(s.opened).Microseconds())
	return s.clock
}

// age returns how long after the creation of the crawl a time of the store is.
func (s *Store) age(now int64) time.Duration {
	return time.Duration(now-s.card.Created.UnixMicro()) * time.Microsecond
}

// submit passes an op to the committer and waits until the op's group is on disk.
func (s *Store) submit(ctx context.Context, o *op) error {
	if s.mode == readOnly {
		return ErrReadOnly
	}
	return s.submitAny(ctx, o)
}

// submitAny is like submit, but it also works on a store that is open for reading only.
func (s *Store) submitAny(ctx context.Context, o *op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o.done = make(chan struct{})
	queue := s.ops
	if o.reads {
		queue = s.asks
	}
	select {
	case queue <- o:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.guard.failed:
		return s.Err()
	case <-s.closing:
		return frontier.ErrClosed
	}
	select {
	case <-o.done:
		return o.err
	case <-s.guard.failed:
		return s.Err()
	case <-s.stopped:
	}
	select { // the committer might have answered, or failed, before it stopped
	case <-o.done:
		return o.err
	default:
		return cmp.Or(s.Err(), frontier.ErrClosed)
	}
}
