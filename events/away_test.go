package events_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestAway: while a sink is unavailable, the relay makes the pauses that the sink asks for,
// or pauses that grow. After a pause it sends the events again. The state says that the sink
// is unavailable.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, p := filled(100, 10), new(eventstest.Progress)
		var tries []time.Duration
		began := time.Now()
		s := &sink{answer: func(*events.Event) error {
			switch since := time.Since(began); {
			case since < time.Minute:
				tries = append(tries, since)
				return &events.AwayError{Err: errors.New("connection refused")}
			case since < time.Hour:
				return &events.AwayError{After: time.Hour, Err: errors.New("429")}
			}
			return nil
		}}
		var away events.State
		err := events.Run(t.Context(), events.Config{
			Name: "r", Outbox: o, Sink: s, Progress: p, Outstanding: 1,
			OnState: func(s events.State) {
				if s.Away != "" {
					away = s
				}
			},
		}, true)
		if err != nil || len(s.got) != 100 {
			t.Fatalf("%d events were delivered, error %v; want all of them and no error", len(s.got), err)
		}
		inOrder(t, s.got)
		if len(tries) < 6 || len(tries) > 12 || tries[0] > time.Second {
			t.Errorf("%d tries within a minute, want 6 to 12, the first within a second: %v", len(tries), tries)
		}
		if took := time.Since(began); took < time.Hour || took > time.Hour+2*time.Minute {
			t.Errorf("Run took %v, want about the hour that the sink asked for", took)
		}
		if !strings.Contains(away.Away, "429") || away.Lag.Events != 100 {
			t.Errorf("state while the sink was away: %+v, want its error 429 and 100 undelivered events", away)
		}
	})
}

// flaky is an outbox and a progress. If the function fail returns an error, Read and Save
// return this error.
type flaky struct {
	events.Outbox
	events.Progress
	fail func() error
}

func (f *flaky) Read(ctx context.Context, after events.Cursor, limit int) ([]events.Event, events.Cursor, error) {
	if err := f.fail(); err != nil {
		return nil, after, err
	}
	return f.Outbox.Read(ctx, after, limit)
}

func (f *flaky) Acquire(ctx context.Context, name string) (events.Hold, error) {
	hold, err := f.Progress.Acquire(ctx, name)
	return flakyHold{hold, f.fail}, err
}

// flakyHold is the Hold of a flaky progress.
type flakyHold struct {
	events.Hold
	fail func() error
}

func (f flakyHold) Save(ctx context.Context, cursor events.Cursor, letters []events.DeadLetter) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Hold.Save(ctx, cursor, letters)
}

// TestUnavailable: the relay tries again if the outbox or the progress is unavailable. Any
// other error of the outbox or the progress ends the run.
func TestUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		f := &flaky{Outbox: filled(500, 20), Progress: new(eventstest.Progress), fail: func() error {
			if n.Add(1)%3 > 0 {
				return fmt.Errorf("postgres: %w", frontier.ErrUnavailable)
			}
			return nil
		}}
		s := new(sink)
		cfg := events.Config{Name: "r", Outbox: f, Sink: s, Progress: f}
		if err := events.Run(t.Context(), cfg, true); err != nil || len(s.got) != 500 {
			t.Fatalf("%d events were delivered, error %v; want all of them and no error", len(s.got), err)
		}
		if saved, _, _ := f.Progress.Load(t.Context(), "r"); saved.Cursor != "500" {
			t.Errorf("the cursor is %q, want 500", saved.Cursor)
		}
		gone := &events.GoneError{Range: "pages-000002.jsonl"}
		f.fail = func() error { return gone }
		if err := events.Run(t.Context(), cfg, true); !errors.Is(err, gone) || !strings.Contains(err.Error(), "pages-000002.jsonl") {
			t.Errorf("Run of an outbox in which a file is missing: %v, want a GoneError with its name", err)
		}
	})
}

// TestAnswersAgain: when the outbox or the progress answers again, the state no longer says
// that it is unavailable, even if there are no new events.
func TestAnswersAgain(t *testing.T) {
	for _, name := range []string{"outbox", "progress"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var failing atomic.Bool
				var last atomic.Pointer[events.State]
				o, p := filled(10, 2), new(eventstest.Progress)
				f := &flaky{Outbox: o, Progress: p, fail: func() error {
					if failing.Load() {
						return fmt.Errorf("postgres: %w", frontier.ErrUnavailable)
					}
					return nil
				}}
				cfg := events.Config{Name: "r", Outbox: o, Sink: new(sink), Progress: p, OnState: func(s events.State) { last.Store(&s) }}
				if name == "outbox" {
					cfg.Outbox = f
				} else {
					cfg.Progress = f
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- events.Run(ctx, cfg, false) }()
				time.Sleep(5 * time.Second)
				failing.Store(true)
				if name == "progress" {
					o.Append(eventstest.Event(10, 2)) // moves the cursor, so that it must be saved
				}
				time.Sleep(5 * time.Second)
				if last.Load().Away == "" {
					t.Errorf("the state does not say that the %s is unavailable", name)
				}
				failing.Store(false)
				time.Sleep(time.Minute)
				if s := last.Load(); s.Away != "" {
					t.Errorf("a minute after the %s answers again, the state says %q", name, s.Away)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
