package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"sync"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// rowOutput is the output of an embedded store whose records are rows of a
// Postgres. It is nil if the records are files.
type rowOutput struct {
	frontier.Output
	set     *pgstore.Store // nil if the address of Postgres was not given
	hold    chan struct{}  // closed when calls must no longer wait for Postgres
	release func()         // closes hold
}

// open opens the crawl's rows, and the files of answers, for a process that
// crawls.
func (r *rowOutput) open(ctx context.Context, d Directory, out *outputs, crawl frontier.Identity, position frontier.Position) (frontier.Output, error) {
	if d.DB == nil {
		return nil, errElsewhere(d.Path, "records")
	}
	answers, err := d.openSides(out, position, false)
	if err != nil {
		return nil, err
	}
	config := pgstore.Config{Crawl: crawl.ID, Identity: crawl.ID, Capture: out.c.CDC}
	if r.set, err = d.DB.open(ctx, config); err != nil {
		return nil, err
	}
	r.hold = make(chan struct{})
	r.release = sync.OnceFunc(func() { close(r.hold) })
	output := exact.NewOutput(exact.OutputConfig{
		Set: exact.NewBreaker(r.set, 0), Files: answers, Rows: true, Hold: r.hold,
	})
	r.Output = out.setRows(rowFiles{newRowSink(output), io.NopCloser(nil)})
	return r, nil
}

// inspect opens the crawl's rows for a process that does not crawl. It does nothing if
// the address of Postgres was not given.
func (r *rowOutput) inspect(ctx context.Context, d Directory, id [16]byte) (err error) {
	if r != nil && d.DB != nil {
		r.set, err = d.DB.inspect(ctx, rowsName(id))
	}
	return err
}

// Sync implements frontier.Output. Its errors are final for the store, so they
// must not match frontier.ErrUnavailable.
func (r *rowOutput) Sync() (frontier.Position, error) {
	end, err := r.Output.Sync()
	if errors.Is(err, frontier.ErrUnavailable) {
		err = errors.New(err.Error())
	}
	return end, err
}

// rowsName returns the name under which Postgres stores an embedded crawl. It is the id of the
// crawl and not the path of the directory, because the directory can be moved.
func rowsName(id [16]byte) string { return hex.EncodeToString(id[:]) }

// cancelWait unblocks a store that waits for Postgres. The results that waited are not stored.
// A later run fetches their pages again.
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

// records returns the records of the crawl in dir.
func (r *rowOutput) records(ctx context.Context, dir string) (rows, error) {
	if r.set == nil {
		return rows{}, errElsewhere(dir, "records")
	}
	return rows{ctx: ctx, set: r.set}, nil
}
