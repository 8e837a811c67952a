package fetcher

import (
	"context"
	"sync"
	"time"
)

// bandwidth limits the bytes per second that the requests of a worker receive, on
// average. No request starts while more bytes were received than the limit allows, or
// while the requests under way are expected to exceed it. It does not slow down an
// answer that is being received, because that would look like a slow server. It reads
// no clock.
type bandwidth struct {
	perSecond float64      // bytes
	read      func() int64 // bytes received so far

	mu       sync.Mutex
	credit   float64 // bytes that can be received now; negative if too many were received
	seen     int64   // the last result of read
	last     time.Time
	asked    int64 // requests that began
	underway int64 // requests that began and have not ended
}

const (
	// bandwidthSpan is how long unused bandwidth can be used later.
	bandwidthSpan = time.Second
	// bandwidthPoll is the shortest wait that begin returns, except 0.
	bandwidthPoll = 10 * time.Millisecond
)

func newBandwidth(perSecond int64, read func() int64) *bandwidth {
	return &bandwidth{perSecond: float64(perSecond), read: read, credit: float64(perSecond) * bandwidthSpan.Seconds(), seen: read()}
}

// begin counts a request as started and returns 0, or returns how long to wait before
// the next call.
func (b *bandwidth) begin(now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.last.IsZero() {
		b.last = now
	}
	read := b.read()
	b.credit += now.Sub(b.last).Seconds()*b.perSecond - float64(read-b.seen)
	b.credit = min(b.credit, b.perSecond*bandwidthSpan.Seconds())
	b.last, b.seen = now, read
	mean := 0.0
	if over := b.asked - b.underway; over > 0 {
		mean = float64(read) / float64(over)
	}
	free := b.credit - float64(b.underway)*mean
	if free > 0 {
		b.asked++
		b.underway++
		return 0
	}
	wait := time.Duration(-free / b.perSecond * float64(time.Second))
	return min(max(wait, bandwidthPoll), bandwidthSpan)
}

// end counts a request as ended.
func (b *bandwidth) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underway--
}

// awaitBandwidth waits until the worker's bandwidth lets another request start.
func (h *holding) awaitBandwidth(stop context.Context) error {
	for {
		wait := h.bandwidth.begin(time.Now())
		if wait == 0 {
			return nil
		}
		h.tally.overdrawn.Add(1)
		pause(stop, wait)
		h.tally.overdrawn.Add(-1)
		if stop.Err() != nil {
			return errStop
		}
	}
}
