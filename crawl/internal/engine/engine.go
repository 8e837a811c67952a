// Package engine opens the frontier of a crawl together with its outputs. The
// frontier is the embedded one in a directory, or the shared one in Redis. The records
// are in files or in Postgres.
//
// It owns the order in which stores and outputs are opened and closed, the audit,
// the rebuild, and where the records of a crawl are. It does not own settings,
// seeds, workers or the communication between processes (package crawl).
package engine

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/internal/explain"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Purpose says why a crawl is opened.
type Purpose int

// Purposes.
const (
	ToCrawl      Purpose = iota // Open creates the crawl if there is none
	ToLook                      // the directory need not be writable
	ToSteer                     // to change something while a worker might run
	ToRebuild                   // to rebuild the filter
	ToAcceptLoss                // to rebuild the filter although records are missing
)

// Config configures Place.Open.
type Config struct {
	Settings frontier.Settings // stored in a new crawl, and otherwise compared with the stored ones
	Stored   frontier.Settings // nil means a new crawl

	Canon    *canon.Canonicalizer
	Scope    canon.ScopeMode
	MaxHosts uint64 // hosts of one domain; 0 means no limit
	Exact    *exact.Rules
	Windows  exact.Windows

	Capacity uint64
	FPR      float64
	Growth   bloomstore.Growth

	Policy     func() *policy.Policy // the present one
	LeaseTTL   time.Duration
	Partitions int
	Wait       int
	Worker     string

	Rows    bool          // records are rows of a Postgres
	CDC     bool          // rows are also written as events for change data capture
	Records record.Config // Dir and OpenArchive are not set
	Stream  io.Writer     // also gets each record; optional
	Save    bool          // answers are kept
	Archive warc.Config   // Dir is not set
	Edges   bool          // links are kept, in files beside those of records, or as rows
	// WorkerEnd returns the end of the completed records of the worker in a
	// directory. It returns nil if no process runs there.
	WorkerEnd func(ctx context.Context, dir string) (frontier.Position, error)

	CheckpointAdds int
	Cache          int64 // bytes of an embedded frontier's block cache; 0 means its default
	Logger         *slog.Logger
}

// Place is where the frontier of a crawl is stored: a Directory, or a *Server.
type Place interface {
	// String names the crawl to people, without secrets.
	String() string
	// Stored returns what is known of the crawl without opening it, or nil if there is no crawl.
	Stored(ctx context.Context) (*Stored, error)
	// Open opens the crawl.
	Open(ctx context.Context, c *Config, why Purpose) (*Engine, error)
	// Busy reports whether another process has the crawl open, or is creating it, so that it cannot
	// be opened here now.
	Busy() bool
	// OneProcess reports whether only one process at a time can have the crawl open. Then Outbox and Records
	// read it while another process has it open.
	OneProcess() bool
	// Outbox opens the outbox of the crawl without opening the crawl. The function committedEnd returns
	// the end of the committed records in files. The argument inRows reports whether the records are rows.
	Outbox(ctx context.Context, inRows bool, committedEnd func(context.Context) (frontier.Position, error)) (box Outbox, release func() error, err error)
	// RowsOf opens the records of the crawl, which are rows, without opening the crawl.
	RowsOf(ctx context.Context) (records RecordSource, closeRows func(), err error)
	// RunDirs returns the directories on this machine in which processes have run the crawl.
	RunDirs() ([]string, error)
	// Home returns the directory for files about the whole crawl; empty means that there is none.
	Home() string
	// Recreate creates the crawl again if its server has lost it, and returns what was lost. A rebuild must
	// follow. Recreate returns nil if the crawl is there.
	Recreate(ctx context.Context) (*LostError, error)
	// Remove deletes the crawl from its servers, and returns how many keys Redis had.
	Remove(ctx context.Context) (keys int, err error)
}

type placeKey struct{}

// WithPlace returns a context with which package crawl opens a crawl at place, wherever its Config says that it is.
// Package crawltest uses it.
func WithPlace(ctx context.Context, place Place) context.Context {
	return context.WithValue(ctx, placeKey{}, place)
}

// PlaceOf returns the place of WithPlace, or nil.
func PlaceOf(ctx context.Context) Place {
	place, _ := ctx.Value(placeKey{}).(Place)
	return place
}

// Stored is what is known of a crawl that is not open.
type Stored struct {
	Settings frontier.Settings // those that were fixed when the crawl was created
	Version  *Version          // the newest version of the policy; nil if it was never changed
	// Own is the directory that a process which opens the crawl to crawl would use as its
	// own. It is empty if that directory does not belong to the crawl yet.
	Own string
}

// InRows reports whether the records of the crawl are rows of a Postgres. It is false if there is no crawl.
func (s *Stored) InRows() bool { return s != nil && s.Settings["sink"] == "postgres" }

// Engine is an open frontier with its outputs, as five interfaces that an embedded and a shared
// frontier satisfy. It is safe for concurrent use.
type Engine struct {
	Queue
	Look
	Change
	Versions
	Output

	close func() error // nil means that there is nothing to close
}

// Queue is what a worker needs.
type Queue interface {
	frontier.Store
	frontier.Submitter
	frontier.Control
	frontier.Scope
	frontier.Quota
	// Forward exchanges keys between the exact set and the queue until stop is called.
	Forward(ctx context.Context) (stop func())
	// StopRequested returns a channel that is closed when StopWorkers of another process asks this
	// worker to stop. It is nil if the crawl is embedded.
	StopRequested() <-chan struct{}
	// CancelWait unblocks a Close that waits for Postgres.
	CancelWait()
	// Err returns the error that made the engine unusable, or nil.
	Err() error
}

// Look reads a crawl.
type Look interface {
	frontier.Inspector

	Hasher() bloomstore.Hasher
	// FilterLayers returns the sizes and the fill of the layers, oldest first.
	FilterLayers(ctx context.Context) ([]frontier.FilterLayer, error)
	// FilterBytes returns how much of this process's memory the filter takes; it is 0
	// for a filter in Redis.
	FilterBytes() uint64
	// Probe looks up n random fingerprints, or fewer if ctx ends. It returns how many
	// were looked up, and how many of them the filter claimed to contain.
	Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error)

	LocateURL(ctx context.Context, host, url string) (URLState, error)
	// Counters returns Stats without the state of the filter. It is cheap.
	Counters(ctx context.Context) (frontier.Stats, error)
	// CountBooks compares the counters of the crawl with a new count.
	CountBooks(ctx context.Context) (report.Audit, error)
	// Committed returns how often this process committed changes to the embedded store.
	// The result embedded is false for a crawl in Redis.
	Committed() (commits uint64, embedded bool)
	// CommittedRecords returns the records that are committed now.
	CommittedRecords(ctx context.Context) (RecordSource, error)
	// Export merges the records of workers. It leaves out items that are not finished.
	Export(ctx context.Context, all record.Export, w io.Writer) (record.Exported, error)
	// Position returns the end of the records that this process commits.
	Position(ctx context.Context) (frontier.Position, error)

	// Sharing returns the workers of the crawl, or nil if it is embedded.
	Sharing(ctx context.Context) (*report.Sharing, error)
	// ExactKeys counts the keys of the exact set, which has a row for each exact URL in
	// Postgres. It returns nil if the crawl has no such set, or if the address of Postgres
	// was not given.
	ExactKeys(ctx context.Context) (*report.ExactKeys, error)
	// ExactElsewhere reports whether the exact keys are in Postgres. The result has a meaning only in
	// a process that does not crawl. For a worker it is always false.
	ExactElsewhere() bool

	// Notes returns the notes of all workers by name. An embedded crawl has none.
	Notes(ctx context.Context) (map[string]string, error)
	// Outboxes returns the current outboxes.
	Outboxes(ctx context.Context) ([]Outbox, error)
	// Journals returns the journals whose events are not wholly delivered, as Redis knows them. It
	// returns none for an embedded crawl.
	Journals(ctx context.Context) ([]Journal, error)
	// OutboxOf returns the outbox of a journal of this crawl whose directory is on this machine, under
	// the path that j names. The result found is false if it is not there, or if a process has it open.
	OutboxOf(j Journal) (box Outbox, found bool)
}

// Change changes a crawl beside what its workers do.
type Change interface {
	// MarkSeen marks URLs as seen without queueing them. It returns how many of them
	// the filter did not contain yet.
	MarkSeen(ctx context.Context, urls []SeenURL) (fresh int, err error)
	// Recheck queues finished items again: see frontier.Rechecker, and redisstore.Store for a crawl in Redis, of which only a
	// worker with a Postgres can do so. Otherwise the error is errors.ErrUnsupported.
	Recheck(ctx context.Context, items []frontier.Finished) (int, error)
	// Readmit lets URLs in again: see frontier.Readmitter.
	Readmit(ctx context.Context, urls []frontier.Offer, dry bool) ([]frontier.Readmission, error)
	// AcceptRecordLoss makes an embedded crawl usable again after its newest file of records
	// became shorter. It changes nothing if all records are there.
	AcceptRecordLoss(ctx context.Context) (*Loss, error)
	// ReconcileSet looks up in Postgres which exact URLs are unfinished, and offers to the queue those
	// that the queue lacks. It skips URLs that another worker might be offering at this moment. If
	// the argument refill is true, ReconcileSet offers all unfinished exact URLs.
	ReconcileSet(ctx context.Context, refill bool) (exact.Reconciled, error)
	// StopWorkers asks all workers of a crawl in Redis to stop, and waits: see redisstore.Store.
	StopWorkers(ctx context.Context) (left, died []redisstore.Worker, err error)
	// Note stores a text in Redis under a name, unless there is one: see redisstore.Store. It does nothing for an
	// embedded crawl.
	Note(ctx context.Context, name, text string) error
	// ReportJournal stores j in Redis. It does nothing for an embedded crawl.
	ReportJournal(ctx context.Context, j Journal) error
	// ForgetJournal removes a journal from Redis, because its events are delivered.
	ForgetJournal(ctx context.Context, id, relay string) error
}

// Output is where the records of this process go.
type Output interface {
	Dir() string            // the directory with this process's records; empty means none
	Sink() record.Sink      // writes to files and to the stream; nil means that no records are written
	Archive() *warc.Writer  // nil means no answers are kept
	Edges() record.EdgeSink // nil means no links are kept
}

var (
	_ interface {
		Queue
		Look
		Change
		Versions
	} = (*localEngine)(nil)
	_ interface {
		Queue
		Look
		Change
		Versions
	} = (*sharedEngine)(nil)
	_ Output = (*outputs)(nil)
)

// Close closes the store, its output, and the connections, in this order.
func (e *Engine) Close() error {
	e.CancelWait()
	if e.close == nil {
		return nil
	}
	return e.close()
}

// Postgres returns the database of a crawl in Redis, or nil if it has none, or its address was not given.
func (e *Engine) Postgres() *pgstore.Store {
	if shared, is := e.Look.(*sharedEngine); is && shared.exact != nil {
		return shared.exact.Store
	}
	return nil
}

// SeenURL is a canonical URL with its host key.
type SeenURL = redisstore.SeenURL

// RecordSource reads the records of a crawl. A URL has one record for each round. A new
// round begins when a finished URL is queued again.
type RecordSource interface {
	Lines() iter.Seq2[[]byte, error]
	Trail(id string) ([]record.Record, error)
}

// URLState is the state of one URL and of its host.
type URLState struct {
	explain.Located        // without FPR, More, Robots and HostFailure; Trail is nil if this process cannot read the records
	HostAdded       uint64 // items ever added to its host
	HostMost        uint64 // the limit of HostAdded; 0 means no limit
	HostBlob        []byte // frontier.HostUpdate.Blob, as it is stored for the host; nil means none
}
