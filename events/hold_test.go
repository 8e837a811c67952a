package events_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/frontier"
)

// severed is a progress of a process that can lose its connection to the storage.
type severed struct {
	*eventstest.Progress
	err atomic.Pointer[error] // the error of each call; a call with errStalled waits 15 s
}

var errStalled = errors.New("no answer")

func (s *severed) sever(err error) { s.err.Store(&err) }

func (s *severed) fail(ctx context.Context) error {
	err := s.err.Load()
	if err == nil || *err == nil {
		return nil
	}
	if errors.Is(*err, errStalled) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(15 * time.Second):
			return fmt.Errorf("%w: %w", errStalled, frontier.ErrUnavailable)
		}
	}
	return *err
}

func (s *severed) Acquire(ctx context.Context, name string) (events.Hold, error) {
	if err := s.fail(ctx); err != nil {
		return nil, err
	}
	hold, err := s.Progress.Acquire(ctx, name)
	return &severedHold{hold, s}, err
}

// severedHold is the Hold of a severed progress.
type severedHold struct {
	events.Hold
	*severed
}

func (h *severedHold) Renew(ctx context.Context) (time.Duration, error) {
	if err := h.fail(ctx); err != nil {
		return 0, err
	}
	return h.Hold.Renew(ctx)
}

func (h *severedHold) Save(ctx context.Context, cursor events.Cursor, letters []events.DeadLetter) error {
	if err := h.fail(ctx); err != nil {
		return err
	}
	return h.Hold.Save(ctx, cursor, letters)
}

// faultsOfStorage are the ways in which a holder can lose its connection to the storage.
func faultsOfStorage() map[string]error {
	return map[string]error{
		"refused": fmt.Errorf("connection refused: %w", frontier.ErrUnavailable),
		"stalled": errStalled,
	}
}

const holdTime = 5 * time.Second

// TestLapsedHoldSendsNothing: a relay that cannot renew its hold sends nothing after the time
// of the hold. When it can renew the hold again, it goes on, and sends no event twice except
// those that were under way.
func TestLapsedHoldSendsNothing(t *testing.T) {
	for name, fault := range faultsOfStorage() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o, s := filled(400, 4), &sink{delay: 100 * time.Millisecond}
				p := &severed{Progress: &eventstest.Progress{HoldTime: holdTime}}
				began := time.Now()
				time.AfterFunc(2*time.Second, func() { p.sever(fault) })
				time.AfterFunc(time.Minute, func() { p.sever(nil) })
				err := events.Run(t.Context(), events.Config{Name: "r", Outbox: o, Sink: s, Progress: p, Outstanding: 8, Batch: 2}, true)
				if err != nil {
					t.Fatal(err)
				}
				got, times := s.received(), s.at
				late := 0
				for i := range got {
					if since := times[i].Sub(began); since > 2*time.Second+holdTime && since < time.Minute {
						late++
					}
				}
				if late > 0 {
					t.Errorf("%d events were accepted while the hold was not valid, want none", late)
				}
				if len(got) < 400 || len(got) > 404 {
					t.Errorf("%d events were accepted, want 400, and the 4 that were under way perhaps twice", len(got))
				}
				if took := time.Since(began); took < time.Minute || took > 90*time.Second {
					t.Errorf("Run took %v, want 60 s to 90 s: it goes on when the hold is renewed", took)
				}
			})
		})
	}
}

// TestTakeover: a relay cannot renew its hold, and another process takes over its name when the
// hold is over. This happens several times. The relay ends with ErrSuperseded. Only events that
// were under way are sent twice, and the first deliveries of each host's events are in order.
func TestTakeover(t *testing.T) {
	for name, fault := range faultsOfStorage() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const hosts, takeovers, total = 4, 3, 1000
				o, s, p := filled(total, hosts), &sink{delay: 100 * time.Millisecond}, &eventstest.Progress{HoldTime: holdTime}
				// The sink accepts events of both relays at once, so its check of the order of calls does not apply.
				config := events.Config{Name: "r", Outbox: o, Sink: s, Outstanding: 8, Batch: 2}
				ended := make(chan error, takeovers+1)
				for n := range takeovers + 1 {
					own, config := &severed{Progress: p}, config
					config.Progress = own
					go func() { ended <- events.Run(t.Context(), config, true) }()
					if n == takeovers {
						break
					}
					time.Sleep(3 * time.Second) // of the fake clock
					own.sever(fault)
					time.Sleep(holdTime + 10*time.Millisecond)
					p.EndHold("r")
					time.AfterFunc(2*time.Second, func() { own.sever(nil) }) // the old relay learns that another one runs
				}
				superseded := 0
				for range takeovers + 1 {
					if err := <-ended; errors.Is(err, events.ErrSuperseded) {
						superseded++
					} else if err != nil {
						t.Error(err)
					}
				}
				if superseded != takeovers {
					t.Errorf("%d relays ended with ErrSuperseded, want %d", superseded, takeovers)
				}
				times := make(map[string]int)
				var first []events.Event
				for _, e := range s.received() {
					if times[e.ID]++; times[e.ID] == 1 {
						first = append(first, e)
					}
				}
				twice := len(s.received()) - len(times)
				// An event of each host is under way, and another one was acknowledged since the last save.
				if unsaved := takeovers * hosts * 2; len(times) != total || twice > unsaved {
					t.Errorf("%d different events were accepted, and %d again; want %d, and at most %d again", len(times), twice, total, unsaved)
				}
				inOrder(t, first)
				if saved, _, _ := p.Load(t.Context(), "r"); saved.Cursor != events.Cursor(fmt.Sprint(total)) {
					t.Errorf("the cursor is %q, want %d", saved.Cursor, total)
				}
			})
		})
	}
}
