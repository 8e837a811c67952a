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
	"github.com/bloomfrontier/crawler/internal/human"
)

// sharedEngine is a frontier in Redis.
type sharedEngine struct {
	*redisstore.Store
	server *Server
	id     string     // id of the crawl
	wait   int        // replicas that must have a change of the policy; 0 means none
	dir    string     // directory of this worker's records; empty if this process does not crawl
	exact  *exactKeys // nil means that the exact keys are in Redis, unless exactElsewhere is set
	// exactElsewhere reports that the exact keys are in Postgres. If it is true and exact
	// is nil, the address of Postgres was not given, or Postgres did not answer when the
	// crawl was opened. For a worker, exactElsewhere is always false.
	exactElsewhere bool
	rows           bool // the records are rows
	boxes          outboxes
	journal        *record.Journal // journal of a worker with records in files; otherwise nil
	workerEnd      func(ctx context.Context, dir string) (frontier.Position, error)
	log            *slog.Logger
}

// Err implements Queue. An outage of Redis is temporary, so Err returns nil.
func (*sharedEngine) Err() error { return nil }

// Position implements Look. For a worker with records in files, Position returns the result
// of record.Journal.Answered. Each record before this position counts, unless a later line of
// the journal cancels the record, or the journal lists it as in doubt. For any other process,
// Position returns an error.
func (e *sharedEngine) Position(context.Context) (frontier.Position, error) {
	if e.journal == nil {
		return nil, errors.New("only a worker with records in files has a position: see crawler export")
	}
	return e.journal.Answered()
}

// Probe implements Look. If the deadline of ctx ends a call to Redis, Probe returns
// the counts of the calls before it, and no error.
func (e *sharedEngine) Probe(ctx context.Context, n uint64) (claimed, probes uint64, err error) {
	claimed, probes, err = e.Store.Probe(ctx, n)
	if end, limited := ctx.Deadline(); limited && !time.Now().Before(end) && errors.Is(err, frontier.ErrUnavailable) {
		err = nil
	}
	return claimed, probes, err
}

// Sharing implements Look.
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
		shared.Lost += loss.Items - loss.FoundAgain
		shared.FoundAgain += loss.FoundAgain
	}
	return shared, nil
}

// card returns the card of the directories of this crawl's workers.
func (e *sharedEngine) card() workerCard {
	return workerCard{Format: workerFormat, Crawl: e.server.Name, ID: e.id}
}

// ownsAll returns an error if a directory belongs to another crawl.
func (e *sharedEngine) ownsAll(dirs []string) (err error) {
	for _, dir := range dirs {
		_, fault := e.card().check(dir)
		err = errors.Join(err, fault)
	}
	return err
}

// journals returns the directories of the crawl's workers on this machine. It returns
// no error if the default directory does not exist.
func (e *sharedEngine) journals() ([]string, error) {
	dirs, err := FindJournals([]string{e.server.Home()})
	if errors.Is(err, fs.ErrNotExist) && e.server.Dir == "" {
		return nil, nil
	}
	if err == nil {
		err = e.ownsAll(dirs)
	}
	return dirs, err
}

// CommittedRecords implements Look. Records in files are those of the workers'
// directories on this machine.
func (e *sharedEngine) CommittedRecords(ctx context.Context) (RecordSource, error) {
	records, err := e.reachable(ctx)
	switch {
	case records != nil || err != nil:
		return records, err
	case e.rows:
		return nil, errElsewhere(e.server.String(), "records")
	}
	return nil, errors.New("no records here: name the directory of the workers' directories with --dir")
}

// reachable returns the records, or nil if this process cannot read them.
func (e *sharedEngine) reachable(ctx context.Context) (RecordSource, error) {
	if e.rows {
		if e.exact == nil {
			return nil, nil
		}
		return rows{ctx: ctx, set: e.exact.Store}, nil
	}
	dirs, err := e.journals()
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	return merged{ctx: ctx, dirs: dirs, pending: waiting(ctx, e)}, nil
}

// LocateURL implements Look.
func (e *sharedEngine) LocateURL(ctx context.Context, host, url string) (URLState, error) {
	at, err := e.Locate(ctx, host, url)
	if err != nil {
		return URLState{}, err
	}
	layers, err := e.FilterLayers(ctx)
	if err != nil {
		return URLState{}, err
	}
	where := URLState{HostAdded: at.HostAdded, HostMost: at.HostMost, HostBlob: at.HostBlob, Located: explain.Located{
		Status: at.Status, Row: at.Row, Queue: &explain.Queue{Ahead: at.Ahead, Waiting: at.Waiting, Delay: human.Seconds(at.Delay)},
		Layers: make([]explain.Layer, len(at.Claims)),
	}}
	for i, known := range at.Claims {
		where.Layers[i].Known = known
		if i < len(layers) { // otherwise the partition has grown meanwhile
			where.Layers[i].Fill, where.Layers[i].FPR = layers[i].Fill, layers[i].FPR
		}
	}
	records, err := e.reachable(ctx)
	if records != nil {
		where.Trail = records.Trail
	}
	return where, err
}

// Export implements Look.
func (e *sharedEngine) Export(ctx context.Context, all record.Export, w io.Writer) (record.Exported, error) {
	if err := e.ownsAll(all.Dirs); err != nil {
		return record.Exported{}, err
	}
	all.Pending = waiting(ctx, e)
	return all.To(ctx, w)
}

// FilterBytes implements Look. The filter is in Redis.
func (*sharedEngine) FilterBytes() uint64 { return 0 }

// Committed implements Look.
func (*sharedEngine) Committed() (commits uint64, embedded bool) { return 0, false }

// Recheck implements Change.
func (e *sharedEngine) Recheck(ctx context.Context, items []frontier.Finished) (int, error) {
	return e.Revisit(ctx, items)
}

// AcceptRecordLoss implements Change.
func (e *sharedEngine) AcceptRecordLoss(context.Context) (*Loss, error) {
	return nil, ErrSharedLoss(e.server.String())
}
