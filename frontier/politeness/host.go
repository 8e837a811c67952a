package politeness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// Host is the state of one host key. It is not safe for concurrent use; the holder of the
// host's lease owns it. Times must not go backwards between calls; if they do, the host
// waits longer, never shorter.
type Host struct {
	policy Policy

	// AppendBinary encodes the next eight fields.
	crawlDelay time.Duration // from robots.txt; 0 means none
	latency    time.Duration // smoothed; 0 means not known yet
	backoffs   int           // the next back-off lasts BackoffBase × 2^backoffs, see spread
	failures   int           // requests in a row without a complete answer
	silences   int           // requests in a row without any answer
	answers    uint16        // see note
	blocks     int           // blocks without a page between them; 0 means that the host is not blocked
	began      uint8         // index in backoffReasons: why the last back-off began; 0 after an answer that ended it

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

// DelayReason returns which part decides Delay: "set" (the policy), "robots.txt" or "latency". If several parts are
// equally long, it is the first of them.
func (h *Host) DelayReason() string {
	switch d := h.Delay(); {
	case d == h.policy.Delay:
		return "set"
	case d == min(h.crawlDelay, h.policy.MaxCrawlDelay):
		return "robots.txt"
	}
	return "latency"
}

// backoffReasons are the reasons of back-offs. Their order is stored.
var backoffReasons = [...]string{"", "429", "503", "no connection", "no answer", "answers that end early"}

// BackoffReason returns why the last back-off began, in words, or "" if an answer has ended it since.
func (h *Host) BackoffReason() string { return backoffReasons[h.began] }

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
	case status == 429:
		h.backOff(now, 1, min(retryAfter, h.policy.MaxRetryAfter), random)
	case status == 503:
		h.backOff(now, 2, min(retryAfter, h.policy.MaxRetryAfter), random)
	case status == 408, status == 425, status >= 500:
	default:
		// The answer to a request that was in flight when the back-off began does not end the
		// back-off.
		if !h.backingOff(now) {
			h.backoffs, h.began = 0, 0
		}
	}
}

// A host is blocked after mostWalls walls among its last recentAnswers answers. It is asked once
// after each of blockFor, and after the last one again and again.
const (
	mostWalls     = 5
	recentAnswers = 10
)

var blockFor = [...]time.Duration{10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour}

// note stores whether the last answer came from a wall, for the last recentAnswers answers. Each is a
// bit of h.answers, below a bit that is always set; the newest is the lowest.
func (h *Host) note(wall uint16) {
	h.answers = max(h.answers, 1)<<1 | wall
	if h.answers >= 1<<(recentAnswers+1) {
		h.answers = h.answers&(1<<recentAnswers-1) | 1<<recentAnswers
	}
}

// Passed notes an answer to a page that does not come from a wall. It ends a block, unless the request
// was in flight when the block began.
func (h *Host) Passed(now time.Time) {
	if h.blocks > 0 && !h.backingOff(now) {
		h.answers, h.blocks = 0, 0
	}
	h.note(0)
}

// Walled notes an answer that comes from a wall. The caller must call it before Answered, whose back-off
// would look like a block. Of the answers to one URL, only the first may count: the others have the
// argument again set. A block begins, or continues after the one answer that was asked for.
func (h *Host) Walled(now time.Time, again bool) {
	if h.blocks > 0 && h.backingOff(now) {
		return
	}
	if !again {
		h.note(1)
	}
	if h.blocks == 0 && h.Walls() < mostWalls {
		return
	}
	d := blockFor[min(h.blocks, len(blockFor)-1)]
	h.blocks = min(h.blocks+1, len(blockFor))
	h.backoffUntil = later(h.backoffUntil, now.Add(d))
}

// Walls returns how many of the last ten answers came from a wall.
func (h *Host) Walls() int { return max(bits.OnesCount16(h.answers)-1, 0) }

// OnlyWalls reports whether all of the last ten answers came from a wall, or there was no answer.
func (h *Host) OnlyWalls() bool { return h.Walls() == max(bits.Len16(h.answers)-1, 0) }

// LastWall reports whether the last answer came from a wall.
func (h *Host) LastWall() bool { return h.answers > 1 && h.answers&1 == 1 }

// Blocked reports whether the host is blocked. While its back-off lasts, it gets no request, and
// afterwards one.
func (h *Host) Blocked() bool { return h.blocks > 0 }

// Failed notes that no connection to the host could be made.
// random returns a number in [0, 1).
func (h *Host) Failed(now time.Time, random func() float64) {
	if h.backingOff(now) {
		return
	}
	h.failures++
	h.silences++
	h.backOff(now, 3, 0, random)
}

// Broken notes that a connection was made, but no answer of HTTP began.
// random returns a number in [0, 1).
func (h *Host) Broken(now time.Time, random func() float64) {
	if h.backingOff(now) {
		return
	}
	h.silences++
	h.incomplete(now, 4, random)
}

// Cut notes that an answer began and did not arrive completely.
// random returns a number in [0, 1).
func (h *Host) Cut(now time.Time, random func() float64) {
	h.silences = 0
	if !h.backingOff(now) {
		h.incomplete(now, 5, random)
	}
}

// Heard notes an answer that arrived. Use Answered instead if its status is known.
func (h *Host) Heard() { h.failures, h.silences = 0, 0 }

func (h *Host) incomplete(now time.Time, reason uint8, random func() float64) {
	h.failures++
	if h.failures >= toBackoff {
		h.backOff(now, reason, 0, random)
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
// least until now + minimum. The argument reason is an index in backoffReasons.
func (h *Host) backOff(now time.Time, reason uint8, minimum time.Duration, random func() float64) {
	d := minimum
	if !h.backingOff(now) {
		h.began = reason
		d = max(d, h.policy.spread(h.policy.BackoffBase, 2, h.backoffs, random))
		h.backoffs = min(h.backoffs+1, maxBackoffs)
	}
	h.backoffUntil = later(h.backoffUntil, now.Add(d))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
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

// blobVersion is the first byte of the encoding. Version 2 had no fields about walls, and version 3 no reason of
// the back-off.
const blobVersion = 4

// ErrBlob reports bytes that were not written by AppendBinary, or were written by a later
// version of it.
var ErrBlob = errors.New("politeness: not the state of a host")

// AppendBinary appends the state of the host to b, at most 39 bytes. The state contains no
// times, because clocks differ. The frontier stores Due instead, and does not lease the host
// earlier.
func (h *Host) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, blobVersion)
	b = binary.AppendUvarint(b, uint64(h.crawlDelay/time.Millisecond))
	b = binary.AppendUvarint(b, uint64(h.latency/time.Microsecond))
	b = binary.AppendUvarint(b, uint64(h.backoffs))
	b = binary.AppendUvarint(b, uint64(h.failures))
	b = binary.AppendUvarint(b, uint64(h.silences))
	b = binary.AppendUvarint(b, uint64(h.answers))
	b = binary.AppendUvarint(b, uint64(h.blocks))
	b = binary.AppendUvarint(b, uint64(h.began))
	return b, nil
}

// MarshalBinary returns the result of AppendBinary.
func (h *Host) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary sets the state of the host from the bytes of AppendBinary. The bytes contain
// no times, so the host is due now. After an error, which wraps ErrBlob, h is unchanged.
func (h *Host) UnmarshalBinary(b []byte) error {
	if len(b) == 0 || b[0] < 2 || b[0] > blobVersion {
		return fmt.Errorf("%w: %x", ErrBlob, b[:min(len(b), 16)])
	}
	rest := b[1:]
	var fields [8]uint64
	for i, most := range [8]uint64{
		maxStored / uint64(time.Millisecond), maxStored / uint64(time.Microsecond), maxBackoffs, 1 << 31, 1 << 31,
		1<<(recentAnswers+1) - 1, uint64(len(blockFor)), uint64(len(backoffReasons) - 1),
	} {
		if b[0] == 2 && i == 5 || b[0] == 3 && i == 7 {
			break
		}
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
		answers:    uint16(fields[5]),
		blocks:     int(fields[6]),
		began:      uint8(fields[7]),
	}
	return nil
}

// maxStored is the longest duration that a blob can hold, in nanoseconds.
const maxStored = uint64(1<<63 - 1)
