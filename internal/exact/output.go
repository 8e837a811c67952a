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

// Output is the frontier.Output of a store with an exact set. It stores in the set how exact
// items ended. It does so after their records are synced and before the items are completed. If
// several items are completed together, it stores all of them in one transaction. It is safe
// for concurrent use, except Sync.
type Output struct {
	cfg OutputConfig

	mu    sync.Mutex
	notes []*note
	rows  []Row
}

var _ frontier.Output = (*Output)(nil)

// note is the end of an exact item that the set must store.
type note struct {
	finished  Finished
	recorded  bool // the item's record was written, so the next Sync stores the note
	confirmed bool // the set has stored the note
}

// NewOutput returns an empty Output.
func NewOutput(cfg OutputConfig) *Output { return &Output{cfg: cfg} }

// Append adds a record that the next Sync stores in the set. The caller must not change
// row.Record afterwards.
func (o *Output) Append(row Row) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = append(o.rows, row)
}

// Sync implements frontier.Output.
func (o *Output) Sync() (frontier.Position, error) {
	var end frontier.Position
	if o.cfg.Files != nil {
		var err error
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

// store stores all notes and appended records in the set, in one transaction.
func (o *Output) store() error {
	o.mu.Lock()
	notes, rows := slices.Clone(o.notes), o.rows
	o.mu.Unlock()
	if len(notes)+len(rows) == 0 {
		return nil
	}
	// Other records wait for this call, so it does not probe a set that is away.
	if !o.cfg.Rows && o.cfg.Set.Away() {
		return errAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	if err := o.finish(ctx, notes, rows); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = slices.Clone(o.rows[len(rows):])
	return nil
}

// finish stores notes and rows in the set, in one transaction.
func (o *Output) finish(ctx context.Context, notes []*note, rows []Row) error {
	finished := make([]Finished, len(notes))
	for i, n := range notes {
		finished[i] = n.finished
	}
	if err := o.cfg.Set.Finish(ctx, finished, rows); err != nil {
		return err
	}
	crash.Point("finished")
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range notes {
		n.confirmed = true
	}
	o.notes = slices.DeleteFunc(o.notes, func(n *note) bool { return n.confirmed })
	return nil
}

// noteRecorded sets n.recorded after the record of the note's item was written. The next Sync then
// stores the note.
func (o *Output) noteRecorded(n *note) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n.recorded = true
	o.enqueue(n)
}

// resume calls enqueue for the note of a completion. If the completion is repeated, the failed call
// has removed the note with dequeue.
func (o *Output) resume(n *note) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.enqueue(n)
}

// enqueue adds a note to the next Sync if the record of the note's item was written and the
// set has not stored the note. The caller must hold mu.
func (o *Output) enqueue(n *note) {
	if n.recorded && !n.confirmed && !slices.Contains(o.notes, n) {
		o.notes = append(o.notes, n)
	}
}

// dequeue removes a note whose completion failed.
func (o *Output) dequeue(n *note) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.notes, n); i >= 0 {
		o.notes = slices.Delete(o.notes, i, i+1)
	}
}

// confirmed reports whether the set has stored a note.
func (o *Output) confirmed(n *note) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return n.confirmed
}
