package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/files"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/localstore"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Outbox has the events of a crawl, or those of one worker of a crawl in Redis,
// and the progress of the relays that deliver them.
type Outbox struct {
	Crawl string // id of the crawl
	// Worker is the name of the worker's directory. It is empty for the outbox of
	// the whole crawl.
	Worker string
	// Journal is the id of the worker's directory, and Dir is its absolute path. Both are
	// empty for the outbox of the whole crawl.
	Journal, Dir string
	events.Outbox
	events.Progress
}

// StoredPosition returns the end of the committed records of the crawl in dir. It
// returns frontier.ErrLocked while a process has the crawl open.
func StoredPosition(dir string) (frontier.Position, error) {
	return localstore.StoredPosition(nil, dir)
}

// outboxes are the open outboxes over files, by directory. They are kept, because an
// outbox remembers how far it has read. The zero value has none.
type outboxes struct {
	mu   sync.Mutex
	open map[string]*files.Outbox
}

// outboxOf returns the outbox over the files of config.Dir.
func (o *outboxes) outboxOf(crawl, worker string, config files.Config) Outbox {
	o.mu.Lock()
	defer o.mu.Unlock()
	box := o.open[config.Dir]
	if box == nil {
		config.Source = events.Source(crawl)
		box = files.New(config)
		if o.open == nil {
			o.open = make(map[string]*files.Outbox)
		}
		o.open[config.Dir] = box
	}
	return Outbox{Crawl: crawl, Worker: worker, Outbox: box, Progress: files.NewProgress(config.Dir)}
}

// close closes the files.
func (o *outboxes) close() (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, box := range o.open {
		err = errors.Join(err, box.Close())
	}
	return err
}

// Outbox implements Place.
func (d Directory) Outbox(ctx context.Context, inRows bool, committedEnd func(context.Context) (frontier.Position, error)) (box Outbox, release func() error, err error) {
	newest := func(context.Context) (*Version, error) { return newestVersion(d.Path) }
	if inRows {
		set, err := d.storedRows(ctx)
		if err != nil {
			return box, nil, err
		}
		return guard(rowsOf(set), newest), func() error { set.Close(); return nil }, nil
	}
	id, err := localstore.StoredID(nil, d.Path)
	if err != nil {
		return box, nil, err
	}
	boxes := new(outboxes)
	return guard(boxes.outboxOf(hex.EncodeToString(id[:]), "", files.Config{Dir: d.Path, End: committedEnd}), newest), boxes.close, nil
}

// Outboxes implements Look.
func (l *localEngine) Outboxes(context.Context) ([]Outbox, error) {
	if l.rows == nil {
		id := l.ID()
		return []Outbox{guard(l.boxes.outboxOf(hex.EncodeToString(id[:]), "", files.Config{Dir: l.dir, End: l.Position}), l.NewestVersion)}, nil
	}
	if l.rows.set == nil {
		return nil, errElsewhere(l.dir, "records")
	}
	return []Outbox{guard(rowsOf(l.rows.set), l.NewestVersion)}, nil
}

// Outboxes implements Look. For records in files, a worker returns the outbox of its
// own records. A process that does not crawl returns one for each worker's directory
// on this machine.
func (e *sharedEngine) Outboxes(context.Context) (boxes []Outbox, err error) {
	switch {
	case e.rows && e.exact == nil && e.server.DB != nil: // Postgres did not answer when the crawl was opened
		return nil, e.server.DB.explain(fmt.Errorf("its records are there: %w", frontier.ErrUnavailable))
	case e.rows && e.exact == nil:
		return nil, errElsewhere(e.server.String(), "records")
	case e.rows:
		return []Outbox{guard(rowsOf(e.exact.Store), e.NewestVersion)}, nil
	case e.dir != "":
		return []Outbox{e.journalOf(e.dir)}, nil
	}
	dirs, err := FindJournals([]string{e.server.Home()})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoJournal) {
		return nil, nil // no worker has begun yet
	}
	if err == nil {
		err = e.ownsAll(dirs)
	}
	for _, dir := range dirs {
		boxes = append(boxes, e.journalOf(dir))
	}
	return boxes, err
}

// journalOf returns the outbox of a worker's directory.
func (e *sharedEngine) journalOf(dir string) Outbox {
	config := files.Config{Dir: dir, Journal: true, Pending: e.pending, End: e.Position}
	if dir != e.dir {
		config.End = func(ctx context.Context) (frontier.Position, error) { return e.workerEnd(ctx, dir) }
	}
	box := e.boxes.outboxOf(e.id, filepath.Base(dir), config)
	if card, err := ReadWorkerCard(dir); err == nil && card != nil {
		box.Journal = card.Journal
	}
	box.Dir = dir
	if abs, err := filepath.Abs(dir); err == nil {
		box.Dir = abs
	}
	return guard(box, e.NewestVersion)
}

// pending implements files.Config.Pending: it reports whether the item of a URL is queued
// or leased in the given round or an earlier one.
func (e *sharedEngine) pending(ctx context.Context, host, url string, _ bloomstore.Fingerprint, round uint32) (bool, error) {
	at, waits, err := e.Pending(ctx, host, url)
	return waits && at <= round, err
}

// rowsOf returns the outbox of a crawl whose records are rows.
func rowsOf(set *pgstore.Store) Outbox {
	box := pgstore.Outbox{Store: set}
	return Outbox{Crawl: set.Identity(), Outbox: box, Progress: box}
}
