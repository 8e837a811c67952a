package engine

import (
	"context"
	"errors"
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
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Directory is the Backend of an embedded crawl.
type Directory struct {
	Path string
	DB   *Database // the database with the crawl's records; nil if no address of a database was given
}

var _ Backend = Directory{}

// String implements Backend.
func (d Directory) String() string { return d.Path }

// Stored implements Backend.
func (d Directory) Stored(context.Context) (frontier.Settings, error) {
	return localstore.StoredSettings(nil, d.Path)
}

// Own implements Backend.
func (d Directory) Own(context.Context) (dir string, err error) { return d.Path, nil }

// Open implements Backend.
func (d Directory) Open(ctx context.Context, c *Config, why Purpose) (*Engine, error) {
	out := &outputs{c: c, Dir: d.Path}
	var inRows *rowOutput
	output := func(_ frontier.Identity, position frontier.Position) (frontier.Output, error) {
		return d.openOutput(out, position)
	}
	if c.Rows {
		inRows, output = new(rowOutput), nil
		if why == Crawl {
			output = func(crawl frontier.Identity, position frontier.Position) (frontier.Output, error) {
				return inRows.open(ctx, d, out, crawl, position)
			}
		}
	}
	open := localstore.Open
	switch why {
	case Rebuild:
		open = localstore.Rebuild
	case AcceptLoss:
		open, output = localstore.Rebuild, nil
	case Look: // missing records do not prevent reading
		open, output = localstore.OpenReadOnly, nil
	}
	store, err := open(localstore.Config{
		Dir: d.Path, Settings: c.Settings, Filter: membits.Config{Capacity: c.FilterCapacity, FPR: c.FPR, Growth: c.Growth, Shards: 64},
		Policy: c.Policy, LeaseTTL: c.LeaseTTL, Windows: c.Windows,
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
	engine := &Engine{Store: e, Scope: e, Quota: e, Inspector: e, Control: e, Filter: e, Books: e, Upkeep: e, outputs: out, local: e}
	if why != Crawl {
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

// Creating reports whether a process is creating a crawl in the directory.
func (d Directory) Creating() bool { return localstore.LockedByOther(d.Path) }

// LockedByOther reports whether another process has the directory of an embedded crawl open.
func LockedByOther(backend Backend) bool {
	d, embedded := backend.(Directory)
	return embedded && d.Creating()
}

// localEngine is an embedded frontier.
type localEngine struct {
	*localstore.Store
	dir   string
	boxes outboxes
	rows  *rowOutput // nil means that the records are in files
}

// Sharing implements Upkeep. An embedded crawl has at most one process.
func (*localEngine) Sharing(context.Context) (*report.Sharing, error) { return nil, nil }

// MarkSeen implements Filter.
func (l *localEngine) MarkSeen(ctx context.Context, urls []SeenURL) (fresh int, err error) {
	prints := make([]bloomstore.Fingerprint, len(urls))
	for i, u := range urls {
		prints[i] = l.Hasher().Fingerprint(u.URL)
	}
	return l.Store.MarkSeen(ctx, prints)
}

// FilterLayers implements Filter.
func (l *localEngine) FilterLayers(context.Context) ([]frontier.FilterLayer, error) {
	return l.Store.FilterLayers(), nil
}

// StopRequested implements Upkeep. The process of an embedded crawl is stopped through its socket.
func (*localEngine) StopRequested() <-chan struct{} { return nil }

// StopWorkers implements Upkeep.
func (*localEngine) StopWorkers(context.Context) (left, died []redisstore.Worker, err error) {
	return nil, nil, errors.New("an embedded crawl has no other workers")
}

// ExactKeys implements Upkeep. An embedded crawl has its exact keys in the store.
func (*localEngine) ExactKeys(context.Context) (*report.ExactKeys, error) { return nil, nil }

// Forward implements Upkeep.
func (*localEngine) Forward(context.Context) (stop func()) { return func() {} }

// CancelWait implements Upkeep.
func (l *localEngine) CancelWait() { l.rows.cancelWait() }

// CommittedRecords implements Books.
func (l *localEngine) CommittedRecords(ctx context.Context) (RecordSource, error) {
	if l.rows != nil {
		return l.rows.records(ctx, l.dir)
	}
	end, err := l.Position(ctx)
	return record.Reader{Dir: l.dir, End: end}, err
}

// LocateURL implements Books.
func (l *localEngine) LocateURL(ctx context.Context, host, url string) (URLState, error) {
	at, err := l.Locate(ctx, host, url)
	if err != nil {
		return URLState{}, err
	}
	where := URLState{HostAdded: at.HostAdded, HostMost: at.HostMost, HostBlob: at.HostBlob, Located: explain.Located{
		Status: at.Status, Queue: &explain.Queue{Ahead: at.Ahead, Waiting: at.Waiting, Delay: human.Seconds(at.Delay)},
		Given: at.Known, Layers: make([]explain.Layer, len(at.Claims)),
	}}
	if l.rows == nil {
		where.Trail = record.Reader{Dir: l.dir, End: at.Position}.Trail
	} else if l.rows.set != nil {
		where.Trail = rows{ctx: ctx, set: l.rows.set}.Trail
	}
	for i, layer := range l.Store.FilterLayers()[:len(at.Claims)] { // the filter might have grown meanwhile
		where.Layers[i] = explain.Layer{Known: at.Claims[i], Fill: layer.Fill, FPR: layer.FPR}
	}
	return where, nil
}

// RowsOf opens the records of an embedded crawl whose records are in Postgres. It does not
// open the crawl.
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
