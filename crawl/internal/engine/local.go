package engine

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/crawl/internal/explain"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Directory is the Place of an embedded crawl.
type Directory struct {
	Path string
	DB   *Database // the database with the crawl's records; nil if no address of a database was given
}

var _ Place = Directory{}

// String implements Place.
func (d Directory) String() string { return d.Path }

// Stored implements Place.
func (d Directory) Stored(context.Context) (*Stored, error) {
	settings, err := localstore.StoredSettings(nil, d.Path)
	if err != nil || settings == nil {
		return nil, err
	}
	version, err := newestVersion(d.Path)
	return &Stored{settings, version, d.Path}, err
}

// OneProcess implements Place.
func (Directory) OneProcess() bool { return true }

// RunDirs implements Place.
func (d Directory) RunDirs() ([]string, error) { return []string{d.Path}, nil }

// Home implements Place.
func (d Directory) Home() string { return d.Path }

// Recreate implements Place: the crawl and its directory are lost together.
func (Directory) Recreate(context.Context) (*LostError, error) { return nil, nil }

// Remove implements Place.
func (d Directory) Remove(context.Context) (keys int, err error) {
	return 0, &LocationError{Crawl: d.String(), Problem: "an embedded crawl is removed with its directory"}
}

// Open implements Place.
func (d Directory) Open(ctx context.Context, c *Config, why Purpose) (*Engine, error) {
	out := &outputs{c: c, dir: d.Path}
	var inRows *rowOutput
	output := func(_ frontier.Identity, position frontier.Position) (frontier.Output, error) {
		return d.openOutput(out, position)
	}
	if c.Rows {
		inRows, output = new(rowOutput), nil
		if why == ToCrawl {
			output = func(crawl frontier.Identity, position frontier.Position) (frontier.Output, error) {
				return inRows.open(ctx, d, out, crawl, position)
			}
		}
	}
	open := localstore.Open
	switch why {
	case ToRebuild:
		open = localstore.Rebuild
	case ToAcceptLoss:
		open, output = localstore.Rebuild, nil
	case ToLook: // missing records do not prevent reading
		open, output = localstore.OpenReadOnly, nil
	}
	store, err := open(localstore.Config{
		Dir: d.Path, Settings: c.Settings, Filter: membits.Config{Capacity: c.Capacity, FPR: c.FPR, Growth: c.Growth, Shards: 64},
		Policy: c.Policy, LeaseTTL: c.LeaseTTL, Windows: c.Windows, Pure: c.Exact.Pure,
		CheckpointAdds: c.CheckpointAdds, CacheBytes: c.Cache, Logger: c.Logger, OpenOutput: output,
	})
	if err != nil {
		err = errors.Join(err, out.close(), inRows.close())
		if errors.Is(err, frontier.ErrLocked) {
			return nil, ErrInUse(d.Path, "crawler")
		}
		return nil, err
	}
	e := &localEngine{Store: store, dir: d.Path, rows: inRows}
	engine := &Engine{Queue: e, Look: e, Change: e, Versions: e, Output: out, close: func() error {
		return errors.Join(store.Close(), out.close(), inRows.close(), e.boxes.close())
	}}
	if why != ToCrawl {
		if err := inRows.inspect(ctx, d, store.ID()); err != nil {
			return nil, errors.Join(err, engine.Close())
		}
	}
	return engine, nil
}

// openOutput opens the files of records and, if needed, those of answers and links.
func (d Directory) openOutput(out *outputs, position frontier.Position) (frontier.Output, error) {
	config := out.c.Records
	config.Dir = d.Path
	config.OpenArchive = func(string) (frontier.Output, error) { return d.openSides(out, position, true) }
	files, err := record.Open(config, position)
	if err != nil {
		return nil, err
	}
	return out.setRecordFiles(files), nil
}

// openSides opens the files of answers and, if the argument edges is true, of links. It
// returns nil if the crawl keeps none.
func (d Directory) openSides(out *outputs, position frontier.Position, edges bool) (frontier.Output, error) {
	part := record.Links.Of(position)
	return out.openSides(d.Path,
		out.c.Save || hasArchive(position), func(c warc.Config) (*warc.Writer, error) { return warc.Open(c, position) },
		edges && (out.c.Edges || len(part) > 0), func(c record.Config) (edgeFiles, error) { return record.Open(c, part) })
}

// RecordsIn returns the path of the newest file of records in dir.
func RecordsIn(dir string) string { return filepath.Join(dir, "pages.jsonl") }

// Locked reports whether a process has dir open. dir is the directory of a crawl or of
// a worker.
func Locked(dir string) (bool, error) {
	card, err := ReadWorkerCard(dir)
	if err != nil {
		return false, err
	}
	if card != nil {
		return journalLocked(dir)
	}
	return localstore.Locked(nil, dir)
}

// Busy implements Place.
func (d Directory) Busy() bool { return localstore.LockedByOther(d.Path) }

// localEngine is an embedded frontier.
type localEngine struct {
	*localstore.Store
	dir   string
	boxes outboxes
	rows  *rowOutput // nil means that the records are in files
}

// Sharing implements Look. An embedded crawl has at most one process.
func (*localEngine) Sharing(context.Context) (*report.Sharing, error) { return nil, nil }

// MarkSeen implements Change.
func (l *localEngine) MarkSeen(ctx context.Context, urls []SeenURL) (fresh int, err error) {
	prints := make([]bloomstore.Fingerprint, len(urls))
	for i, u := range urls {
		prints[i] = l.Hasher().Fingerprint(u.URL)
	}
	return l.Store.MarkSeen(ctx, prints)
}

// FilterLayers implements Look.
func (l *localEngine) FilterLayers(context.Context) ([]frontier.FilterLayer, error) {
	return l.Store.FilterLayers(), nil
}

// StopRequested implements Queue. The process of an embedded crawl is stopped through its socket.
func (*localEngine) StopRequested() <-chan struct{} { return nil }

// StopWorkers implements Change.
func (*localEngine) StopWorkers(context.Context) (left, died []redisstore.Worker, err error) {
	return nil, nil, errors.New("an embedded crawl has no other workers")
}

// ExactElsewhere implements Look.
func (*localEngine) ExactElsewhere() bool { return false }

// ReconcileSet implements Change.
func (*localEngine) ReconcileSet(context.Context, bool) (exact.Reconciled, error) {
	return exact.Reconciled{}, errNoSet
}

// Journals implements Look.
func (*localEngine) Journals(context.Context) ([]Journal, error) { return nil, nil }

// OutboxOf implements Look.
func (*localEngine) OutboxOf(Journal) (box Outbox, found bool) { return box, false }

// Note implements Change.
func (*localEngine) Note(context.Context, string, string) error { return nil }

// Notes implements Look.
func (*localEngine) Notes(context.Context) (map[string]string, error) { return nil, nil }

// ReportJournal implements Change.
func (*localEngine) ReportJournal(context.Context, Journal) error { return nil }

// ForgetJournal implements Change.
func (*localEngine) ForgetJournal(context.Context, string, string) error { return nil }

// Export implements Look.
func (l *localEngine) Export(context.Context, record.Export, io.Writer) (record.Exported, error) {
	return record.Exported{}, &LocationError{Crawl: l.dir, Problem: "an embedded crawl has no records of other workers to merge"}
}

// Committed implements Look.
func (l *localEngine) Committed() (commits uint64, embedded bool) { return l.Commits(), true }

// ExactKeys implements Look. An embedded crawl has its exact keys in the store.
func (*localEngine) ExactKeys(context.Context) (*report.ExactKeys, error) { return nil, nil }

// Forward implements Queue.
func (*localEngine) Forward(context.Context) (stop func()) { return func() {} }

// CancelWait implements Queue.
func (l *localEngine) CancelWait() { l.rows.cancelWait() }

// CommittedRecords implements Look.
func (l *localEngine) CommittedRecords(ctx context.Context) (RecordSource, error) {
	if l.rows != nil {
		return l.rows.records(ctx, l.dir)
	}
	end, err := l.Position(ctx)
	return record.Reader{Dir: l.dir, End: end}, err
}

// LocateURL implements Look.
func (l *localEngine) LocateURL(ctx context.Context, host, url string) (URLState, error) {
	at, err := l.Locate(ctx, host, url)
	if err != nil {
		return URLState{}, err
	}
	where := URLState{HostAdded: at.HostAdded, HostMost: at.HostMost, HostBlob: at.HostBlob, Located: explain.Located{
		Status: at.Status, Row: new(at.State != frontier.Unknown), Queue: &explain.Queue{Ahead: at.Ahead, Waiting: at.Waiting, Delay: human.Seconds(at.Delay)},
		Given: at.Known, Layers: make([]explain.Layer, len(at.Claims)),
	}}
	if l.rows == nil {
		where.Trail = record.Reader{Dir: l.dir, End: at.Position}.Trail
	} else if l.rows.set != nil {
		where.Trail = rows{ctx: ctx, set: l.rows.set}.Trail
	}
	layers := l.Store.FilterLayers() // the filter might have grown, or dropped a generation, meanwhile
	where.Layers = where.Layers[:min(len(layers), len(at.Claims))]
	for i, layer := range layers[:len(where.Layers)] {
		where.Layers[i] = explain.Layer{Known: at.Claims[i], Fill: layer.Fill, FPR: layer.FPR}
	}
	return where, nil
}

// RowsOf implements Place.
func (d Directory) RowsOf(ctx context.Context) (_ RecordSource, closeRows func(), err error) {
	set, err := d.storedRows(ctx)
	if err != nil {
		return nil, nil, err
	}
	return rows{ctx: ctx, set: set}, set.Close, nil
}

// storedRows opens the rows of the crawl.
func (d Directory) storedRows(ctx context.Context) (*pgstore.Store, error) {
	id, err := localstore.StoredID(nil, d.Path)
	if err == nil && d.DB == nil {
		err = errElsewhere(d.Path, "records")
	}
	if err != nil {
		return nil, err
	}
	return d.DB.inspect(ctx, rowsName(id))
}
