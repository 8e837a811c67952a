package crawl

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/frontier"
)

// listEvery is how often a relay looks for directories of new workers.
const listEvery = 5 * time.Second

// openAgain is the pause between two attempts to open the outboxes of a crawl while Redis or
// Postgres does not answer.
const openAgain = time.Second

// Relay opens the outboxes of the crawl and calls Outboxes.Relay. While Redis or Postgres does
// not answer, it logs this once, and opens the outboxes again.
func (h *Handle) Relay(ctx context.Context, config events.Config, drain bool) error {
	for logged := false; ; {
		err := h.relay(ctx, config, drain)
		if !errors.Is(err, frontier.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if !logged && config.Logger != nil {
			config.Logger.Warn("the relay waits", slog.String("relay", config.Name), slog.Any("err", err))
			logged = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(openAgain):
		}
	}
}

func (h *Handle) relay(ctx context.Context, config events.Config, drain bool) error {
	boxes, err := h.Outboxes(ctx)
	if err != nil {
		return err
	}
	return errors.Join(boxes.Relay(ctx, config, drain), boxes.Close())
}

// Relay delivers the events of all outboxes to config.Sink until ctx ends. If drain is
// true, Relay also ends when no events are left. In both cases Relay returns nil. It
// calls events.Run for each outbox, and, if drain is false, also for the outboxes of
// workers that begin later. If one of these calls fails, Relay ends the others and
// returns the error of that call. Relay sets config.Outbox, config.Progress and
// config.CursorKey itself. It passes the sum of the states of all outboxes to
// config.OnState.
//
// If there are several outboxes, Relay leaves those out that another process delivers, such as
// a worker that runs. If drain is false, it tries them again later. It returns
// events.ErrLocked if another process delivers the only outbox, or all of them.
func (o *Outboxes) Relay(ctx context.Context, config events.Config, drain bool) error {
	group, ctx := errgroup.WithContext(ctx)
	r := &relays{boxes: o, config: config, drain: drain, running: make(map[string]bool)}
	r.sums = &stateSums{onState: config.OnState, states: make(map[string]events.State)}
	group.Go(func() error {
		for {
			boxes, err := o.list(ctx)
			if err != nil && ctx.Err() == nil {
				return err
			}
			for _, box := range boxes {
				if r.begin(box) {
					group.Go(func() error { return r.end(box, r.deliver(ctx, box), len(boxes) == 1) })
				}
			}
			if drain {
				return nil
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(listEvery):
			}
		}
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return r.allElsewhere()
}

// relays are the relays of a call of Outboxes.Relay.
type relays struct {
	boxes  *Outboxes
	config events.Config
	drain  bool
	sums   *stateSums

	mu        sync.Mutex
	running   map[string]bool // by the worker of the outbox
	elsewhere error           // why the last outbox was left out
	delivered int             // outboxes that were not left out
}

// begin reports whether the outbox is not delivered yet.
func (r *relays) begin(box Outbox) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.running[box.Worker]
	r.running[box.Worker] = true
	return !before
}

// end handles the result of deliver.
func (r *relays) end(box Outbox, err error, only bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !runsElsewhere(err) || only {
		r.delivered++
		return err
	}
	r.elsewhere, r.running[box.Worker] = err, false
	if r.config.Logger != nil {
		r.config.Logger.Debug("another process delivers these events", slog.String("dir", box.Dir))
	}
	return nil
}

// allElsewhere returns an error if a drain has left out all outboxes.
func (r *relays) allElsewhere() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drain && r.delivered == 0 {
		return r.elsewhere
	}
	return nil
}

// deliver runs the relay of an outbox. If no worker writes the outbox any more, it tells Redis.
func (r *relays) deliver(ctx context.Context, box Outbox) error {
	config := relayConfig(box, r.config)
	onState := func(s events.State) {
		if r.sums.onState != nil {
			r.sums.note(box.Worker, s)
		}
	}
	if box.Journal == "" || r.boxes.engine == nil {
		config.OnState = onState
		return events.Run(ctx, config, r.drain)
	}
	j, _ := r.journal(ctx, box)
	if r.drain && !engine.JournalOpen(box.Dir) {
		config.OnState = onState
		return deliverJournal(ctx, r.boxes.engine, j, box, config)
	}
	forgotten := false
	config.OnState = func(s events.State) {
		onState(s)
		if ctx.Err() != nil || engine.JournalOpen(box.Dir) { // its worker reports the journal
			forgotten = false
			return
		}
		limited, cancel := context.WithTimeout(ctx, answerTime)
		defer cancel()
		if done := s.Lag.Events == 0 && !s.Lag.More; !done {
			forgotten = false
			j.Delivered, j.Events, j.Bytes, j.More, j.Ended = string(s.Cursor), s.Lag.Events, s.Lag.Bytes, s.Lag.More, false
			_ = r.boxes.engine.ReportJournal(limited, j) // the next report says the same
		} else if !forgotten {
			forgotten = r.boxes.engine.ForgetJournal(limited, box.Journal, config.Name) == nil
		}
	}
	return events.Run(ctx, config, r.drain)
}

// journal returns what Redis knows about the journal of an outbox.
func (r *relays) journal(ctx context.Context, box Outbox) (engine.Journal, error) {
	journals, err := r.boxes.engine.Journals(ctx)
	for _, j := range journals {
		if j.ID == box.Journal && j.Relay == r.config.Name {
			return j, nil
		}
	}
	return reportOf(ctx, box, &report.RelayStatus{Name: r.config.Name}), err
}

// relayConfig returns the config of a relay that reads box.
func relayConfig(box Outbox, config events.Config) events.Config {
	config.Outbox, config.Progress = box.Outbox, box.Progress
	// Directories of several workers can have the same name, for example in containers.
	config.CursorKey = path.Join(config.Name, box.Crawl, cmp.Or(box.Journal, box.Worker))
	return config
}

// stateSums sums the states of the relays of several outboxes.
type stateSums struct {
	onState func(events.State)

	mu     sync.Mutex
	states map[string]events.State // by the worker of the outbox
}

func (s *stateSums) note(worker string, state events.State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[worker] = state
	sum := events.State{Name: state.Name}
	if len(s.states) == 1 {
		sum.Cursor = state.Cursor
	}
	for _, of := range s.states {
		sum.Delivered += of.Delivered
		sum.Duplicates = max(sum.Duplicates, of.Duplicates) // all relays of the process have one sink
		sum.Dead += of.Dead
		for _, warning := range of.Warnings {
			if !slices.Contains(sum.Warnings, warning) {
				sum.Warnings = append(sum.Warnings, warning)
			}
		}
		sum.Lag.Events += of.Lag.Events
		sum.Lag.Bytes += of.Lag.Bytes
		sum.Lag.More = sum.Lag.More || of.Lag.More
		if oldest := of.Lag.Oldest; !oldest.IsZero() && (sum.Lag.Oldest.IsZero() || oldest.Before(sum.Lag.Oldest)) {
			sum.Lag.Oldest = oldest
		}
		if of.Away != "" {
			sum.Away = of.Away
		}
	}
	s.onState(sum)
}
