package cli

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/explain"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// sharedEngine is a frontier in Redis.
type sharedEngine struct {
	*redisstore.Store
	home *sharedHome
	tier *tier // nil: exact keys are in Redis, or elsewhere
	// exactElsewhere: they are in a Postgres that nobody named, or that does not
	// answer somebody who only looks.
	exactElsewhere bool
	rows           bool // its records are rows
	log            *slog.Logger
}

var _ engine = (*sharedEngine)(nil)

// Err implements upkeep: whatever is wrong with a Redis may pass.
func (*sharedEngine) Err() error { return nil }

// Position implements closeView: no worker has all records.
func (e *sharedEngine) Position(context.Context) (frontier.Position, error) {
	return nil, errors.New("a worker has a part of the records only: see crawler export")
}

// Probe implements filterView. The deadline of ctx is that of the connection too,
// where it may come first: what was probed until then counts.
func (e *sharedEngine) Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error) {
	claimed, probes, err = e.Store.Probe(ctx, n)
	if end, limited := ctx.Deadline(); limited && !time.Now().Before(end) && errors.Is(err, frontier.ErrUnavailable) {
		err = nil
	}
	return claimed, probes, err
}

func (e *sharedEngine) know(ctx context.Context, urls []knownURL) (fresh int, err error) {
	known := make([]redisstore.Known, len(urls))
	for i, u := range urls {
		known[i] = redisstore.Known{Host: u.host, URL: u.url}
	}
	return e.Know(ctx, known)
}

// sharing implements upkeep.
func (e *sharedEngine) sharing(ctx context.Context) (*sharing, error) {
	all, err := e.Workers(ctx)
	if err != nil {
		return nil, err
	}
	losses, err := e.Lost(ctx)
	if err != nil {
		return nil, err
	}
	shared := &sharing{Workers: []worker{}}
	for _, w := range all {
		if w.Live {
			shared.Workers = append(shared.Workers, worker{Name: w.Name, Host: w.Host, PID: w.PID, Started: w.Started,
				Silent: w.Silent.Seconds(), Partitions: w.Partitions, Leases: w.Leases})
		}
	}
	for _, loss := range losses {
		shared.Lost += loss.Items
	}
	return shared, nil
}

// journals returns the directories of the crawl's workers that are here; none is
// no error unless they are said to be somewhere.
func (e *sharedEngine) journals() ([]string, error) {
	dirs, err := findJournals([]string{e.home.shelf()})
	if errors.Is(err, fs.ErrNotExist) && e.home.dir == "" {
		return nil, nil
	}
	if err == nil {
		err = e.home.ownsAll(dirs)
	}
	return dirs, err
}

// records implements closeView: those of the workers whose directories are here.
func (e *sharedEngine) records(ctx context.Context) (recordSource, error) {
	if e.rows {
		return e.rowSource(ctx)
	}
	dirs, err := e.journals()
	if err == nil && len(dirs) == 0 {
		err = errors.New("no records here: name what has the workers' directories with --dir")
	}
	return merged{ctx, dirs, waiting(ctx, e)}, err
}

func (e *sharedEngine) rowSource(ctx context.Context) (recordSource, error) {
	if e.tier == nil {
		return nil, errRowsElsewhere(e.home.title())
	}
	return rows{ctx: ctx, set: e.tier.set}, nil
}

func (e *sharedEngine) locate(ctx context.Context, host, url string) (location, error) {
	at, err := e.Locate(ctx, host, url)
	if err != nil {
		return location{}, err
	}
	layers, err := e.FilterLayers(ctx)
	if err != nil {
		return location{}, err
	}
	where := location{
		Status: at.Status, queue: explain.Queue{Ahead: at.Ahead, Waiting: at.Waiting, Delay: at.Delay},
		hostAdded: at.HostAdded, hostMost: at.HostMost, hostBlob: at.HostBlob, layers: make([]explain.Layer, len(at.Claims)),
	}
	for i, known := range at.Claims {
		where.layers[i].Known = known
		if i < len(layers) { // else the partition has grown meanwhile
			where.layers[i].Fill, where.layers[i].FPR = layers[i].Fill, layers[i].FPR
		}
	}
	if err := e.tier.complete(ctx, url, &where.Status); err != nil {
		return location{}, err
	}
	if e.rows {
		if e.tier != nil {
			where.records = rows{ctx: ctx, set: e.tier.set}
		}
		return where, nil
	}
	dirs, err := e.journals()
	if len(dirs) > 0 {
		where.records = merged{ctx, dirs, waiting(ctx, e)}
	}
	return where, err
}
