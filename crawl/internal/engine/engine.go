// Package engine opens the frontier of a crawl with what stands beside it: the
// embedded one in a directory, or the shared one in a Redis, with records in
// files or in Postgres.
//
// It owns the order in which stores and outputs are opened and closed, the audit,
// the rebuild, and where the records of a crawl are. It does not own settings,
// seeds, workers or processes that talk to each other (package crawl).
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
	"github.com/bloomfrontier/crawler/internal/exact"
)

// Purpose is what a crawl is opened for.
type Purpose int

// Purposes.
const (
	Crawl      Purpose = iota // to crawl; a new crawl is created
	Look                      // to ask it; a directory need not be writable
	Steer                     // to change something beside a worker
	Rebuild                   // to make its filter again
	AcceptLoss                // the same, whatever is missing of its records
)

// Config says what a crawl is opened with.
type Config struct {
	Settings frontier.Settings // of this process, to be compared or stored
	Stored   frontier.Settings // nil: a new crawl

	Canon    *canon.Canonicalizer
	Scope    canon.ScopeMode
	MaxHosts uint64 // of one domain; 0: no limit
	Exact    *exact.Rules
	Windows  exact.Windows

	FilterURLs uint64
	FPR        float64
	Growth     bool

	Delay      time.Duration // 0: none
	LeaseTTL   time.Duration
	MaxPerHost uint64                                                  // 0: no limit
	Limits     func(host string) (delay time.Duration, maxURLs uint64) // of one host; 0: as of all
	MaxQueued  uint64                                                  // of a crawl in Redis; 0: no limit
	Partitions int
	Wait       int
	Worker     string

	Rows    bool          // records are rows of a Postgres
	Records record.Config // without Dir and Archive
	Stream  io.Writer     // gets records too; nil: nothing does
	Save    bool          // answers are kept
	Archive warc.Config   // without Dir
	Edges   bool          // links are kept, in files beside those of records

	CheckpointAdds int
	Cache          int64 // bytes of an embedded frontier's block cache; 0: its default
	Logger         *slog.Logger
}

// Home is where the frontier of a crawl is kept: a Directory or a Server.
type Home interface {
	// String names the crawl to people, without secrets.
	String() string
	// Stored returns what was fixed when the crawl was created; nil: there is none.
	Stored(ctx context.Context) (frontier.Settings, error)
	// Open opens the crawl.
	Open(ctx context.Context, c *Config, why Purpose) (*Engine, error)
}

// Engine is an open frontier with what stands beside it. It is safe for
// concurrent use.
type Engine struct {
	frontier.Store
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
	Filter
	Books
	Upkeep

	Sink    record.Sink     // where records go; nil: nowhere
	Archive *warc.Writer    // where answers go; nil: nowhere
	Edges   record.EdgeSink // where links go; nil: nowhere
	Dir     string          // that has this process's records; empty: none

	local  *localEngine
	shared *sharedEngine
	output *outputs
}

// Filter is what an engine tells of its filter.
type Filter interface {
	Hasher() bloomstore.Hasher
	// FilterLayers returns the sizes and the fill of the layers, oldest first.
	FilterLayers(ctx context.Context) ([]frontier.FilterLayer, error)
	// Probe asks for up to n random fingerprints, fewer when ctx ends, and
	// returns how many of them the filter claimed to contain.
	Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error)
	// MarkSeen marks URLs as seen without queueing them, and returns how many
	// were new.
	MarkSeen(ctx context.Context, urls []SeenURL) (fresh int, err error)
}

// SeenURL is a canonical URL with its host key.
type SeenURL struct{ Host, URL string }

// Books is what an engine tells of one URL, of its books and of its records.
type Books interface {
	LocateURL(ctx context.Context, host, url string) (URLState, error)
	// CountBooks counts the books anew, each term from something else than its counter.
	CountBooks(ctx context.Context) (report.Audit, error)
	// CommittedRecords returns the records that are committed now.
	CommittedRecords(ctx context.Context) (RecordSource, error)
	// Position returns the end of the records that this process commits.
	Position(ctx context.Context) (frontier.Position, error)
}

// Upkeep is what an engine in use tells and does beside its contract.
type Upkeep interface {
	// Counters returns what Stats does but for the filter, and costs little.
	Counters(ctx context.Context) (frontier.Stats, error)
	// Sharing says who works on the crawl; nil: it is embedded.
	Sharing(ctx context.Context) (*report.Sharing, error)
	// ExactKeys counts the keys of an exact set beside the engine; nil: there is
	// none, or its address was not given.
	ExactKeys(ctx context.Context) (*report.ExactKeys, error)
	// Relay brings such a set and the engine together until stop is called.
	Relay(ctx context.Context) (stop func())
	// CancelWait unblocks a Close that waits for Postgres.
	CancelWait()
	// Err returns why the engine cannot be used any more; nil: it can.
	Err() error
}

// RecordSource are the records of a crawl, each once for each round of its URL.
type RecordSource interface {
	Lines() iter.Seq2[[]byte, error]
	Trail(id string) ([]record.Record, error)
}

// URLState is where one URL stands, and what stands around it.
type URLState struct {
	frontier.Status
	Queue     explain.Queue
	HostAdded uint64 // items ever added to its host
	HostMost  uint64 // that may be; 0: no limit
	HostBlob  []byte // what the last HostUpdate left; nil: nothing
	Layers    []explain.Layer
	Given     uint64       // keys of the filter that were never added
	Records   RecordSource // as of the same moment; nil: they are elsewhere
}

// newEngine composes an Engine of one value that has all its parts.
func newEngine[E interface {
	frontier.Store
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
	Filter
	Books
	Upkeep
}](e E, out *outputs) *Engine {
	engine := &Engine{Store: e, Scope: e, Quota: e, Inspector: e, Control: e, Filter: e, Books: e, Upkeep: e, output: out}
	if out != nil {
		engine.Sink, engine.Archive, engine.Edges, engine.Dir = out.sink, out.archive, out.edges, out.dir
	}
	return engine
}

// Close closes the store, its output, and the connections, in this order.
func (e *Engine) Close() error {
	e.CancelWait()
	if e.local != nil {
		return errors.Join(e.local.Store.Close(), e.output.close(), e.local.rows.close())
	}
	return errors.Join(e.shared.Store.Close(), e.output.close(), e.shared.closeTier())
}

// FilterBytes returns how much of this process's memory the filter takes; it is 0
// for a filter in Redis.
func (e *Engine) FilterBytes() uint64 {
	if e.local == nil {
		return 0
	}
	return e.local.FilterBytes()
}

// Commits returns how often this process committed changes to the embedded store;
// embedded is false for a crawl in Redis.
func (e *Engine) Commits() (commits uint64, embedded bool) {
	if e.local == nil {
		return 0, false
	}
	return e.local.Commits(), true
}

// orNone turns a zero into the constant that asks for none.
func orNone[T comparable](v, none T) T {
	var zero T
	if v == zero {
		return none
	}
	return v
}
