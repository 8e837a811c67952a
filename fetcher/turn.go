package fetcher

import (
	"context"
	"errors"
	"math"
	"time"
)

// lastSecond is the time before the end of a lease in which no more requests start.
const lastSecond = time.Second

const (
	// maxPark is the longest wait for a host's delay during which the lease is kept.
	maxPark = 20 * time.Second
	// forever, as the argument patience of the method turn, means that no wait is too long.
	// It is for requests that continue earlier ones, such as the next hop of a redirected
	// robots.txt.
	forever time.Duration = math.MaxInt64
)

// A turn returns how long the next request must still wait. If that is 0 and start is
// true, the turn notes that a request starts now, and the caller must start it. An error
// means that no request may start under this lease.
type turn func(start bool) (wait time.Duration, err error)

// begin waits until a request may start and notes its start. On success the caller has a
// place in h.asks, a place in h.room and a share of the host's slot. It must call the
// function end when the request is over. This call gives everything back except the
// place in h.room, which the visit keeps until it is completed.
func (h *holding) begin(stop context.Context, next turn) (end func(), err error) {
	if !h.room.enter(stop) {
		return nil, errStop
	}
	if !h.asks.enter(stop) {
		h.room.leave()
		return nil, errStop
	}
	if end, err = h.beginRequest(stop, next); err != nil {
		h.room.leave()
	}
	return end, err
}

// beginRequest is begin for a caller that has its places in h.room and h.asks. After an error the
// place in h.asks is given back.
func (h *holding) beginRequest(stop context.Context, next turn) (end func(), err error) {
	if err := h.takeTurn(stop, next); err != nil {
		h.asks.leave()
		return nil, err
	}
	stopTiming := h.timeRequest()
	return func() {
		stopTiming()
		h.repay()
		h.dropSlot()
		h.asks.leave()
	}, nil
}

// takeTurn waits for the slot, for the host, and for the worker's rate and bandwidth. It
// waits for rate and bandwidth last, because a request with a share of them must start
// at once. A request starts when it opens its connection. Before the request is written,
// it can wait for the host once more (see reserve).
func (h *holding) takeTurn(stop context.Context, next turn) (err error) {
	if err := h.takeSlot(stop); err != nil {
		return err
	}
	free, paid := h.limiter == nil && h.bandwidth == nil, false
	defer func() {
		if err != nil && paid {
			h.repay()
		}
	}()
	for {
		waited, err := h.await(stop)
		if err != nil {
			return err
		}
		if stop.Err() != nil { // the slot may have become free at the moment of the stop
			h.dropSlot()
			return errStop
		}
		if paid && waited { // a share must be used at once
			h.repay()
			paid = false
		}
		wait, err := next(paid || free)
		switch {
		case err != nil:
			h.dropSlot()
			return err
		case wait > 0:
			// A host that waits for its delay takes no slot from others.
			h.dropSlot()
			if paid {
				h.repay()
				paid = false
			}
			h.park(stop, wait)
			if err := h.takeSlot(stop); err != nil {
				return err
			}
		case paid || free:
			return nil
		default:
			if err := h.pay(stop); err != nil {
				h.dropSlot()
				return err
			}
			paid = true
		}
	}
}

// turn returns the turn of the lease's own host. The turn returns an error if the wait is
// longer than both patience and half of the lease.
func (h *holding) turn(patience time.Duration) turn {
	return func(start bool) (time.Duration, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		now := time.Now()
		h.obey()
		own, delay := h.ownDue(now), h.host.Delay()
		switch {
		case h.lost, h.failure != nil, h.deadline.Sub(now) < lastSecond:
			return 0, errStop
		case h.host.Dead():
			return 0, errDead
		case h.host.BackoffUntil().After(now):
			return 0, errStop
		}
		wait := max(own, h.cfg.Pass.Start(h.lease.Host, delay, own, now, start && own == 0))
		switch {
		case wait > patience && wait > h.lease.TTL/2:
			return 0, errStop
		case wait == 0 && start:
			h.host.Start(now)
		case wait > 0:
			h.tally.delay.Store(int64(delay))
		}
		return wait, nil
	}
}

// permit returns an error if a request must not be written any more, because Run was
// stopped, the lease is over, the host is in a back-off or paused, or the policy may be old. After its turn, the request may
// have waited for a connection, or the process may have been suspended. Meanwhile another
// worker may have leased the host, or the host may have answered another request with 429.
func (h *holding) permit() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.unconfirmed() != nil || h.stopping.Err() != nil || h.lost || !now.Before(h.deadline) || h.host.BackoffUntil().After(now) ||
		h.cfg.Policy().HostPaused(h.lease.Host) {
		return errStop
	}
	return nil
}

// reserve returns when a request may be written. The request already has its connection. The
// time is now, unless that is too soon: the time since the previous request must be at least
// the argument delay. The turns of the two requests were that far apart, but the previous
// request may have waited longer for its connection. If a new policy has a longer delay, the time
// since the previous request is at least that. The request counts as started at the returned time,
// and the caller must not write it earlier.
func (h *holding) reserve(delay time.Duration) (at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delay = max(delay, h.obey().host.Politeness.Delay)
	at = time.Now()
	if next := h.written.Add(delay); next.After(at) {
		at = next
	}
	at = h.cfg.Pass.Reserve(h.lease.Host, max(delay, h.host.Delay()), at)
	h.written = at
	h.host.Start(at)
	return at
}

// delay returns the delay of the host.
func (h *holding) delay() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host.Delay()
}

// dueIn returns how long the host must still wait. The caller must hold mu.
func (h *holding) dueIn(now time.Time) time.Duration {
	return max(h.ownDue(now), h.cfg.Pass.Wait(h.lease.Host, h.host.Delay(), now))
}

// ownDue returns how long the host must still wait because of this worker's own requests. The caller must hold mu.
func (h *holding) ownDue(now time.Time) time.Duration {
	return max(h.host.Due(now), h.notBefore.Sub(now), 0)
}

// park waits for the host's delay.
func (h *holding) park(stop context.Context, d time.Duration) {
	h.setParked(true)
	parked := time.Now()
	pause(stop, d)
	h.setParked(false)
	h.tally.count(h.tally.hosts.Waiting, h.lease.Host, uint64(time.Since(parked).Milliseconds()))
}

// pay waits for this request's share of the worker's rate and bandwidth. It does
// not call Limiter.Wait, which fails at once if the wait would exceed the
// deadline of ctx.
func (h *holding) pay(ctx context.Context) error {
	if h.limiter != nil {
		h.tally.paying.Add(1)
		defer h.tally.paying.Add(-1)
		share := h.limiter.Reserve()
		pause(ctx, share.Delay())
		if ctx.Err() != nil {
			share.Cancel()
			return errStop
		}
	}
	if h.bandwidth != nil {
		return h.awaitBandwidth(ctx)
	}
	return nil
}

// repay gives back the share of the bandwidth when the request is over, or when it does
// not start.
func (h *holding) repay() {
	if h.bandwidth != nil {
		h.bandwidth.end()
	}
}

// errBusy reports that a robots.txt redirects to a host that is not due soon.
var errBusy = errors.New("it redirects to a host that is not due soon")
