package fetcher

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
)

// outage records whether a part, such as the store, is down. The worker uses it to log
// the beginning and the end of an outage once each. The zero value means that the part
// works.
type outage struct {
	began atomic.Int64 // Unix time in ns; 0 means that it works
}

// begin notes that the part is down, and reports whether it worked until now.
func (o *outage) begin(now time.Time) (first bool) {
	return o.began.CompareAndSwap(0, now.UnixNano())
}

// end notes that the part works, and reports whether it was down until now, and for how
// long.
func (o *outage) end(now time.Time) (lasted time.Duration, was bool) {
	if o.began.Load() == 0 { // the usual case
		return 0, false
	}
	began := o.began.Swap(0)
	return now.Sub(time.Unix(0, began)).Round(time.Millisecond), began != 0
}

// lasts returns for how long the part has been down; 0 means that it works.
func (o *outage) lasts(now time.Time) time.Duration {
	began := o.began.Load()
	if began == 0 {
		return 0
	}
	return max(now.Sub(time.Unix(0, began)), 1)
}

// noteStore logs that the store is unavailable, or that it is available again. While calls wait for it,
// it is unavailable, even if another call succeeds: a part of it may be away, such as the exact set.
func (c *Crawl) noteStore(err error) {
	now := time.Now()
	switch {
	case errors.Is(err, frontier.ErrUnavailable):
		if c.storeAway.begin(now) {
			c.cfg.Logger.Warn("store unavailable", slog.Any("err", err))
		}
		if c.backlog.isFull() && c.backlogFull.begin(now) {
			c.cfg.Logger.Warn("no request starts until the store answers: the pages that wait for it fill their memory")
		}
	case err == nil && c.awaitingStore.Load() == 0:
		c.backlogFull.end(now)
		if lasted, was := c.storeAway.end(now); was {
			c.cfg.Logger.Info("store answers again", slog.Duration("after", lasted))
		}
	}
}

// noteMachine logs that this machine cannot make requests (get.Fault.Local) or, if err is
// nil, that it can again.
func (c *Crawl) noteMachine(err error) {
	now := time.Now()
	if err != nil {
		if c.machineDown.begin(now) {
			c.cfg.Logger.Warn("this machine cannot make requests", slog.Any("err", err))
		}
	} else if lasted, was := c.machineDown.end(now); was {
		c.cfg.Logger.Info("this machine can make requests again", slog.Duration("after", lasted))
	}
}

// whyDown returns why this machine cannot make requests, or "" if it can. busy is the number
// of hosts that occupy a slot. While most of these hosts wait for the machine, the outage
// continues even if one host answers, because its connection may be older than the outage.
func (c *Crawl) whyDown(busy int) string {
	cause := c.machineCause.Load()
	if cause == nil || c.machineDown.began.Load() == 0 && 2*c.awaitingMachine.Load() <= int64(busy) {
		return ""
	}
	return *cause
}

// noteHost logs that the host does not answer requests for pages, or that it answers them
// again. A single page without an answer says nothing about a host that has answered
// before.
func (h *holding) noteHost(err error) {
	fault := get.Classify(err)
	if err == nil {
		h.noteMachine(nil)
	} else if !fault.Retry || fault.Stale || fault.Local {
		return
	}
	h.mu.Lock()
	before := h.cause
	switch backsOff := h.host.BackoffUntil().After(time.Now()); {
	case err == nil && h.host.Blocked(): // noteWall has set the cause
	case err == nil:
		h.cause = ""
	case before != "" || backsOff || h.host.Dead() || !h.host.HasAnswered():
		h.cause = clip(causeOf(err))
	}
	h.changed = h.changed || h.cause != before
	after := h.cause
	h.mu.Unlock()
	switch {
	case before == "" && after != "":
		h.cfg.Logger.Warn("host does not answer", slog.String("host", h.lease.Host), slog.String("err", after))
	case before != "" && after == "":
		h.cfg.Logger.Info("host answers again", slog.String("host", h.lease.Host))
	}
}

// noteLasting counts and logs a failure of the host that further attempts would not change. It returns
// the cause.
func (h *holding) noteLasting(cause string) string {
	h.tally.failed(h.lease.Host, cause)
	h.cfg.Logger.Warn("host cannot be reached", slog.String("host", h.lease.Host), slog.String("err", cause))
	return cause
}

// noteOrigin counts a request for robots.txt. It logs the first failure and the recovery.
// If several origins of a host fail, it logs only the first failure and the last recovery.
// previous is the number of failures in a row before this request.
func (h *holding) noteOrigin(origin string, previous int) {
	h.mu.Lock()
	state := h.origin(origin)
	failures, cause := state.Failures(), state.Cause()
	again := state.AskIn(time.Now()).Round(time.Second)
	others := false
	for name, other := range h.origins {
		others = others || name != origin && other.Failures() > 0
	}
	h.mu.Unlock()
	if failures > 0 {
		h.tally.failed(h.lease.Host, "robots.txt: "+cause)
	} else {
		h.tally.answered.Store(true)
	}
	switch {
	case others:
	case failures > 0 && previous == 0:
		h.cfg.Logger.Warn("robots.txt failed", slog.String("origin", origin), slog.String("err", cause), slog.Duration("next_try_in", again))
	case failures == 0 && previous > 0:
		h.cfg.Logger.Info("robots.txt answers again", slog.String("origin", origin), slog.Int("failed_attempts", previous))
	}
}

// lastCause returns why the host's last request failed, or "" if that is not known.
func (h *holding) lastCause() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cause != "" {
		return h.cause
	}
	for _, state := range h.origins {
		if cause := state.Cause(); cause != "" {
			return "robots.txt: " + cause
		}
	}
	return ""
}

// causeOf returns the text of a request's error. It leaves out the step get.OpConnect, because
// the text after this step usually names the host or the address.
func causeOf(err error) string {
	if fault, ok := errors.AsType[*get.Error](err); ok && fault.Op == get.OpConnect {
		err = fault.Err
	}
	return err.Error()
}

// backoff is the time between calls while a store is unavailable: 100 ms to 10 s.
type backoff struct{ last time.Duration }

func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, 100*time.Millisecond), 10*time.Second)
	return b.last
}

// whileUnavailable repeats a call until the store is available, or ctx ends.
func (c *Crawl) whileUnavailable(ctx context.Context, call func() error) error {
	waits := false
	for outage := (backoff{}); ; pause(ctx, outage.next()) {
		err := call()
		if !errors.Is(err, frontier.ErrUnavailable) || ctx.Err() != nil {
			if waits {
				c.awaitingStore.Add(-1)
				c.noteStore(err)
			}
			return err
		}
		if !waits {
			waits = true
			c.awaitingStore.Add(1)
		}
		c.noteStore(err)
	}
}

// admitted asks the store which keys are in scope. It waits while the store is unavailable.
func (c *Crawl) admitted(ctx context.Context, keys []string) (admitted []bool, err error) {
	err = c.whileUnavailable(c.hard, func() (err error) {
		admitted, err = c.cfg.Scope.Admitted(ctx, keys)
		return err
	})
	return admitted, err
}

// storeFailed notes an error of the store, and returns errStop. It does not note the error if
// requests were aborted, because the abort has probably caused the error.
func (h *holding) storeFailed(err error) error {
	if h.hard.Err() == nil {
		h.noteFailure(err)
	}
	return errStop
}
