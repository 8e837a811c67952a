package fetcher

import (
	"context"
	"errors"
	"math"
	"time"
)

// lastSecond is the part of a lease in which nothing is started any more.
const lastSecond = time.Second

const (
	// maxPark is the longest wait for a host's delay that keeps its lease.
	maxPark = 20 * time.Second
	// forever is for a request without which those before it were in vain.
	forever time.Duration = math.MaxInt64
)

// A turn says how long the next start must still wait. With start, a wait of 0
// is taken: the start is noted, and the caller has to make it now. An error:
// there will be none under this lease.
type turn func(start bool) (wait time.Duration, err error)

// begin waits until a request may start and notes that it does. On success the
// caller owns one of asks, one of room and a share of the host's slot; end, which
// it calls when the request is over, gives back all but room, for what the request
// brought may still need that.
func (h *holding) begin(stop context.Context, next turn) (end func(), err error) {
	for _, gate := range []chan struct{}{h.room, h.asks} {
		select {
		case gate <- struct{}{}:
		case <-stop.Done():
			if gate == h.asks {
				<-h.room
			}
			return nil, errStop
		}
	}
	if err := h.takeTurn(stop, next); err != nil {
		<-h.asks
		<-h.room
		return nil, err
	}
	asked := h.timeRequest()
	return func() {
		asked()
		h.repay()
		h.dropSlot()
		<-h.asks
	}, nil
}

// takeTurn waits for the slot, the host and the worker's rate and bandwidth, these
// last, because a request with a share of them must start at once.
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
		if stop.Err() != nil { // the slot and the stop may have come at one moment
			h.dropSlot()
			return errStop
		}
		if paid && waited { // a share does not keep
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

// turn is the turn of the lease's own host, for who waits no longer than patience.
func (h *holding) turn(patience time.Duration) turn {
	return func(start bool) (time.Duration, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		now := time.Now()
		wait := h.dueIn(now)
		switch {
		case h.lost, h.failure != nil, h.deadline.Sub(now) < lastSecond:
			return 0, errStop
		case h.host.Dead():
			return 0, errDead
		case h.host.BackoffUntil().After(now), wait > patience && wait > h.lease.TTL/2:
			return 0, errStop
		case wait == 0 && start:
			h.host.Start(now)
		case wait > 0:
			h.tally.delay.Store(int64(h.host.Delay()))
		}
		return wait, nil
	}
}

// permit keeps a request from being written after the stop, or under a lease that
// is over. Since its turn came it may have waited for a connection, or this process
// stood still: the host can be another worker's by now.
func (h *holding) permit() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopping.Err() != nil || h.lost || !time.Now().Before(h.deadline) {
		return errStop
	}
	return nil
}

// dueIn returns how long the host must still wait; mu is held.
func (h *holding) dueIn(now time.Time) time.Duration {
	return max(h.host.Due(now), h.notBefore.Sub(now), 0)
}

// park waits for the host's delay.
func (h *holding) park(stop context.Context, d time.Duration) {
	h.ready.Add(-1)
	h.Wake()
	parked := time.Now()
	pause(stop, d)
	h.ready.Add(1)
	h.tally.count(waitingOf, h.lease.Host, uint64(time.Since(parked).Milliseconds()))
}

// pay waits for this request's share of the worker's rate and bandwidth.
// (Limiter.Wait would refuse at once a wait beyond the deadline of stop.)
func (h *holding) pay(stop context.Context) error {
	if h.limiter != nil {
		h.tally.paying.Add(1)
		defer h.tally.paying.Add(-1)
		share := h.limiter.Reserve()
		pause(stop, share.Delay())
		if stop.Err() != nil {
			share.Cancel()
			return errStop
		}
	}
	if h.bandwidth != nil {
		return h.awaitBandwidth(stop)
	}
	return nil
}

// repay gives the share of the bandwidth back, when the request is over or does
// not start.
func (h *holding) repay() {
	if h.bandwidth != nil {
		h.bandwidth.end()
	}
}

// errBusy says that a host of another lease cannot be asked soon.
var errBusy = errors.New("it redirects to a host that is not due soon")
