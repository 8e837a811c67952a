package cli

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/explain"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// home is where the frontier of a crawl is kept: in a directory (local.go), or
// in a Redis that workers share (shared.go).
type home interface {
	// title names the crawl to people, without secrets.
	title() string
	// keeper is what has the settings, as the source of a value.
	keeper() string
	// engineName is what its engine is called when that does not answer; empty: nothing.
	engineName() string
	// arguments name it on a command line, without secrets and without what the
	// command finds in the environment or, if it reads that, in the config file.
	arguments(readsConfig bool) []string
	// fixed returns what was fixed when the crawl was created; nil: there is none yet.
	fixed(ctx context.Context) (frontier.Settings, error)
	// open opens the crawl of a plan. Its errors say what to do.
	open(ctx context.Context, p *plan, o opening) (engine, error)
}

// opening says what a crawl is opened for.
type opening struct {
	purpose purpose
	log     *slog.Logger
	outputs
}

// recordFiles are where records are written: record.Files or a record.Journal.
type recordFiles interface {
	record.Sink
	frontier.Output
	Close() error
}

// purpose is what a crawl is opened for.
type purpose int

const (
	toCrawl      purpose = iota // to crawl; a new one is created
	toLook                      // to ask it; a directory need not be writable
	toSteer                     // to change something beside a worker
	toRebuild                   // to make its filter anew
	toAcceptLoss                // the same, whatever is missing of its records
)

// engine is an open frontier as the commands see it: what the contract has, and
// what only they ask.
type engine interface {
	frontier.Store
	frontier.Scope
	frontier.Quota
	frontier.Inspector
	frontier.Control
	filterView
	closeView
	upkeep
}

// filterView is what an engine tells of its filter.
type filterView interface {
	Hasher() bloomstore.Hasher
	// FilterLayers returns the sizes and the fill of the layers, oldest first.
	FilterLayers(ctx context.Context) ([]frontier.FilterLayer, error)
	// Probe asks for up to n random fingerprints, fewer when ctx ends, and
	// returns how many of them the filter claimed to know.
	Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error)
	// know marks URLs as known without queueing them, and returns how many were new.
	know(ctx context.Context, urls []knownURL) (fresh int, err error)
}

// closeView is what an engine tells of one URL, of its books and of its records.
type closeView interface {
	locate(ctx context.Context, host, url string) (location, error)
	// audit counts the books anew, each term from something else than its counter.
	audit(ctx context.Context) (audit, error)
	// records returns the records that are committed now.
	records(ctx context.Context) (recordSource, error)
	// Position returns where the records end that this process commits.
	Position(ctx context.Context) (frontier.Position, error)
}

// upkeep is an engine in use.
type upkeep interface {
	// Counters returns what Stats does but for the filter: it costs next to nothing.
	Counters(ctx context.Context) (frontier.Stats, error)
	// sharing says who works on the crawl; nil: it is none that many may work on.
	sharing(ctx context.Context) (*sharing, error)
	// exactKeys counts the keys of an exact set beside the engine; nil: there is
	// none, or nobody said where.
	exactKeys(ctx context.Context) (*report.ExactKeys, error)
	// relay brings such a set and the engine together until stop is called.
	relay(ctx context.Context) (stop func())
	// letGo ends a wait for such a set that holds up the engine's end.
	letGo()
	// Err returns why the engine cannot be used any more; nil: it can.
	Err() error
	Close() error
}

// knownURL is a URL that is to be known: canonical, with its host key.
type knownURL struct{ host, url string }

// sharing is what is said of a crawl that workers share.
type sharing struct {
	Workers []worker `json:"workers"` // that live
	// Lost counts URLs that workers were told were added, and of which Redis
	// knows nothing any more.
	Lost uint64 `json:"acknowledged_and_lost"`
}

// worker is one of those that share a crawl.
type worker struct {
	Name       string    `json:"name"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Silent     float64   `json:"silent_seconds"` // since it was last heard of
	Partitions int       `json:"partitions"`     // that it looks after
	Leases     int       `json:"leases"`         // hosts that it holds
}

// recordSource are the records of a crawl, each once for each round of its URL.
type recordSource interface {
	Lines() iter.Seq2[[]byte, error]
	Trail(id string) ([]record.Record, error)
}

// location is where one URL stands, and what stands around it.
type location struct {
	frontier.Status
	queue     explain.Queue
	hostAdded uint64 // items ever added to its host
	hostMost  uint64 // that may be; 0: no limit
	hostBlob  []byte // what the last HostUpdate left; nil: nothing
	layers    []explain.Layer
	known     uint64       // keys of the filter that were never added
	records   recordSource // as of the same moment
}

// leaseTTL is how long a worker may hold a host: longer than two requests of
// the longest kind, unless a test wants another.
func (o *options) leaseTTL() time.Duration {
	return cmp.Or(o.leaseTime, max(time.Minute, 2*o.timeout+10*time.Second))
}
