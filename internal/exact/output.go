package exact

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// OutputConfig says where records go. Set is required.
type OutputConfig struct {
	Set   *Breaker
	Files frontier.Output // where records are written to; nil: no files
	// Rows: records go into the set, by Append, so that nothing is completed
	// while it is away.
	Rows bool
	// Hold: while the set is away Sync does not return, unless Hold is closed,
	// for a store that does not outlive an error of its output. nil: it returns
	// ErrUnavailable.
	Hold    <-chan struct{}
	Timeout time.Duration // of one transaction; 0 means 30 s
}

// Output is the frontier.Output of a store beside an exact set: between the
// records' way to the disk and the completion that they belong to, it tells the
// set what became of exact items, of all that are completed together in one
// transaction. It is safe for concurrent use, but for Sync.
type Output struct {
	cfg OutputConfig

	mu    sync.Mutex
	notes []*note
	rows  []Row
}

var _ frontier.Output = (*Output)(nil)

// note is the end of an exact item on its way to the set.
type note struct {
	finished Finished
	recorded bool // its record was written: the next Sync tells the set
	told     bool // the set knows it
}

// NewOutput returns an Output with nothing in it.
func NewOutput(cfg OutputConfig) *Output {
	cfg.Timeout = cmp.Or(cfg.Timeout, 30*time.Second)
	return &Output{cfg: cfg}
}

// Append adds a record that the next Sync stores in the set. It keeps row.Record.
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
		err := o.tell()
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

// tell has the set store what is noted and appended, in one transaction.
func (o *Output) tell() error {
	o.mu.Lock()
	notes, rows := slices.Clone(o.notes), o.rows
	o.mu.Unlock()
	if len(notes)+len(rows) == 0 {
		return nil
	}
	// While others' records wait for this call, it is not the one to find out.
	if !o.cfg.Rows && o.cfg.Set.Away() {
		return errAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.cfg.Timeout)
	defer cancel()
	if err := o.finish(ctx, notes, rows); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rows = slices.Clone(o.rows[len(rows):])
	return nil
}

// finish has the set store notes and rows, in one transaction.
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
		n.told = true
	}
	o.notes = slices.DeleteFunc(o.notes, func(n *note) bool { return n.told })
	return nil
}

// written notes that a note's record was written: the next Sync tells the set,
// unless it is put off.
func (o *Output) written(n *note, putOff bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n.recorded = true
	o.list(n, putOff)
}

// resume does what written did for a note whose completion is made again. It
// reports whether the set was told.
func (o *Output) resume(n *note, putOff bool) (told bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list(n, putOff)
	return n.told
}

// list has the next Sync tell the set a note; mu is held.
func (o *Output) list(n *note, putOff bool) {
	if n.recorded && !n.told && !putOff && !slices.Contains(o.notes, n) {
		o.notes = append(o.notes, n)
	}
}

// drop takes back a note whose completion did not go through.
func (o *Output) drop(n *note) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.notes, n); i >= 0 {
		o.notes = slices.Delete(o.notes, i, i+1)
	}
}

// told reports whether the set was told a note.
func (o *Output) told(n *note) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return n.told
}
