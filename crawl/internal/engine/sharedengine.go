package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/explain"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// sharedEngine is a frontier in Redis.
type sharedEngine struct {
	*redisstore.Store
	home *Server
	id   string // of the crawl
	tier *tier  // nil: exact keys are in Redis, or elsewhere
	// exactElsewhere: they are in a Postgres that nobody named, or that does not
	// answer somebody who only looks.
	exactElsewhere bool
	rows           bool // its records are rows
	log            *slog.Logger
}

// Err implements Upkeep: whatever is wrong with a Redis may pass.
func (*sharedEngine) Err() error { return nil }

// Position implements Books: no worker has all records.
func (e *sharedEngine) Position(context.Context) (frontier.Position, error) {
	return nil, errors.New("a worker has a part of the records only: see crawler export")
}

// Probe implements Filter. The deadline of ctx is that of the connection too,
// where it may come first: what was probed until then counts.
func (e *sharedEngine) Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error) {
	claimed, probes, err = e.Store.Probe(ctx, n)
	if end, limited := ctx.Deadline(); limited && !time.Now().Before(end) && errors.Is(err, frontier.ErrUnavailable) {
		err = nil
	}
	return claimed, probes, err
}

// MarkSeen implements Filter.
func (e *sharedEngine) MarkSeen(ctx context.Context, urls []SeenURL) (fresh int, err error) {
	known := make([]redisstore.Known, len(urls))
	for i, u := range urls {
		known[i] = redisstore.Known{Host: u.Host, URL: u.URL}
	}
	return e.Know(ctx, known)
}

// Sharing implements Upkeep.
func (e *sharedEngine) Sharing(ctx context.Context) (*report.Sharing, error) {
	all, err := e.Workers(ctx)
	if err != nil {
		return nil, err
	}
	losses, err := e.Lost(ctx)
	if err != nil {
		return nil, err
	}
	shared := &report.Sharing{Workers: []report.Worker{}}
	for _, w := range all {
		if w.Live {
			shared.Workers = append(shared.Workers, report.Worker{Name: w.Name, Host: w.Host, PID: w.PID, Started: w.Started,
				Silent: w.Silent.Seconds(), Partitions: w.Partitions, Leases: w.Leases})
		}
	}
	for _, loss := range losses {
		shared.Lost += loss.Items
	}
	return shared, nil
}

// ownsAll refuses workers' directories of other crawls.
func (e *sharedEngine) ownsAll(dirs []string) (err error) {
	for _, dir := range dirs {
		_, fault := workerCard{workerFormat, e.home.Name, e.id}.check(dir)
		err = errors.Join(err, fault)
	}
	return err
}

// journals returns the directories of the crawl's workers that are here; none is
// no error unless they are said to be somewhere.
func (e *sharedEngine) journals() ([]string, error) {
	dirs, err := FindJournals([]string{e.home.Workers()})
	if errors.Is(err, fs.ErrNotExist) && e.home.Dir == "" {
		return nil, nil
	}
	if err == nil {
		err = e.ownsAll(dirs)
	}
	return dirs, err
}

// CommittedRecords implements Books: those of the workers whose directories are here.
func (e *sharedEngine) CommittedRecords(ctx context.Context) (RecordSource, error) {
	if e.rows {
		return e.rowSource(ctx)
	}
	dirs, err := e.journals()
	if err == nil && len(dirs) == 0 {
		err = errors.New("no records here: name what has the workers' directories with --dir")
	}
	return merged{ctx, dirs, waiting(ctx, e), false}, err
}

func (e *sharedEngine) rowSource(ctx context.Context) (RecordSource, error) {
	if e.tier == nil {
		return nil, errRowsElsewhere(e.home.String())
	}
	return rows{ctx: ctx, set: e.tier.set}, nil
}

// LocateURL implements Books.
func (e *sharedEngine) LocateURL(ctx context.Context, host, url string) (URLState, error) {
	at, err := e.Locate(ctx, host, url)
	if err != nil {
		return URLState{}, err
	}
	layers, err := e.FilterLayers(ctx)
	if err != nil {
		return URLState{}, err
	}
	where := URLState{
		Status: at.Status, Queue: explain.Queue{Ahead: at.Ahead, Waiting: at.Waiting, Delay: at.Delay},
		HostAdded: at.HostAdded, HostMost: at.HostMost, HostBlob: at.HostBlob, Layers: make([]explain.Layer, len(at.Claims)),
	}
	for i, known := range at.Claims {
		where.Layers[i].Known = known
		if i < len(layers) { // else the partition has grown meanwhile
			where.Layers[i].Fill, where.Layers[i].FPR = layers[i].Fill, layers[i].FPR
		}
	}
	if err := e.tier.complete(ctx, url, &where.Status); err != nil {
		return URLState{}, err
	}
	if e.rows {
		if e.tier != nil {
			where.Records = rows{ctx: ctx, set: e.tier.set}
		}
		return where, nil
	}
	dirs, err := e.journals()
	if len(dirs) > 0 {
		where.Records = merged{ctx, dirs, waiting(ctx, e), false}
	}
	return where, err
}

// Export merges the records of workers, but for items that the crawl has not
// finished.
func (e *Engine) Export(ctx context.Context, all record.Export, w io.Writer) (record.Exported, error) {
	if err := e.shared.ownsAll(all.Dirs); err != nil {
		return record.Exported{}, err
	}
	all.Pending = waiting(ctx, e.shared)
	return all.To(ctx, w)
}
