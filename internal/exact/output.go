package exact

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// OutputConfig configures an Output. Set is required.
type OutputConfig struct {
	Set   *Breaker
	Files frontier.Output // for records in files; nil means no files
	// Rows means that records are stored in the set, with Append. No item can then be
	// completed while the set is away.
	Rows bool
	// Hold is for a store that stops when its output returns an error. If the set is away,
	// Sync waits until the set is back or Hold is closed. If Hold is nil, Sync returns
	// ErrUnavailable instead.
	Hold <-chan struct{}
}

// storeTimeout limits the time of one transaction.
const storeTimeout = 30 * time.Second

// Output is the frontier.Output of a store with an exact set. Its Sync stores in the set how exact
// items ended: after their records are synced, and before the items are completed. If
// several items are completed together, it stores all of them in one transaction. It is safe
// for concurrent use, except Sync.
type Output struct {
	cfg OutputConfig

	mu   sync.Mutex
	ends []Finished
	rows []Row
}

var _ frontier.Output = (*Output)(nil)

// NewOutput returns an empty Output.
func NewOutput(cfg OutputConfig) *Output { return &Output{cfg: cfg} }

// Append adds a record that the next Sync stores in the set. The caller must not change
// row.Record afterwards.
func (o *Output) Append(row Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = append(o.rows, row)
}

// End adds how exact items ended. The next Sync stores that in the set, or drops it if it fails.
func (o *Output) End(ends []Finished) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, ends...)
}

// Sync implements frontier.Output.
func (o *Output) Sync() (frontier.Position, error) {
	end, err := o.sync()
	if err != nil {
		o.mu.Lock()
		o.ends = nil
		o.mu.Unlock()
	}
	return end, err
}

func (o *Output) sync() (end frontier.Position, err error) {
	if o.cfg.Files != nil {
		if end, err = o.cfg.Files.Sync(); err != nil {
			return nil, err
		}
	}
	crash.Point("recorded")
	for {
		err := o.store()
		if err == nil {
			return end, nil
		}
		if o.cfg.Hold == nil || !errors.Is(err, frontier.ErrUnavailable) {
			return nil, err
		}
		select {
		case <-time.After(o.cfg.Set.pause):
		case <-o.cfg.Hold:
			return nil, err
		}
	}
}

// store stores all ends and rows in the set, in one transaction.
func (o *Output) store() error {
	o.mu.Lock()
	ends, rows := o.ends, o.rows
	o.mu.Unlock()
	if len(ends)+len(rows) == 0 {
		return nil
	}
	// Other records wait for this call, so it does not probe a set that is away.
	if !o.cfg.Rows && o.cfg.Set.Away() {
		return errAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := o.cfg.Set.Finish(ctx, ends, rows); err != nil {
		return err
	}
	crash.Point("finished")
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends, o.rows = nil, slices.Clone(o.rows[len(rows):])
	return nil
}
