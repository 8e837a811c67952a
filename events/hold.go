package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Hold is the right of one caller to run a relay: see Progress.Acquire. It has a term, which
// is a number that grows with each Acquire of the name. After another caller has acquired the
// name, the methods of the old Hold return an error that wraps ErrSuperseded. A Hold is safe
// for concurrent use.
type Hold interface {
	// Term returns the term, from 1.
	Term() uint64
	// Renew confirms that the caller still has the right. The result lasts is the time, counted
	// from the beginning of the call, for which no other caller can acquire the name. When this
	// time is over, the caller must send no more events until another Renew succeeds.
	Renew(ctx context.Context) (lasts time.Duration, err error)
	// Save sets the cursor of the relay and adds letters to its dead letters, in one step. It
	// registers the relay if the name is new. It changes nothing if it returns ErrSuperseded.
	Save(ctx context.Context, cursor Cursor, letters []DeadLetter) error
	// Release ends the right, so that another caller can acquire the name at once.
	Release(ctx context.Context) error
}

var (
	// ErrLocked reports that another caller runs the relay.
	ErrLocked = errors.New("events: another process runs this relay: end it, or choose another name")
	// ErrSuperseded reports that another caller has taken over the relay, because this one was
	// silent for too long.
	ErrSuperseded = errors.New("events: another process has taken over this relay")
	// errLapsed reports that a Hold was not renewed in time. Another caller may have taken over
	// the relay, or may do so.
	errLapsed = errors.New("events: it is not known whether this process still runs the relay")
)

const (
	// renewEvery is the longest time between two calls of Hold.Renew.
	renewEvery = time.Second
	// renewTime is the longest time to wait for the answer of Hold.Renew.
	renewTime = 2 * time.Second
	// renewParts is the number of calls of Hold.Renew that fit into the time for which one call
	// confirms a Hold.
	renewParts = 4
)

// tenure is a Hold of a running relay. It knows whether the relay may send events now.
type tenure struct {
	Hold
	renewed chan struct{} // closed when the Hold was renewed for the first time
	first   sync.Once     // closes renewed

	mu     sync.Mutex
	until  time.Time          // the Hold is valid until then
	expiry *time.Timer        // calls lapse at that time
	ctx    context.Context    // of the calls of Sink that are under way; nil after a lapse
	cancel context.CancelFunc // ends ctx
}

func newTenure(hold Hold) *tenure { return &tenure{Hold: hold, renewed: make(chan struct{})} }

// valid reports whether the Hold is valid now. The caller must hold mu. The wall clock counts
// too, because the monotonic clock stands still while the computer sleeps.
func (t *tenure) valid() bool {
	now := time.Now()
	return now.Before(t.until) && now.Round(0).Before(t.until.Round(0))
}

// begin returns a context for a call of the Sink. The context also ends when the Hold stops
// being valid, with the cause errLapsed. begin returns errLapsed if the relay must not send
// events now.
func (t *tenure) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if t.ctx == nil || !t.valid() {
		return nil, nil, errLapsed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(t.ctx, func() { cancel(errLapsed) })
	return ctx, func() { stop(); cancel(nil) }, nil
}

// renew renews the Hold.
func (t *tenure) renew(ctx context.Context) (lasts time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	began := time.Now()
	if lasts, err = t.Renew(ctx); err == nil {
		t.extend(began.Add(lasts))
	}
	return lasts, err
}

// extend notes that the Hold is valid until a time.
func (t *tenure) extend(until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = until
	if t.expiry != nil {
		t.expiry.Stop()
	}
	t.expiry = time.AfterFunc(time.Until(until), t.lapse)
	if t.ctx == nil {
		t.ctx, t.cancel = context.WithCancel(context.Background())
	}
	t.first.Do(func() { close(t.renewed) })
}

// lapse ends the calls of the Sink that are under way, if the Hold is not valid any more.
func (t *tenure) lapse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx != nil && !t.valid() {
		t.cancel()
		t.ctx = nil
	}
}

// release ends the Hold. If that is not possible now, the Hold ends by itself some time later.
func (t *tenure) release(ctx context.Context) error {
	t.mu.Lock()
	if t.expiry != nil {
		t.expiry.Stop()
	}
	if t.ctx != nil {
		t.cancel()
	}
	t.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	err := t.Release(ctx)
	if errors.Is(err, frontier.ErrUnavailable) || errors.Is(err, ErrSuperseded) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// keepHold renews the Hold of the relay until ctx ends. If another caller has taken over the
// relay, keepHold calls stop with ErrSuperseded, and returns.
func (r *relay) keepHold(ctx context.Context, stop context.CancelCauseFunc) {
	for ctx.Err() == nil {
		began, pause := time.Now(), renewEvery
		lasts, err := r.tenure.renew(ctx)
		switch {
		case err == nil:
			pause = min(pause, lasts/renewParts)
		case errors.Is(err, ErrSuperseded):
			stop(err)
			return
		case ctx.Err() == nil:
			pause = firstPause
			r.noteRenewal(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(pause))):
		}
	}
}

// noteRenewal notes an error of Hold.Renew, if the relay cannot send events because of it.
func (r *relay) noteRenewal(err error) {
	r.tenure.mu.Lock()
	sends := r.tenure.ctx != nil && r.tenure.valid()
	r.tenure.mu.Unlock()
	if !sends {
		r.awayFrom(fmt.Errorf("%w: %w", errLapsed, err))
	}
}

// send passes events to the Sink while the Hold is valid.
func (r *relay) send(ctx context.Context, events []Event) []error {
	sending, cancel, err := r.tenure.begin(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(events))
	}
	defer cancel()
	errs := r.Sink.Send(sending, events)
	for i, err := range errs {
		if err != nil && !isRefused(err) && context.Cause(sending) == errLapsed {
			errs[i] = errLapsed
		}
	}
	return errs
}
