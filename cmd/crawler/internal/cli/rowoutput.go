package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/exact"
	"github.com/bloomfrontier/crawler/frontier/pgstore"
)

// rowOutput is the output of an embedded store whose records are rows of a
// Postgres. It is opened by the store, and connected once that has said which
// crawl it is. A nil one belongs to a store whose records are files.
type rowOutput struct {
	lateOutput
	answers frontier.Output // nil: none are kept
	set     *pgstore.Store  // nil: nobody said where it is
	hold    chan struct{}   // closed when Postgres is waited for no more
	release func()
}

func (r *rowOutput) open(d directory, p *plan, o outputs, position frontier.Position) (_ frontier.Output, err error) {
	r.answers, err = d.openArchive(p, o, position)
	return r, err
}

// Sync implements frontier.Output. What it gives up is final for the store: an
// error that says so must not look like one that passes.
func (r *rowOutput) Sync() (frontier.Position, error) {
	end, err := r.lateOutput.Sync()
	if errors.Is(err, frontier.ErrUnavailable) {
		err = errors.New(err.Error())
	}
	return end, err
}

// connect opens the crawl's rows. Who only looks can do without.
func (r *rowOutput) connect(ctx context.Context, d directory, p *plan, id [16]byte, o opening) (err error) {
	if r == nil {
		return nil
	}
	name := rowsName(id)
	switch {
	case d.db == nil && o.purpose == toCrawl:
		return errRowsElsewhere(d.title())
	case d.db == nil:
		return nil
	case o.purpose != toCrawl:
		r.set, err = d.db.inspect(ctx, name)
		return err
	}
	if r.set, err = d.db.open(ctx, p, pgstore.Config{Crawl: name, Identity: name}); err != nil {
		return err
	}
	r.hold = make(chan struct{})
	r.release = sync.OnceFunc(func() { close(r.hold) })
	output := exact.NewOutput(exact.OutputConfig{
		Set: exact.NewBreaker(r.set, 0), Files: r.answers, Rows: true, Hold: r.hold, Crash: o.crash,
	})
	r.Output = o.records(rowFiles{rowSink{output}, noFiles{}})
	return nil
}

// rowsName is what Postgres calls an embedded crawl: by its id, for a directory
// can be moved.
func rowsName(id [16]byte) string { return hex.EncodeToString(id[:]) }

// letGo ends a wait for Postgres that holds up the store: what it was about to
// complete is completed by another run.
func (r *rowOutput) letGo() {
	if r != nil && r.release != nil {
		r.release()
	}
}

func (r *rowOutput) close() error {
	if r != nil && r.set != nil {
		r.set.Close()
	}
	return nil
}

// source returns the records of the crawl in dir.
func (r *rowOutput) source(ctx context.Context, dir string) (recordSource, error) {
	if r.set == nil {
		return nil, errRowsElsewhere(dir)
	}
	return rows{ctx: ctx, set: r.set}, nil
}

// noFiles closes nothing.
type noFiles struct{}

func (noFiles) Close() error { return nil }
