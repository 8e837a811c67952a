package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/explain"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
)

// directory is the home of a crawl that one process runs, without a server that
// it could not do without.
type directory struct {
	path string
	db   *database // that has its records; nil: nobody named one
}

var _ home = directory{}

func (d directory) title() string      { return d.path }
func (d directory) keeper() string     { return crawlFile }
func (d directory) engineName() string { return "" }

func (d directory) arguments(readsConfig bool) []string {
	return append([]string{"--dir", shellQuote(d.path)}, d.db.arguments(readsConfig)...)
}

func (d directory) fixed(context.Context) (frontier.Settings, error) {
	return localstore.StoredSettings(nil, d.path)
}

func (d directory) open(ctx context.Context, p *plan, o opening) (engine, error) {
	open := localstore.Open
	var inRows *rowOutput
	output := func(position frontier.Position) (frontier.Output, error) { return d.openOutput(p, o.outputs, position) }
	if p.sink == sinkPostgres {
		inRows = new(rowOutput)
		output = func(position frontier.Position) (frontier.Output, error) {
			return inRows.open(d, p, o.outputs, position)
		}
	}
	switch o.purpose {
	case toRebuild:
		open = localstore.Rebuild
	case toAcceptLoss:
		open, output = localstore.Rebuild, nil
	case toLook: // records of which a part is missing are no reason not to
		open, output = localstore.OpenReadOnly, nil
	}
	store, err := open(localstore.Config{
		Dir: d.path, Settings: p.directorySettings(), Filter: p.localFilter(),
		Delay: orNone(p.delay, localstore.NoDelay), LeaseTTL: p.leaseTTL(),
		MaxPerHost: uint64(p.maxPerHost), Windows: p.windows, Hosts: p.localLimits, CheckpointAdds: p.checkpoint, Crash: o.crash, Logger: o.log,
		OpenOutput: output,
	})
	if err != nil {
		return nil, d.explain(err)
	}
	e := localEngine{store, d.path, inRows}
	if err := inRows.connect(ctx, d, p, store.ID(), o); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// openOutput opens the files of records, and of answers if there are or shall be any.
func (d directory) openOutput(p *plan, o outputs, position frontier.Position) (_ frontier.Output, err error) {
	config := o.config()
	config.Dir = d.path
	if config.Archive, err = d.openArchive(p, o, position); err != nil {
		return nil, err
	}
	files, err := record.Open(config, position)
	if err != nil {
		return nil, err
	}
	return o.records(files), nil
}

// openArchive opens the files of answers; nil: there are none, nor shall be any.
func (d directory) openArchive(p *plan, o outputs, position frontier.Position) (frontier.Output, error) {
	if p.save == "none" && !hasArchive(position) {
		return nil, nil
	}
	return o.archive(d.path, func(c warc.Config) (*warc.Writer, error) { return warc.Open(c, position) })
}

// explain says what to do about a directory that cannot be opened.
func (d directory) explain(err error) error {
	var settings *frontier.SettingsError
	var missing *record.MissingError
	switch {
	case errors.As(err, &missing) && missing.Name == recordsIn(d.path):
		err = fmt.Errorf("%w\nput the file back, or '%s' says how many and goes on without them",
			err, place{d, d.path}.command("rebuild --accept-loss"))
	case errors.As(err, &settings):
		return usage(fmt.Errorf("%s was created with other settings, which are fixed:\n%s\n"+
			"leave them out to resume, or begin another crawl with another --dir", d.path, differences(settings)))
	case errors.Is(err, frontier.ErrLocked):
		return &exitError{exitFailed, fmt.Errorf("%s is in use by another crawler", d.path)}
	}
	return &exitError{exitFailed, err}
}

// locked reports whether a process has the crawl or the worker in dir open.
func locked(dir string) (bool, error) {
	if card, err := readWorkerCard(dir); card != nil || err != nil {
		return journalLocked(dir), err
	}
	return localstore.Locked(nil, dir)
}

func (o *options) localFilter() membits.Config {
	growth := membits.GrowthOn
	if !o.growth {
		growth = membits.GrowthOff
	}
	return membits.Config{Capacity: uint64(o.urls), FPR: float64(o.fpr), Growth: growth, Shards: 64}
}

func (l *layers) localLimits(host string) localstore.HostLimits {
	delay, most := l.hostLimits(host)
	return localstore.HostLimits{Delay: delay, MaxPerHost: most}
}

// localEngine is an embedded frontier.
type localEngine struct {
	*localstore.Store
	dir  string
	rows *rowOutput // nil: its records are files
}

var _ engine = localEngine{}

// sharing implements upkeep: there is one process at most.
func (localEngine) sharing(context.Context) (*sharing, error) { return nil, nil }

func (l localEngine) know(ctx context.Context, urls []knownURL) (fresh int, err error) {
	prints := make([]bloomstore.Fingerprint, len(urls))
	for i, u := range urls {
		prints[i] = l.Hasher().Fingerprint(u.url)
	}
	return l.Know(ctx, prints)
}

func (l localEngine) FilterLayers(context.Context) ([]frontier.FilterLayer, error) {
	return l.Store.FilterLayers(), nil
}

// exactKeys implements upkeep: they are in the store itself.
func (localEngine) exactKeys(context.Context) (*report.ExactKeys, error) { return nil, nil }

// relay implements upkeep.
func (localEngine) relay(context.Context) (stop func()) { return func() {} }

// letGo implements upkeep.
func (l localEngine) letGo() { l.rows.letGo() }

// Close implements upkeep.
func (l localEngine) Close() error {
	l.letGo()
	return errors.Join(l.Store.Close(), l.rows.close())
}

func (l localEngine) records(ctx context.Context) (recordSource, error) {
	if l.rows != nil {
		return l.rows.source(ctx, l.dir)
	}
	end, err := l.Position(ctx)
	return record.Reader{Dir: l.dir, End: end}, err
}

func (l localEngine) locate(ctx context.Context, host, url string) (location, error) {
	at, err := l.Locate(ctx, host, url)
	if err != nil {
		return location{}, err
	}
	where := location{
		Status: at.Status, queue: explain.Queue{Ahead: at.Ahead, Waiting: at.Waiting, Delay: at.Delay},
		hostAdded: at.HostAdded, hostMost: at.HostMost, hostBlob: at.HostBlob, known: at.Known,
		layers: make([]explain.Layer, len(at.Claims)),
	}
	if l.rows == nil {
		where.records = record.Reader{Dir: l.dir, End: at.Position}
	} else if l.rows.set != nil {
		where.records = rows{ctx: ctx, set: l.rows.set}
	}
	for i, layer := range l.Store.FilterLayers()[:len(at.Claims)] { // it may have grown meanwhile
		where.layers[i] = explain.Layer{Known: at.Claims[i], Fill: layer.Fill, FPR: layer.FPR}
	}
	return where, nil
}
