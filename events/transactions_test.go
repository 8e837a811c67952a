package events_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
)

// transactional is a sink that commits events and a cursor in one step.
type transactional struct {
	sink
	cursor events.Cursor
	known  bool
	before func(all []events.Event) error // called before a commit; nil means not called
}

var _ events.TransactionalSink = (*transactional)(nil)

func (s *transactional) Committed(context.Context, string) (events.Cursor, bool, error) {
	return s.cursor, s.known, nil
}

func (s *transactional) Commit(_ context.Context, key string, all []events.Event, cursor events.Cursor) error {
	if s.before != nil {
		if err := s.before(all); err != nil {
			return err
		}
	}
	if key != "r" {
		return errors.New("the key is " + key)
	}
	s.got, s.cursor, s.known = append(s.got, all...), cursor, true
	return nil
}

// TestTransactions stops the relay repeatedly between transactions, and starts it again with
// an empty Progress. Each event is still delivered once.
func TestTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s := filled(1000, 7), new(transactional)
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			s.before = func([]events.Event) error {
				switch n++; n {
				case 1, 2, 5:
					return errors.New("no broker")
				case 7:
					cancel()
				}
				return nil
			}
			err := events.Run(ctx, events.Config{Name: "r", Outbox: o, Sink: s, Progress: new(eventstest.Progress), Outstanding: 15}, true)
			if cancel(); err != nil {
				t.Fatal(err)
			}
		}
		all, _, _ := o.Read(t.Context(), "", 1000)
		if got := eventstest.IDs(s.got); !slices.Equal(got, eventstest.IDs(all)) {
			t.Errorf("%d events were delivered, want 1000, each once and in order", len(got))
		}
	})
}

// TestTransactionRefused: if a transaction is refused, the relay sends each event alone.
// Only the events that are then refused become dead letters.
func TestTransactionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s, p := filled(100, 7), new(transactional), new(eventstest.Progress)
		bad := eventstest.Event(42, 7).ID
		s.before = func(all []events.Event) error {
			if slices.ContainsFunc(all, func(e events.Event) bool { return e.ID == bad }) {
				return &events.RefusedError{Reason: "too large"}
			}
			return nil
		}
		if err := events.Run(t.Context(), events.Config{Name: "r", Outbox: o, Sink: s, Progress: p}, true); err != nil {
			t.Fatal(err)
		}
		letters, _ := p.Dead(t.Context(), "r")
		saved, _, _ := p.Load(t.Context(), "r")
		if len(s.got) != 99 || len(letters) != 1 || letters[0].Event.ID != bad || s.cursor != "100" || saved.Cursor != "100" {
			t.Errorf("%d events, want 99; dead letters %+v, want %s; cursors of sink and progress %q and %q, want 100", len(s.got), letters, bad, s.cursor, saved.Cursor)
		}
	})
}

// TestTransactionKeep: the cursor in the sink moves past the events that Keep excludes, so
// that the next run does not read them again. This also holds if a transaction is refused.
func TestTransactionKeep(t *testing.T) {
	for name, refused := range map[string]string{"accepted": "", "refused": eventstest.Event(4, 7).ID} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, p := new(transactional), new(eventstest.Progress)
				s.before = func(all []events.Event) error {
					if slices.ContainsFunc(all, func(e events.Event) bool { return e.ID == refused }) {
						return &events.RefusedError{Reason: "too large"}
					}
					return nil
				}
				n := 0
				cfg := events.Config{Name: "r", Outbox: filled(95, 7), Sink: s, Progress: p, Outstanding: 10,
					Keep: func(*events.Event) bool { n++; return n <= 5 || n > 50 && n <= 55 }}
				if err := events.Run(t.Context(), cfg, true); err != nil {
					t.Fatal(err)
				}
				saved, _, _ := p.Load(t.Context(), "r")
				if s.cursor != "95" || saved.Cursor != "95" {
					t.Errorf("the cursors of sink and progress are %q and %q, want 95", s.cursor, saved.Cursor)
				}
			})
		})
	}
}

// TestTransactionTail: the relay waits for an event that is committed later, and delivers it.
// The last state then reports no lag.
func TestTransactionTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s, p := filled(3, 7), new(transactional), new(eventstest.Progress)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(30*time.Second, func() { o.Append(eventstest.Event(3, 7)) })
		var last events.State
		cfg := events.Config{Name: "r", Outbox: o, Sink: s, Progress: p, OnState: func(s events.State) { last = s }}
		if err := events.Run(ctx, cfg, false); err != nil || len(s.got) != 4 {
			t.Errorf("%d events were delivered, error %v; want 4 events and no error", len(s.got), err)
		}
		if last.Cursor != "4" || last.Delivered != 4 || last.Lag.Events != 0 {
			t.Errorf("the last state is %+v, want cursor 4, 4 delivered and 0 undelivered events", last)
		}
	})
}
