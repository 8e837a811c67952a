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
	"errors"
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
)

// Purpose says why a crawl is opened.
type Purpose int

// Purposes.
const (
	Crawl      Purpose = iota // to crawl; Open creates the crawl if there is none
	Look                      // to read; the directory need not be writable
	Steer                     // to change something while a worker might run
	Rebuild                   // to rebuild the filter
	AcceptLoss                // to rebuild the filter although records are missing
)

// Config configures Backend.Open.
type Config struct {
	Settings frontier.Settings // stored in a new crawl, and otherwise compared with the stored ones
	Stored   frontier.Settings // nil means a new crawl

	Canon    *canon.Canonicalizer
	Scope    canon.ScopeMode
	MaxHosts uint64 // hosts of one domain; 0 means no limit
	Exact    *exact.Rules
	Windows  exact.Windows

	FilterCapacity uint64
	FPR            float64
	Growth         bloomstore.Growth

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

// Backend stores the frontier of a crawl: it is a Directory or a Server.
type Backend interface {
	// String names the crawl to people, without secrets.
	String() string
	// Stored returns the settings that were fixed when the crawl was created, or nil
	// if there is no crawl.
	Stored(ctx context.Context) (frontier.Settings, error)
	// Own returns the directory that a process which opens the crawl to crawl would use as its
	// own. It returns "" if that directory does not belong to the crawl yet.
	Own(ctx context.Context) (dir string, err error)
	// Open opens the crawl.
	Open(ctx context.Context, c *Config, why Purpose) (*Engine, error)
}

// Engine is an open frontier with its outputs. It is safe for concurrent use.
type Engine struct {
	frontier.Store
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
	Filter
	Books
	Upkeep

	*outputs

	local  *localEngine  // nil means that the frontier is in Redis
	shared *sharedEngine // nil means that the frontier is embedded
}

// Filter is the part of an engine that concerns the filter.
type Filter interface {
	Hasher() bloomstore.Hasher
	// FilterLayers returns the sizes and the fill of the layers, oldest first.
	FilterLayers(ctx context.Context) ([]frontier.FilterLayer, error)
	// Probe looks up n random fingerprints, or fewer if ctx ends. It returns how many
	// were looked up, and how many of them the filter claimed to contain.
	Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error)
	// MarkSeen marks URLs as seen without queueing them. It returns how many of them
	// the filter did not contain yet.
	MarkSeen(ctx context.Context, urls []SeenURL) (fresh int, err error)
}

// SeenURL is a canonical URL with its host key.
type SeenURL = redisstore.SeenURL

// Books is the part of an engine that concerns the counters, the records and
// single URLs.
type Books interface {
	LocateURL(ctx context.Context, host, url string) (URLState, error)
	// CountBooks compares the counters of the crawl with a new count.
	CountBooks(ctx context.Context) (report.Audit, error)
	// CommittedRecords returns the records that are committed now.
	CommittedRecords(ctx context.Context) (RecordSource, error)
	// Position returns the end of the records that this process commits.
	Position(ctx context.Context) (frontier.Position, error)
	// Outboxes returns the current outboxes.
	Outboxes(ctx context.Context) ([]Outbox, error)
}

// Upkeep is the part of an engine that a running crawl needs beside its frontier.
type Upkeep interface {
	// Counters returns Stats without the state of the filter. It is cheap.
	Counters(ctx context.Context) (frontier.Stats, error)
	// Sharing returns the workers of the crawl, or nil if it is embedded.
	Sharing(ctx context.Context) (*report.Sharing, error)
	// ExactKeys counts the keys of the exact set, which has a row for each exact URL in
	// Postgres. It returns nil if the crawl has no such set, or if the address of Postgres
	// was not given.
	ExactKeys(ctx context.Context) (*report.ExactKeys, error)
	// Forward exchanges keys between the exact set and the queue until stop is called.
	Forward(ctx context.Context) (stop func())
	// StopRequested returns a channel that is closed when StopWorkers of another process asks this
	// worker to stop. It is nil if the crawl is embedded.
	StopRequested() <-chan struct{}
	// StopWorkers asks all workers of a crawl in Redis to stop, and waits: see redisstore.Store.
	StopWorkers(ctx context.Context) (left, died []redisstore.Worker, err error)
	// CancelWait unblocks a Close that waits for Postgres.
	CancelWait()
	// Err returns the error that made the engine unusable, or nil.
	Err() error
}

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

// Close closes the store, its output, and the connections, in this order.
func (e *Engine) Close() error {
	e.CancelWait()
	if e.local != nil {
		return errors.Join(e.local.Store.Close(), e.outputs.close(), e.local.rows.close(), e.local.boxes.close())
	}
	return errors.Join(e.shared.Store.Close(), e.outputs.close(), e.shared.closeExact(), e.shared.boxes.close())
}

// FilterBytes returns how much of this process's memory the filter takes; it is 0
// for a filter in Redis.
func (e *Engine) FilterBytes() uint64 {
	if e.local == nil {
		return 0
	}
	return e.local.FilterBytes()
}

// Recheck queues finished items of an embedded crawl again: see frontier.Rechecker.
func (e *Engine) Recheck(ctx context.Context, items []frontier.Finished) (int, error) {
	if e.local == nil {
		return 0, errors.ErrUnsupported
	}
	return e.local.Recheck(ctx, items)
}

// Commits returns how often this process committed changes to the embedded store.
// The result embedded is false for a crawl in Redis.
func (e *Engine) Commits() (commits uint64, embedded bool) {
	if e.local == nil {
		return 0, false
	}
	return e.local.Commits(), true
}
