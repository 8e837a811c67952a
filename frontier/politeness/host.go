package politeness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Host is what is known of one host key. It is not safe for concurrent use;
// whoever holds the host's lease owns it. Times must not go backwards between
// calls; if they do, the host waits longer, never shorter.
type Host struct {
	policy Policy

	// What AppendBinary keeps.
	crawlDelay time.Duration // as robots.txt has it, 0: none
	latency    time.Duration // smoothed, 0: not known yet
	backoffs   int           // n of the next back-off
	failures   int           // in a row

	// What it does not: the frontier's due time carries it.
	lastStart    time.Time // zero: none yet
	backoffUntil time.Time // zero: none
}

// New returns a host that was never asked. Policy must be without fault
// (Policy.WithDefaults).
func New(policy Policy) *Host { return &Host{policy: policy.filled()} }

// Delay returns the least time between two starts now: the longest of the
// policy's delay, the crawl-delay up to its maximum, and LatencyFactor × the
// smoothed latency up to MaxLatencyDelay.
func (h *Host) Delay() time.Duration {
	d := max(0, h.policy.Delay)
	if h.policy.MaxCrawlDelay > 0 {
		d = max(d, min(h.crawlDelay, h.policy.MaxCrawlDelay))
	}
	if h.policy.LatencyFactor > 0 {
		slow := min(h.policy.LatencyFactor*float64(h.latency), float64(MaxLatencyDelay))
		d = max(d, time.Duration(slow))
	}
	return d
}

// CrawlDelay sets what robots.txt asks for; 0 is no wish. It holds for the
// next start already.
func (h *Host) CrawlDelay(d time.Duration) { h.crawlDelay = max(0, d) }

// Start notes that a request starts now. Call it for every request, robots.txt
// too, and again when the moment moved on (get.Request.Sent): the last call
// counts.
func (h *Host) Start(now time.Time) {
	if now.After(h.lastStart) {
		h.lastStart = now
	}
}

// NextDue returns the earliest time of the next start; the zero time means at once.
func (h *Host) NextDue() time.Time {
	due := h.backoffUntil
	if !h.lastStart.IsZero() {
		if next := h.lastStart.Add(h.Delay()); next.After(due) {
			due = next
		}
	}
	return due
}

// Due returns how long until the next start may be; 0 means now. It is what
// frontier.HostUpdate.Due wants.
func (h *Host) Due(now time.Time) time.Duration { return max(0, h.NextDue().Sub(now)) }

// BackoffUntil returns when the host's back-off ends; the zero time, or one
// that has passed, means that there is none.
func (h *Host) BackoffUntil() time.Time { return h.backoffUntil }

// Answered notes an answer: how long its header took, its status, and its
// Retry-After, 0 for none, which counts for 429 and 503 only.
// random returns a number in [0, 1).
func (h *Host) Answered(now time.Time, latency time.Duration, status int, retryAfter time.Duration, random func() float64) {
	h.failures = 0
	h.smooth(latency)
	switch {
	case status == 429, status == 503:
		h.backOff(now, min(retryAfter, h.policy.MaxRetryAfter), random)
	case status == 408, status == 425, status >= 500:
	default:
		// A request that was in flight when the host asked for peace says
		// nothing about that wish.
		if !h.backingOff(now) {
			h.backoffs = 0
		}
	}
}

// Failed notes that no connection to the host could be made.
// random returns a number in [0, 1).
func (h *Host) Failed(now time.Time, random func() float64) {
	if h.backingOff(now) {
		return
	}
	h.failures++
	h.backOff(now, 0, random)
}

// Broken notes that a connection was made and no whole answer came.
// random returns a number in [0, 1).
func (h *Host) Broken(now time.Time, random func() float64) {
	if h.backingOff(now) {
		return
	}
	h.failures++
	if h.failures >= toBackoff {
		h.backOff(now, 0, random)
	}
}

// Dead reports whether the host has failed so often in a row that it is given up.
func (h *Host) Dead() bool { return h.policy.DeadAfter > 0 && h.failures >= h.policy.DeadAfter }

// Failures returns how many requests in a row got no whole answer.
func (h *Host) Failures() int { return h.failures }

// HasAnswered reports whether an answer of the host is known that took any time.
func (h *Host) HasAnswered() bool { return h.latency > 0 }

// Revive gives a dead host another chance, for when its failed items are
// offered again.
func (h *Host) Revive() { h.failures, h.backoffs = 0, 0 }

// backingOff reports whether a back-off runs. What happens to requests that
// were then still in flight is the same misfortune: it is counted once.
func (h *Host) backingOff(now time.Time) bool { return now.Before(h.backoffUntil) }

// backOff starts a back-off of at least least, or prolongs the one that runs.
func (h *Host) backOff(now time.Time, least time.Duration, random func() float64) {
	d := least
	if !h.backingOff(now) {
		d = max(d, h.policy.spread(h.policy.BackoffBase, 2, h.backoffs, random))
		h.backoffs = min(h.backoffs+1, maxBackoffs)
	}
	if until := now.Add(d); until.After(h.backoffUntil) {
		h.backoffUntil = until
	}
}

// maxBackoffs keeps n small; 2³² × any base is beyond any BackoffMax.
const maxBackoffs = 32

// smooth takes latency into an average that gives the last answer a quarter.
func (h *Host) smooth(latency time.Duration) {
	latency = max(0, latency)
	if h.latency == 0 {
		h.latency = latency
		return
	}
	h.latency += (latency - h.latency) / 4
}

// blobVersion is the first byte of what AppendBinary appends.
const blobVersion = 1

// ErrBlob reports bytes that AppendBinary did not make, or a later version did.
var ErrBlob = errors.New("politeness: not the state of a host")

// AppendBinary appends what is known of the host to b, 30 bytes at most. It has
// no time in it, for clocks differ: Due tells the frontier, which hands the
// host out again no earlier.
func (h *Host) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, blobVersion)
	b = binary.AppendUvarint(b, uint64(h.crawlDelay/time.Millisecond))
	b = binary.AppendUvarint(b, uint64(h.latency/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(h.backoffs))
	b = binary.AppendUvarint(b, uint64(h.failures))
	return b, nil
}

// MarshalBinary returns what AppendBinary appends.
func (h *Host) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary sets what is known of the host to what AppendBinary
// appended. Starts and back-off are then unknown: the host is due.
// On error, ErrBlob, h is unchanged.
func (h *Host) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != blobVersion {
		return fmt.Errorf("%w: %x", ErrBlob, b[:min(len(b), 16)])
	}
	rest := b[1:]
	var fields [4]uint64
	for i, most := range [4]uint64{
		maxStored / uint64(time.Millisecond), maxStored / uint64(time.Microsecond), maxBackoffs, 1 << 31,
	} {
		v, n := binary.Uvarint(rest)
		if n <= 0 || v > most {
			return fmt.Errorf("%w: %x", ErrBlob, b[:min(len(b), 16)])
		}
		fields[i], rest = v, rest[n:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes too many", ErrBlob, len(rest))
	}
	*h = Host{
		policy:     h.policy,
		crawlDelay: time.Duration(fields[0]) * time.Millisecond,
		latency:    time.Duration(fields[1]) * time.Microsecond,
		backoffs:   int(fields[2]),
		failures:   int(fields[3]),
	}
	return nil
}

// maxStored is the longest duration that a blob may hold.
const maxStored = uint64(1<<63 - 1)
