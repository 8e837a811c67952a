package events_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
)

var (
	seedFlag = flag.Uint64("seed", 0, "repeat a random test with this seed")
	proof    = flag.Bool("proof", false, "random tests at full size")
)

func TestReferences(t *testing.T) {
	eventstest.RunOutbox(t, func(*testing.T) eventstest.OutboxUnderTest { return memoryOutbox() })
	eventstest.RunProgress(t, func(*testing.T) eventstest.ProgressUnderTest {
		p := new(eventstest.Progress)
		return eventstest.ProgressUnderTest{Progress: p, Reopen: func() events.Progress { return p }, EndHold: p.EndHold}
	})
	eventstest.RunSink(t, func(*testing.T) eventstest.SinkUnderTest {
		s := new(sink)
		return eventstest.SinkUnderTest{Sink: s, Received: s.received}
	})
}

func memoryOutbox() eventstest.OutboxUnderTest {
	o := new(eventstest.Outbox)
	return eventstest.OutboxUnderTest{
		Outbox: o, Reopen: func() events.Outbox { return o },
		Commit: commitTo(o),
	}
}

// sink accepts all events for which answer returns no error.
type sink struct {
	answer func(e *events.Event) error // nil means that all events are accepted
	delay  time.Duration               // the delay of each answer

	mu      sync.Mutex
	got     []events.Event
	at      []time.Time
	busy    map[string]bool // hosts that have an event under way
	calls   int             // calls under way
	maxBusy int             // the largest number of events under way
	faults  []string
}

func (s *sink) Send(ctx context.Context, all []events.Event) []error {
	s.mu.Lock()
	if s.busy == nil {
		s.busy = make(map[string]bool)
	}
	for _, e := range all {
		if s.busy[e.Host] {
			s.faults = append(s.faults, "two events of "+e.Host+" are under way")
		}
		s.busy[e.Host] = true
	}
	s.maxBusy = max(s.maxBusy, len(s.busy))
	s.calls++
	s.mu.Unlock()
	errs := make([]error, len(all))
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		for i := range errs {
			errs[i] = &events.AwayError{Err: ctx.Err()}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	for i := range all {
		delete(s.busy, all[i].Host)
		if errs[i] == nil && s.answer != nil {
			errs[i] = s.answer(&all[i])
		}
		if errs[i] == nil {
			s.got, s.at = append(s.got, all[i]), append(s.at, time.Now())
		}
	}
	return errs
}

func (s *sink) Close() error { return nil }

func (s *sink) received() []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func filled(n, hosts int) *eventstest.Outbox {
	o := new(eventstest.Outbox)
	for i := range n {
		o.Append(eventstest.Event(i, hosts))
	}
	return o
}

// inOrder checks that the events of each host came in the order of the outbox.
func inOrder(t *testing.T, got []events.Event) {
	t.Helper()
	last := make(map[string]time.Time)
	for _, e := range got {
		if !e.Time.After(last[e.Host]) {
			t.Errorf("event %s of %s came after a later event of this host", e.ID, e.Host)
		}
		last[e.Host] = e.Time
	}
}

// TestRun: all events are delivered once and in order per host. The number of events under
// way comes close to Outstanding. In the end the cursor is after the last event.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s, p := filled(1000, 50), &sink{delay: 10 * time.Millisecond}, new(eventstest.Progress)
		began := time.Now()
		cfg := events.Config{Name: "r", Outbox: o, Sink: s, Progress: p, Outstanding: 40, Batch: 8}
		if err := events.Run(t.Context(), cfg, true); err != nil {
			t.Fatal(err)
		}
		if len(s.got) != 1000 || len(s.faults) > 0 {
			t.Errorf("%d events were delivered, want 1000; faults of the order of calls: %v", len(s.got), s.faults)
		}
		inOrder(t, s.got)
		if s.maxBusy > 40 || s.maxBusy < 35 {
			t.Errorf("at most %d events were under way at a time, want 35 to 40", s.maxBusy)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("Run took %v, want at most 1 s: not enough events are under way at a time", took)
		}
		if saved, _, _ := p.Load(t.Context(), "r"); saved.Cursor != "1000" {
			t.Errorf("the cursor is %q, want 1000", saved.Cursor)
		}
		s.got = nil
		if err := events.Run(t.Context(), cfg, true); err != nil || len(s.got) > 0 {
			t.Errorf("the second run delivered %d events, error %v; want 0 events and no error", len(s.got), err)
		}
	})
}

// TestTail: without drain the relay waits for more events until it is stopped.
func TestTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, s, p := filled(3, 3), new(sink), new(eventstest.Progress)
		ctx, cancel := context.WithCancel(t.Context())
		var states []events.State
		done := make(chan error)
		go func() {
			done <- events.Run(ctx, events.Config{Name: "r", Outbox: o, Sink: s, Progress: p, OnState: func(s events.State) { states = append(states, s) }}, false)
		}()
		time.Sleep(time.Minute)
		o.Append(eventstest.Event(3, 3), eventstest.Event(4, 3))
		time.Sleep(1500 * time.Millisecond)
		if len(s.received()) != 5 {
			t.Errorf("%d events were delivered 1.5 s after the last one was committed, want 5", len(s.received()))
		}
		if _, err := p.Acquire(t.Context(), "r"); !errors.Is(err, events.ErrLocked) {
			t.Errorf("Acquire of a running relay: %v, want ErrLocked", err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run of a relay that was stopped: error %v, want none", err)
		}
		last := states[len(states)-1]
		if len(states) < 60 || last.Cursor != "5" || last.Delivered != 5 || last.Lag != (events.Lag{}) || last.Name != "r" {
			t.Errorf("%d states, want at least 60; the last one is %+v, want cursor 5, 5 delivered and no lag", len(states), last)
		}
		if saved, _, _ := p.Load(t.Context(), "r"); saved.Cursor != "5" {
			t.Errorf("the cursor is %q, want 5", saved.Cursor)
		}
	})
}

// warner is a sink with a duplicate window of an hour.
type warner struct{ sink }

func (*warner) Warnings(behind time.Duration) []string {
	if behind > time.Hour {
		return []string{"async", "short window"}
	}
	return []string{"async"}
}

// TestWarnings: each warning of a sink is logged once, and is in the state. A relay is behind only for events that it could
// have sent before.
func TestWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := new(eventstest.Progress)
		o := new(eventstest.Outbox)
		for n := range 3 {
			e := eventstest.Event(n, 3)
			e.Time = time.Now()
			o.Append(e)
		}
		time.Sleep(2 * time.Hour)
		for run, want := range []string{"async", "async short window"} {
			log := new(strings.Builder)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Second, cancel)
			var last events.State
			err := events.Run(ctx, events.Config{
				Name: "r", Outbox: o, Sink: &warner{sink{delay: time.Hour}}, Progress: p,
				Logger: slog.New(slog.NewTextHandler(log, nil)), OnState: func(s events.State) { last = s },
			}, false)
			if got := strings.Join(last.Warnings, " "); err != nil || got != want {
				t.Errorf("run %d: warnings %q, error %v, want %q", run, got, err, want)
			}
			if n := strings.Count(log.String(), "reason=async"); n != 1 {
				t.Errorf("run %d: the warning is logged %d times, want once", run, n)
			}
		}
	})
}

// TestEndWithCause: Run returns nil when ctx ends, even if the outbox returns the cause of the
// end of ctx as its error.
func TestEndWithCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sink := range []events.Sink{new(sink), new(transactional)} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errors.New("interrupt signal received")) })
			o := &flaky{Outbox: filled(3, 3), fail: func() error { <-ctx.Done(); return context.Cause(ctx) }}
			if err := events.Run(ctx, events.Config{Name: "r", Outbox: o, Sink: sink, Progress: new(eventstest.Progress)}, false); err != nil {
				t.Errorf("Run with a %T after the end of ctx: error %v, want none", sink, err)
			}
		}
	})
}

// TestRefused: a refused event becomes a dead letter, does not delay its host, and can be
// retried.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, p := filled(30, 3), new(eventstest.Progress)
		bad := []string{eventstest.Event(4, 3).ID, eventstest.Event(7, 3).ID}
		s := &sink{answer: func(e *events.Event) error {
			if slices.Contains(bad, e.ID) {
				return fmt.Errorf("status 422: %w", &events.RefusedError{Reason: "no such page"})
			}
			return nil
		}}
		if err := events.Run(t.Context(), events.Config{Name: "r", Outbox: o, Sink: s, Progress: p}, true); err != nil {
			t.Fatal(err)
		}
		letters, _ := p.Dead(t.Context(), "r")
		if len(s.got) != 28 || len(letters) != 2 || letters[0].Event.ID != bad[0] || letters[0].Reason != "no such page" || len(letters[0].Event.Data) == 0 {
			t.Errorf("%d events were delivered, want 28; dead letters %+v, want events %q", len(s.got), letters, bad)
		}
		bad = bad[:1]
		refuse := s.answer
		s.answer = func(e *events.Event) error {
			if err := refuse(e); err != nil {
				return &events.RefusedError{Reason: "still no such page"}
			}
			return nil
		}
		if done, err := events.Retry(t.Context(), p, s, "r"); done != (events.Retried{Accepted: 1, Refused: 1}) || err != nil {
			t.Errorf("Retry = %+v, %v; want 1 accepted and 1 refused", done, err)
		}
		s.answer = func(*events.Event) error { return errors.New("away") }
		done, err := events.Retry(t.Context(), p, s, "r", bad[0])
		if _, away := errors.AsType[*events.AwayError](err); !away || done != (events.Retried{Left: 1}) {
			t.Errorf("Retry while the sink is away = %+v, %v; want 1 left and an AwayError", done, err)
		}
		if letters, _ := p.Dead(t.Context(), "r"); len(letters) != 1 || letters[0].Event.ID != bad[0] || letters[0].Reason != "still no such page" {
			t.Errorf("dead letters after Retry: %+v, want only %s, with its new reason", letters, bad[0])
		}
	})
}

// TestResend: a relay sends marked dead letters again: at once while it runs, and at its end if it only drains. What is
// refused again is not marked any more, and while the sink is away the letters stay marked.
func TestResend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, p, s := filled(9, 3), new(eventstest.Progress), new(sink)
		answer := func(err error) { s.mu.Lock(); defer s.mu.Unlock(); s.answer = func(*events.Event) error { return err } }
		expect := func(when string, delivered, dead, marked int) {
			t.Helper()
			saved, _, err := p.Load(t.Context(), "r")
			if got := len(s.received()); err != nil || got != delivered || saved.Dead != uint64(dead) || saved.Resend != uint64(marked) {
				t.Errorf("%s %d events were delivered, %d letters are dead and %d of them marked (%v); want %d, %d, %d",
					when, got, saved.Dead, saved.Resend, err, delivered, dead, marked)
			}
		}
		answer(&events.RefusedError{Reason: "no"})
		var state atomic.Pointer[events.State]
		config := events.Config{Name: "r", Outbox: o, Sink: s, Progress: p, OnState: func(now events.State) { state.Store(&now) }}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- events.Run(ctx, config, false) }()
		mark := func(ids ...string) {
			t.Helper()
			if n, err := p.Resend(t.Context(), "r", ids...); err != nil || len(ids) > 0 && n != len(ids) {
				t.Errorf("%d letters were marked (%v), want %d", n, err, len(ids))
			}
			time.Sleep(5 * time.Second)
		}
		time.Sleep(5 * time.Second)
		expect("at first", 0, 9, 0)
		mark(eventstest.Event(4, 3).ID)
		expect("while all are refused", 0, 9, 0)
		answer(errors.New("away"))
		mark(eventstest.Event(5, 3).ID)
		expect("while the sink is away", 0, 9, 1)
		answer(nil)
		time.Sleep(time.Minute)
		expect("after the sink was away", 1, 8, 0)
		mark(eventstest.Event(7, 3).ID, eventstest.Event(1, 3).ID)
		expect("after two were marked", 3, 6, 0)
		if got := state.Load().Dead; got != 6 {
			t.Errorf("the state has %d dead letters, want 6", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		mark()
		expect("while no relay runs", 3, 6, 6)
		if err := events.Run(t.Context(), config, true); err != nil {
			t.Error(err)
		}
		expect("after a relay that drained", 9, 0, 0)
	})
}

// TestRefusedBytes: a relay holds at most about 32 MiB of events in memory. Dead letters count
// towards this limit until they are saved. Here they are never saved, because the sink does not
// answer the first event, so the cursor cannot pass any event.
func TestRefusedBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int32
		o := new(eventstest.Outbox)
		for i := range 100 {
			e := eventstest.Event(i, 100)
			e.Data = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
			o.Append(e)
		}
		s := sendFunc(func(ctx context.Context, all []events.Event) []error {
			if all[0].ID == eventstest.Event(0, 100).ID {
				<-ctx.Done()
				return []error{ctx.Err()}
			}
			refused.Add(1)
			return []error{&events.RefusedError{Reason: "too large"}}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := events.Run(ctx, events.Config{Name: "r", Outbox: o, Sink: s, Progress: new(eventstest.Progress), Outstanding: 10, Batch: 1}, true); err != nil {
			t.Fatal(err)
		}
		if n := refused.Load(); n < 25 || n > 40 { // 32 MiB and one more read
			t.Errorf("%d dead letters of 1 MiB are in memory, want 25 to 40", n)
		}
	})
}

// sendFunc is a sink. Its method Send calls the function.
type sendFunc func(ctx context.Context, all []events.Event) []error

func (s sendFunc) Send(ctx context.Context, all []events.Event) []error { return s(ctx, all) }
func (s sendFunc) Close() error                                         { return nil }

// TestFrom: a relay with a new name starts where From says. A relay with a known name
// starts at its saved cursor.
func TestFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, p := filled(20, 3), new(eventstest.Progress)
		for name, test := range map[string]struct {
			from events.From
			want int
		}{
			"begin":  {events.From{}, 20},
			"now":    {events.From{Now: true}, 0},
			"time":   {events.From{Time: eventstest.Event(15, 3).Time}, 5},
			"cursor": {events.From{Cursor: "18"}, 2},
		} {
			s := new(sink)
			cfg := events.Config{Name: name, Outbox: o, Sink: s, Progress: p, From: test.from}
			if err := events.Run(t.Context(), cfg, true); err != nil || len(s.got) != test.want {
				t.Errorf("From %s: %d events were delivered, error %v; want %d", name, len(s.got), err, test.want)
			}
			cfg.From = events.From{}
			if err := events.Run(t.Context(), cfg, true); err != nil || len(s.got) != test.want {
				t.Errorf("second run of the relay %s: %d events were delivered, error %v; want still %d", name, len(s.got), err, test.want)
			}
		}
		bad := events.Config{Name: "bad", Outbox: o, Sink: new(sink), Progress: p, From: events.From{Cursor: "x"}}
		if err := events.Run(t.Context(), bad, true); err == nil {
			t.Error("Run from a cursor that the outbox did not make: no error")
		}
		if names, _ := p.Names(t.Context()); slices.Contains(names, "bad") {
			t.Error("a relay that could not begin is among the names")
		}
		for _, cfg := range []events.Config{{}, {Name: "../x"}, {Name: "a", From: events.From{Now: true, Cursor: "1"}}} {
			if err := events.Run(t.Context(), cfg, true); err == nil {
				t.Errorf("Run with the faulty config %+v: no error", cfg)
			}
		}
	})
}

// TestKeep: events that Keep does not want are skipped, and the cursor passes them.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, sink := range []interface {
			events.Sink
			received() []events.Event
		}{new(sink), new(transactional)} {
			p := new(eventstest.Progress)
			err := events.Run(t.Context(), events.Config{
				Name: "r", Outbox: filled(70, 3), Sink: sink, Progress: p,
				Keep: func(e *events.Event) bool { return e.Type == events.PageFailed },
			}, true)
			saved, _, _ := p.Load(t.Context(), "r")
			if err != nil || len(sink.received()) != 10 || saved.Cursor != "70" {
				t.Errorf("%d events were delivered, cursor %q, error %v; want 10 events and cursor 70", len(sink.received()), saved.Cursor, err)
			}
		}
	})
}

// world limits the number of steps of a relay, such as the delivery of an event or a save of the
// cursor. After the last step, calls do nothing and return errKilled, as if the process of the
// relay were killed.
type world struct {
	mu   sync.Mutex
	left int
	end  context.CancelFunc
}

var errKilled = errors.New("killed")

// effect makes one step: it calls do, unless no step is left.
func (w *world) effect(do func()) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left == 0 {
		w.end()
		return errKilled
	}
	w.left--
	do()
	return nil
}

// mortal is the sink and the progress of a process that can be killed at each step: before
// an event is published, before it is acknowledged, and before and after the cursor is
// saved.
type mortal struct {
	*eventstest.Progress
	*world
	to interface{ take(e events.Event) error }
}

func (m *mortal) Send(ctx context.Context, all []events.Event) []error {
	errs := make([]error, len(all))
	for i, e := range all {
		var answer error
		if errs[i] = m.effect(func() { answer = m.to.take(e) }); errs[i] == nil {
			errs[i] = answer
		}
	}
	if err := m.effect(func() {}); err != nil { // the answers are lost
		<-ctx.Done()
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}

func (*mortal) Close() error { return nil }

func (m *mortal) Acquire(ctx context.Context, name string) (events.Hold, error) {
	m.EndHold(name) // the end of a process ends its holds
	hold, err := m.Progress.Acquire(ctx, name)
	return mortalHold{hold, m.world}, err
}

// mortalHold is a Hold of a process that can be killed.
type mortalHold struct {
	events.Hold
	*world
}

func (m mortalHold) Save(ctx context.Context, cursor events.Cursor, letters []events.DeadLetter) error {
	var err error
	return errors.Join(m.effect(func() { err = m.Hold.Save(ctx, cursor, letters) }), err)
}

// receiver accepts most events, refuses some, and is sometimes away.
type receiver struct {
	rng *rand.Rand
	got []events.Event
}

func (r *receiver) take(e events.Event) error {
	switch {
	case strings.HasPrefix(e.ID, "0000") && e.ID[5] == '3' && e.Type == events.PageFailed:
		return &events.RefusedError{Reason: "not this"}
	case r.rng.IntN(20) == 0:
		return &events.AwayError{Err: errors.New("503")}
	}
	r.got = append(r.got, e)
	return nil
}

// TestCrash repeatedly kills a relay at random steps while the outbox grows. In the end each
// event was delivered or is a dead letter, and the first deliveries of each host's events
// are in order.
func TestCrash(t *testing.T) {
	runs := 30
	if *proof {
		runs = 3000
	}
	for seed := range uint64(runs) {
		if *seedFlag != 0 {
			seed = *seedFlag
		}
		synctest.Test(t, func(t *testing.T) { crashes(t, seed) })
		if t.Failed() {
			t.Fatalf("replay with -args -seed=%d", seed)
		}
	}
}

func crashes(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 19))
	o, p, to := new(eventstest.Outbox), new(eventstest.Progress), &receiver{rng: rng}
	n, hosts := 200+rng.IntN(400), 1+rng.IntN(30)
	committed, killed := 0, 0
	for done := false; !done; {
		more := min(n-committed, rng.IntN(100))
		for range more {
			o.Append(eventstest.Event(committed, hosts))
			committed++
		}
		ctx, cancel := context.WithCancel(t.Context())
		m := &mortal{Progress: p, world: &world{left: rng.IntN(150), end: cancel}, to: to}
		if committed == n && rng.IntN(4) == 0 {
			m.left = -1
		}
		err := events.Run(ctx, events.Config{
			Name: "r", Outbox: o, Sink: m, Progress: m, Outstanding: 1 + rng.IntN(40), Batch: 1 + rng.IntN(20),
		}, true)
		if err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if ctx.Err() != nil {
			killed++
		}
		done = committed == n && err == nil && ctx.Err() == nil
		cancel()
	}
	letters, err := p.Dead(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	handled := eventstest.IDs(to.got)
	for _, l := range letters {
		handled = append(handled, l.Event.ID)
	}
	all, _, _ := o.Read(t.Context(), "", n)
	if missing := eventstest.Missing(handled, eventstest.IDs(all)); len(missing) > 0 {
		t.Errorf("%d of %d events were lost after %d kills: %v", len(missing), n, killed, missing)
	}
	seen, last := make(map[string]bool), make(map[string]time.Time)
	for _, e := range to.got {
		if !seen[e.ID] && !e.Time.After(last[e.Host]) {
			t.Errorf("event %s of %s first came after a later event of this host", e.ID, e.Host)
		}
		if !seen[e.ID] {
			last[e.Host] = e.Time
		}
		seen[e.ID] = true
	}
}
