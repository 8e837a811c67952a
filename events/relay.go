package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/name"
)

// Config configures a relay. Name, Outbox, Sink and Progress are required.
type Config struct {
	Name        string // 1 to 64 letters, digits, dots, underscores and dashes; the first is not a dot
	Outbox      Outbox
	Sink        Sink
	Progress    Progress
	CursorKey   string              // the key of the cursor in a TransactionalSink; empty means Name
	From        From                // where a relay with a new name starts
	Keep        func(e *Event) bool // reports whether to deliver an event; nil means all but PageDropped and Unchanged
	Outstanding int                 // maximum number of unacknowledged events; 0 means 256
	Batch       int                 // maximum number of events in one call of Send; 0 means 64
	Poll        time.Duration       // time between reads of the outbox while there are no new events; 0 means 1 s
	OnState     func(state State)   // optional; called each second by one goroutine, and when Run ends
	Logger      *slog.Logger        // nil discards
}

// keeps reports whether to deliver an event.
func (c *Config) keeps(e *Event) bool {
	if c.Keep == nil {
		return e.Type != PageDropped && !e.Unchanged()
	}
	return c.Keep(e)
}

// From is where a relay with a new name starts. At most one field is set; the
// zero value is the beginning.
type From struct {
	Now    bool      // start with the events that are committed from now on
	Time   time.Time // start with the events that were committed at this time or later
	Cursor Cursor    // start after this cursor
}

// State is what a relay is doing.
type State struct {
	Name      string `json:"name"`
	Cursor    Cursor `json:"cursor"`
	Lag       Lag    `json:"lag"`
	Delivered uint64 `json:"delivered"` // events that were acknowledged in this run
	// Duplicates is the part of Delivered that the receiver had already, and did not store again: see DuplicatesSink.
	Duplicates uint64 `json:"duplicates,omitempty"`
	Dead       uint64 `json:"dead"` // dead letters of all runs
	// Warnings say why Delivered can be wrong, because of settings of the receiver: see WarningSink.
	Warnings []string `json:"warnings,omitempty"`
	Away     string   `json:"away,omitempty"` // why the sink, outbox or progress is unavailable; empty if all answer
}

// CheckName returns an error if relay is not a valid name of a relay.
func CheckName(relay string) error {
	if !name.OfRelay(relay) {
		return fmt.Errorf("events: the name of a relay is %q, want %s, no dot first", relay, name.Form)
	}
	return nil
}

func (c Config) withDefaults() (Config, error) {
	errs := []error{CheckName(c.Name)}
	if c.Outbox == nil || c.Sink == nil || c.Progress == nil {
		errs = append(errs, errors.New("events: a relay needs an Outbox, a Sink and a Progress"))
	}
	if c.Outstanding < 0 || c.Batch < 0 || c.Poll < 0 {
		errs = append(errs, fmt.Errorf("events: Outstanding is %d, Batch %d, Poll %v, want 0 or more", c.Outstanding, c.Batch, c.Poll))
	}
	set := 0
	for _, is := range []bool{c.From.Now, !c.From.Time.IsZero(), c.From.Cursor != ""} {
		if is {
			set++
		}
	}
	if set > 1 {
		errs = append(errs, errors.New("events: From has several places to start at, want one"))
	}
	c.Outstanding, c.Batch, c.Poll = cmp.Or(c.Outstanding, 256), cmp.Or(c.Batch, 64), cmp.Or(c.Poll, time.Second)
	c.Batch, c.CursorKey = min(c.Batch, c.Outstanding), cmp.Or(c.CursorKey, c.Name)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// Run delivers events until ctx ends, and then returns nil. If drain is set, it also
// returns nil when the outbox has no more events. It sends the events of one host in
// order, one at a time, and the events of different hosts at the same time. Events that
// were sent but not acknowledged before the end of Run are sent again by the next Run.
//
// The cursor passes only events that the sink has acknowledged, that have become dead letters,
// or that Keep excludes. The cursor is saved soon after it has moved. If the sink is away, or
// the outbox or progress returns an error that wraps frontier.ErrUnavailable, Run tries again
// after a pause that grows to half a minute. Every other error of the outbox and the progress
// ends Run. For example, Run returns ErrLocked if another process runs the relay,
// ErrSuperseded if another process has taken it over, and a *GoneError if events are missing.
// Run does not close the sink.
//
// Run sends nothing while it does not know that its Hold is valid: see Hold.Renew.
func Run(ctx context.Context, cfg Config, drain bool) (err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return err
	}
	r := &relay{Config: cfg, drain: drain}
	var hold Hold
	err = r.patient(ctx, func() (err error) {
		hold, err = cfg.Progress.Acquire(ctx, cfg.Name)
		return err
	})
	if err != nil {
		return endOf(ctx, err)
	}
	r.tenure = newTenure(hold)
	defer func() { err = errors.Join(err, r.tenure.release(ctx)) }()
	return r.run(ctx)
}

// run delivers events under the Hold of the relay, which it renews meanwhile.
func (r *relay) run(given context.Context) error {
	ctx, stop := context.WithCancelCause(given)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer stop(nil)
	helpers.Go(func() { r.keepHold(ctx, stop) })
	err := r.deliver(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrSuperseded) {
		return cause
	}
	return endOf(given, err)
}

// deliver delivers events from the saved cursor on.
func (r *relay) deliver(ctx context.Context) error {
	select {
	case <-r.tenure.renewed:
	case <-ctx.Done():
		return ctx.Err()
	}
	start, err := r.start(ctx)
	if err != nil {
		return err
	}
	r.updateState(func(s *State) { s.Name, s.Cursor = r.Name, start })
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.watch(watch) })
	if r.drain {
		defer func() {
			if err := r.resendOnce(ctx); err != nil { // they stay marked
				r.warnOfLetters(err)
			}
		}()
	} else {
		watching.Go(func() { r.resend(watch) })
	}
	defer watching.Wait()
	defer stop()
	if sink, ok := r.Sink.(TransactionalSink); ok {
		return (&transactions{relay: r, sink: sink, at: start}).run(ctx)
	}
	return (&delivery{relay: r, at: start, read: start, lanes: make(map[string]*lane)}).run(ctx)
}

// endOf returns err, or nil if err only reports that ctx has ended.
func endOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 30 * time.Second
)

// backoff computes pauses that grow with each failure. The zero value is ready to use.
type backoff struct{ last time.Duration }

// next returns the next pause. It is twice the last one, but at most longestPause, and is
// shortened by a random part of up to a quarter.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstPause), longestPause)
	return b.last - rand.N(b.last/4)
}

// relay has the fields that the types delivery and transactions share.
type relay struct {
	Config
	drain  bool
	tenure *tenure

	mu        sync.Mutex
	state     State
	away      backoff
	awaySince time.Time // when Away was set
	repeats   bool      // events can be sent again that were sent by an earlier run, or before the sink was away
	warned    []string  // of State.Warnings, all so far
}

// start returns the cursor at which the delivery begins. It registers a new name at once,
// so that records that the relay will need are not deleted.
func (r *relay) start(ctx context.Context) (Cursor, error) {
	var saved Saved
	var known bool
	err := r.patient(ctx, func() (err error) {
		saved, known, err = r.Progress.Load(ctx, r.Name)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("events: load the cursor of relay %q: %w", r.Name, err)
	}
	r.updateState(func(s *State) { s.Dead = saved.Dead })
	if sink, ok := r.Sink.(TransactionalSink); ok {
		var committed Cursor
		var has bool
		err := r.repeat(ctx, isRefused, func() (err error) {
			committed, has, err = sink.Committed(ctx, r.CursorKey)
			return err
		})
		if err != nil || has {
			return committed, err
		}
	}
	if known {
		r.mu.Lock()
		r.repeats = true
		r.mu.Unlock()
		return saved.Cursor, nil
	}
	at := r.From.Cursor
	if r.From.Now || !r.From.Time.IsZero() {
		err := r.patient(ctx, func() (err error) {
			at, err = r.Outbox.Find(ctx, r.From.Time)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("events: find where relay %q begins: %w", r.Name, err)
		}
	} else if at != "" { // before the name is registered, check that the outbox can read the cursor
		err := r.patient(ctx, func() error {
			_, _, err := r.Outbox.Read(ctx, at, 1)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("events: begin relay %q at %q: %w", r.Name, at, err)
		}
	}
	err = r.patient(ctx, func() error { return r.tenure.Save(ctx, at, nil) })
	if err != nil {
		return "", fmt.Errorf("events: register relay %q: %w", r.Name, err)
	}
	return at, nil
}

// save saves a cursor and dead letters, and updates the state for OnState.
func (r *relay) save(ctx context.Context, at Cursor, letters []DeadLetter) error {
	if err := r.tenure.Save(ctx, at, letters); err != nil {
		return err
	}
	crash.Point("cursor")
	for _, l := range letters {
		r.Logger.Warn("refused for ever", slog.String("relay", r.Name), slog.String("url", l.Event.Subject), slog.String("reason", l.Reason))
	}
	r.updateState(func(s *State) { s.Cursor = at; s.Dead += uint64(len(letters)) })
	return nil
}

// updateState changes the state that OnState receives.
func (r *relay) updateState(change func(*State)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.state)
}

// awayFrom notes that the sink, the outbox or the progress does not answer, and returns how
// long to wait before the next attempt.
func (r *relay) awayFrom(err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Away == "" {
		r.awaySince = time.Now()
		r.Logger.Warn("the relay waits", slog.String("relay", r.Name), slog.Any("err", err))
	}
	r.state.Away = err.Error()
	r.repeats = r.repeats || !errors.Is(err, context.Canceled)
	if errors.Is(err, errLapsed) {
		return firstPause
	}
	pause := r.away.next()
	if away, ok := errors.AsType[*AwayError](err); ok && away.After > 0 {
		pause = away.After
	}
	return pause
}

// clearAway notes that the sink, the outbox and the progress answer again.
func (r *relay) clearAway() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Away != "" {
		r.Logger.Info("the relay goes on", slog.String("relay", r.Name), slog.Duration("after", time.Since(r.awaySince)))
	}
	r.state.Away, r.away = "", backoff{}
}

// patient calls an operation of the outbox or the progress. It repeats the call as long as
// the error wraps frontier.ErrUnavailable and ctx has not ended.
func (r *relay) patient(ctx context.Context, operation func() error) error {
	return r.repeat(ctx, func(err error) bool { return !errors.Is(err, frontier.ErrUnavailable) }, operation)
}

// repeat calls operation until a call succeeds, isFinal reports true for its error, or ctx
// ends. It pauses between the calls.
func (r *relay) repeat(ctx context.Context, isFinal func(error) bool, operation func() error) error {
	for {
		err := operation()
		if err == nil {
			r.clearAway()
			return nil
		}
		if isFinal(err) {
			return err
		}
		if ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(r.awayFrom(err)):
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// pause waits for new events, but not longer than Poll.
func (r *relay) pause(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.Poll)
	defer cancel()
	if outbox, ok := r.Outbox.(Waiter); ok {
		outbox.Wait(ctx)
		return
	}
	<-ctx.Done()
}

// watch logs the warnings of the sink, and calls OnState, each second and once more at the end. If the outbox takes long to
// count its lag, watch asks for the lag less often.
func (r *relay) watch(ctx context.Context) {
	warner, warns := r.Sink.(WarningSink)
	if r.OnState == nil && !warns {
		return
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var lag Lag
	var nextLag time.Time
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		r.mu.Lock()
		state := r.state
		r.mu.Unlock()
		if began := time.Now(); ended || !began.Before(nextLag) {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
			if got, err := r.Outbox.Lag(last, state.Cursor); err == nil {
				lag = got
			}
			cancel()
			nextLag = time.Now().Add(20 * time.Since(began))
		}
		state.Lag = lag // the result of the last successful call
		if warns {
			state.Warnings = r.warn(warner, lag)
		}
		if r.OnState != nil {
			r.OnState(state)
		}
	}
}

// warn logs the warnings of the sink that are new, and returns all warnings of this run.
func (r *relay) warn(sink WarningSink, lag Lag) []string {
	var behind time.Duration
	r.mu.Lock()
	if r.repeats && !lag.Oldest.IsZero() {
		behind = max(time.Since(lag.Oldest), 0)
	}
	r.mu.Unlock()
	for _, warning := range sink.Warnings(behind) {
		if !slices.Contains(r.warned, warning) {
			r.warned = append(r.warned, warning)
			r.Logger.Warn("delivered may not mean stored once", slog.String("relay", r.Name), slog.String("reason", warning))
		}
	}
	return slices.Clone(r.warned)
}
