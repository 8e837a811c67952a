package fetcher

import (
	"testing"
	"time"
)

// TestBandwidthOverTime runs a hundred requesters in simulated time. After 30 s, the
// bytes received are at least nine tenths of what the bandwidth allows. They are at most
// what it allows for 31 s, plus one answer for each requester.
func TestBandwidthOverTime(t *testing.T) {
	const perSecond, size, requesters = 1_000_000, 50_000, 100
	var read int64
	b := newBandwidth(perSecond, func() int64 { return read })
	now := time.Unix(0, 0)
	begun := now
	over := make([]time.Time, requesters) // by requester: when its answer is complete; zero while it waits
	for now.Sub(begun) < 30*time.Second {
		for i := range over {
			if !over[i].IsZero() && !now.Before(over[i]) {
				read += size
				b.end()
				over[i] = time.Time{}
			}
			if over[i].IsZero() && b.begin(now) == 0 {
				over[i] = now.Add(200 * time.Millisecond)
			}
		}
		now = now.Add(10 * time.Millisecond)
	}
	took := now.Sub(begun).Seconds()
	// Each requester begins its first request before the first answer is complete. These
	// requests may receive requesters*size bytes in addition.
	most := perSecond*(took+1) + requesters*size
	if got := float64(read); got > most || got < 0.9*perSecond*took {
		t.Errorf("%d bytes in %.0f s, want %.0f to %.0f", read, took, 0.9*perSecond*took, most)
	}
}

// TestBandwidthSaysWhenToAsk: the wait is bounded, so that no caller asks again too
// late.
func TestBandwidthSaysWhenToAsk(t *testing.T) {
	var read int64
	b := newBandwidth(1000, func() int64 { return read })
	now := time.Unix(0, 0)
	if wait := b.begin(now); wait != 0 {
		t.Errorf("the first request waits for %v, want 0", wait)
	}
	read = 1_000_000
	b.end()
	if wait := b.begin(now); wait != bandwidthSpan {
		t.Errorf("with a debt of 1000 s the wait is %v, want %v", wait, bandwidthSpan)
	}
	if wait := b.begin(now.Add(1000 * time.Second)); wait != 0 {
		t.Errorf("after 1000 s a request waits for %v, want 0", wait)
	}
}
