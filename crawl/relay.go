package crawl

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

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
func (o *Outboxes) Relay(ctx context.Context, config events.Config, drain bool) error {
	group, ctx := errgroup.WithContext(ctx)
	sums := &stateSums{onState: config.OnState, states: make(map[string]events.State)}
	group.Go(func() error {
		running := make(map[string]bool)
		for {
			boxes, err := o.list(ctx)
			if err != nil && ctx.Err() == nil {
				return err
			}
			for _, box := range boxes {
				if running[box.Worker] {
					continue
				}
				running[box.Worker] = true
				config := relayConfig(box, config)
				if config.OnState != nil {
					config.OnState = func(s events.State) { sums.note(box.Worker, s) }
				}
				group.Go(func() error { return events.Run(ctx, config, drain) })
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
	return group.Wait()
}

// relayConfig returns the config of a relay that reads box.
func relayConfig(box Outbox, config events.Config) events.Config {
	config.Outbox, config.Progress = box.Outbox, box.Progress
	config.CursorKey = path.Join(config.Name, box.Crawl, box.Worker)
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
		sum.Dead += of.Dead
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
