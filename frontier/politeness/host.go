package politeness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Host is the state of one host key. It is not safe for concurrent use; the holder of the
// host's lease owns it. Times must not go backwards between calls; if they do, the host
// waits longer, never shorter.
type Host struct {
	policy Policy

	// AppendBinary encodes the next five fields.
	crawlDelay time.Duration // from robots.txt; 0 means none
	latency    time.Duration // smoothed; 0 means not known yet
	backoffs   int           // the next back-off lasts BackoffBase × 2^backoffs, see spread
	failures   int           // requests in a row without a complete answer
	silences   int           // requests in a row without any answer

	// AppendBinary does not encode the last two fields, because the frontier stores the due
	// time.
	lastStart    time.Time // zero means none yet
	backoffUntil time.Time // zero means none
}

// New returns a host without history. policy must be valid (Policy.Validate).
func New(policy Policy) *Host { return &Host{policy: policy} }

// SetPolicy replaces the policy. The history stays: Due follows the new delay at once. A back-off
// that has begun ends as the old policy said.
func (h *Host) SetPolicy(policy Policy) { h.policy = policy }

// Delay returns the present minimum of the time between two starts. It is the longest of the
// policy's delay, the crawl-delay up to its maximum, and LatencyFactor × the smoothed
// latency up to MaxLatencyDelay.
func (h *Host) Delay() time.Duration {
	d := h.policy.Delay
	d = max(d, min(h.crawlDelay, h.policy.MaxCrawlDelay))
	if h.policy.LatencyFactor > 0 {
		slow := min(h.policy.LatencyFactor*float64(h.latency), float64(MaxLatencyDelay))
		d = max(d, time.Duration(slow))
	}
	return d
}

// CrawlDelay sets the crawl-delay of robots.txt; 0 means none. It applies to the next start.
func (h *Host) CrawlDelay(d time.Duration) { h.crawlDelay = max(0, d) }

// Start notes that a request starts now. The caller must call it for every request, even one
// for robots.txt. If the request is sent later (get.Request.Sent), the caller must call Start
// again with the later time.
func (h *Host) Start(now time.Time) {
	if now.After(h.lastStart) {
		h.lastStart = now
	}
}

// NextDue returns the earliest time of the next start. The zero time means now.
func (h *Host) NextDue() time.Time {
	due := h.backoffUntil
	if !h.lastStart.IsZero() {
		if next := h.lastStart.Add(h.Delay()); next.After(due) {
			due = next
		}
	}
	return due
}

// Due returns the time until the next start; 0 means now. It is the value of
// frontier.HostUpdate.Due.
func (h *Host) Due(now time.Time) time.Duration { return max(0, h.NextDue().Sub(now)) }

// BackoffUntil returns when the host's back-off ends. The zero time, or a time that has
// passed, means that no back-off is in progress.
func (h *Host) BackoffUntil() time.Time { return h.backoffUntil }

// Answered notes an answer. latency is the time until the header arrived. retryAfter is the
// value of Retry-After, 0 for none. It counts only if status is 429 or 503. random returns a
// number in [0, 1).
func (h *Host) Answered(now time.Time, latency time.Duration, status int, retryAfter time.Duration, random func() float64) {
	h.Heard()
	h.smooth(latency)
	switch {
	case status == 429, status == 503:
		h.backOff(now, min(retryAfter, h.policy.MaxRetryAfter), random)
	case status == 408, status == 425, status >= 500:
	default:
		// The answer to a request that was in flight when the back-off began does not end the
		// back-off.
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
	h.silences++
	h.backOff(now, 0, random)
}

// Broken notes that a connection was made, but no answer of HTTP began.
// random returns a number in [0, 1).
func (h *Host) Broken(now time.Time, random func() float64) {
	if h.backingOff(now) {
		return
	}
	h.silences++
	h.incomplete(now, random)
}

// Cut notes that an answer began and did not arrive completely.
// random returns a number in [0, 1).
func (h *Host) Cut(now time.Time, random func() float64) {
	h.silences = 0
	if !h.backingOff(now) {
		h.incomplete(now, random)
	}
}

// Heard notes an answer that arrived. Use Answered instead if its status is known.
func (h *Host) Heard() { h.failures, h.silences = 0, 0 }

func (h *Host) incomplete(now time.Time, random func() float64) {
	h.failures++
	if h.failures >= toBackoff {
		h.backOff(now, 0, random)
	}
}

// Dead reports whether the host was silent so often in a row that it is given up.
func (h *Host) Dead() bool { return h.policy.DeadAfter > 0 && h.silences >= h.policy.DeadAfter }

// Failures returns how many requests in a row had no complete answer.
func (h *Host) Failures() int { return h.failures }

// HasAnswered reports whether the host has ever answered.
func (h *Host) HasAnswered() bool { return h.latency > 0 }

// backingOff reports whether a back-off is in progress. During a back-off, Failed and
// Broken ignore failures, because those requests were sent before the back-off began.
func (h *Host) backingOff(now time.Time) bool { return now.Before(h.backoffUntil) }

// backOff starts a back-off, unless one is in progress. In both cases the back-off lasts at
// least until now + minimum.
func (h *Host) backOff(now time.Time, minimum time.Duration, random func() float64) {
	d := minimum
	if !h.backingOff(now) {
		d = max(d, h.policy.spread(h.policy.BackoffBase, 2, h.backoffs, random))
		h.backoffs = min(h.backoffs+1, maxBackoffs)
	}
	if until := now.Add(d); until.After(h.backoffUntil) {
		h.backoffUntil = until
	}
}

// maxBackoffs bounds Host.backoffs. In practice, a back-off with this exponent lasts
// BackoffMax.
const maxBackoffs = 32

// smooth updates the average latency, in which the last answer has a weight of a quarter.
func (h *Host) smooth(latency time.Duration) {
	latency = max(0, latency)
	if h.latency == 0 {
		h.latency = latency
		return
	}
	h.latency += (latency - h.latency) / 4
}

// blobVersion is the first byte of the encoding.
const blobVersion = 2

// ErrBlob reports bytes that were not written by AppendBinary, or were written by a later
// version of it.
var ErrBlob = errors.New("politeness: not the state of a host")

// AppendBinary appends the state of the host to b, at most 35 bytes. The state contains no
// times, because clocks differ. The frontier stores Due instead, and does not lease the host
// earlier.
func (h *Host) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, blobVersion)
	b = binary.AppendUvarint(b, uint64(h.crawlDelay/time.Millisecond))
	b = binary.AppendUvarint(b, uint64(h.latency/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(h.backoffs))
	b = binary.AppendUvarint(b, uint64(h.failures))
	b = binary.AppendUvarint(b, uint64(h.silences))
	return b, nil
}

// MarshalBinary returns the result of AppendBinary.
func (h *Host) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary sets the state of the host from the bytes of AppendBinary. The bytes contain
// no times, so the host is due now. After an error, which wraps ErrBlob, h is unchanged.
func (h *Host) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] != blobVersion {
		return fmt.Errorf("%w: %x", ErrBlob, b[:min(len(b), 16)])
	}
	rest := b[1:]
	var fields [5]uint64
	for i, most := range [5]uint64{
		maxStored / uint64(time.Millisecond), maxStored / uint64(time.Microsecond), maxBackoffs, 1 << 31, 1 << 31,
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
		silences:   int(fields[4]),
	}
	return nil
}

// maxStored is the longest duration that a blob can hold, in nanoseconds.
const maxStored = uint64(1<<63 - 1)
