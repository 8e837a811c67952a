package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// rowOutput is the output of an embedded store whose records are rows of a
// Postgres. A nil one belongs to a store whose records are files.
type rowOutput struct {
	frontier.Output
	set     *pgstore.Store // nil: not given
	hold    chan struct{}  // closed when Postgres is waited for no more
	release func()
}

// open opens the crawl's rows, and the files of answers, for a process that
// crawls.
func (r *rowOutput) open(ctx context.Context, d Directory, out *outputs, crawl frontier.Identity, position frontier.Position) (frontier.Output, error) {
	if d.DB == nil {
		return nil, errRowsElsewhere(d.Path)
	}
	answers, err := d.openArchive(out, position)
	if err != nil {
		return nil, err
	}
	if r.set, err = d.DB.open(ctx, pgstore.Config{Crawl: crawl.ID, Identity: crawl.ID}); err != nil {
		return nil, err
	}
	r.hold = make(chan struct{})
	r.release = sync.OnceFunc(func() { close(r.hold) })
	output := exact.NewOutput(exact.OutputConfig{
		Set: exact.NewBreaker(r.set, 0), Files: answers, Rows: true, Hold: r.hold,
	})
	r.Output = out.records(rowFiles{rowSink{output}, noFiles{}})
	return r, nil
}

// inspect opens the crawl's rows for a process that does not crawl, which can do
// without them.
func (r *rowOutput) inspect(ctx context.Context, d Directory, id [16]byte) (err error) {
	if r != nil && d.DB != nil {
		r.set, err = d.DB.inspect(ctx, rowsName(id))
	}
	return err
}

// Sync implements frontier.Output. What it gives up is final for the store: an
// error that says so must not look like one that passes.
func (r *rowOutput) Sync() (frontier.Position, error) {
	end, err := r.Output.Sync()
	if errors.Is(err, frontier.ErrUnavailable) {
		err = errors.New(err.Error())
	}
	return end, err
}

// rowsName is what Postgres calls an embedded crawl: by its id, for a directory
// can be moved.
func rowsName(id [16]byte) string { return hex.EncodeToString(id[:]) }

// cancelWait unblocks a store that waits for Postgres. What it was about to
// complete is completed by another run.
func (r *rowOutput) cancelWait() {
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
func (r *rowOutput) source(ctx context.Context, dir string) (RecordSource, error) {
	if r.set == nil {
		return nil, errRowsElsewhere(dir)
	}
	return rows{ctx: ctx, set: r.set}, nil
}

// noFiles closes nothing.
type noFiles struct{}

func (noFiles) Close() error { return nil }
