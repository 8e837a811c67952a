package robots

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

const (
	// Lifetime is how long an answer counts before it is asked for again.
	Lifetime = 24 * time.Hour
	// MaxRedirects is how many redirects are followed to a robots.txt. Beyond
	// them it counts as missing.
	MaxRedirects = 5

	// After n answers that say nothing, the next request is due in
	// firstRetry × 2ⁿ⁻¹, at most lastRetry.
	firstRetry = 10 * time.Second
	lastRetry  = time.Hour

	// maxCause bounds State.Cause in bytes.
	maxCause = 200
)

// Meaning is what the status of an answer to the request for robots.txt means.
type Meaning uint8

const (
	Unreachable Meaning = iota // nothing may be requested for now; ask again later
	Missing                    // everything is allowed
	Follow                     // look where it points, up to MaxRedirects times
	Found                      // the body has the rules
)

// FromStatus says what an HTTP status means (RFC 9309, 2.3.1); 0 is for no
// answer. 429 is no 4xx like the others: a server that is overloaded has not
// said that all is allowed.
func FromStatus(status int) Meaning {
	switch {
	case status >= 200 && status <= 299:
		return Found
	case status >= 300 && status <= 399:
		return Follow
	case status >= 400 && status <= 499 && status != 429:
		return Missing
	}
	return Unreachable
}

// Access is what may be done with a path.
type Access uint8

const (
	Ask      Access = iota // request robots.txt first
	Wait                   // robots.txt cannot be had; ask again after State.AskIn
	Allow                  // go ahead
	Disallow               // never
)

// State is what is known of the robots.txt of one origin (scheme, host, port)
// over time. Its zero value knows nothing. It is not safe for concurrent use.
//
// An answer counts for Lifetime. When it cannot be renewed, the last one goes
// on to count until it can; without one nothing is allowed, and nothing is
// refused for good either.
type State struct {
	rules *Rules    // of the last answer; nil: never had one
	askAt time.Time // when to ask again; zero: at once
	fails int       // requests in a row that said nothing
	cause string    // why the last of them failed; empty: not known
}

// Check says what may be done with a path now, and which rule says so.
func (s *State) Check(now time.Time, pathAndQuery string) (access Access, rule string) {
	switch {
	case !now.Before(s.askAt):
		return Ask, ""
	case s.rules == nil:
		return Wait, ""
	}
	allowed, rule := s.rules.Allowed(pathAndQuery)
	if allowed {
		return Allow, rule
	}
	return Disallow, rule
}

// AskIn returns how long until robots.txt should be requested; 0: now.
func (s *State) AskIn(now time.Time) time.Duration { return max(0, s.askAt.Sub(now)) }

// Rules returns the rules of the last answer, nil if there never was one.
func (s *State) Rules() *Rules { return s.rules }

// Failures returns how many requests in a row said nothing.
func (s *State) Failures() int { return s.fails }

// Cause returns why the last request failed; empty if it did not, or the cause is not known.
func (s *State) Cause() string { return s.cause }

// WithoutCause returns a copy of s that has forgotten its Cause.
func (s *State) WithoutCause() *State {
	bare := *s
	bare.cause = ""
	return &bare
}

// Answered takes an answer: its status and body, and its Retry-After, 0 for
// none. Redirects are the caller's to follow; a 3xx here is the one after
// MaxRedirects, or one that leads nowhere, and counts as Missing.
func (s *State) Answered(now time.Time, status int, body []byte, productToken string, retryAfter time.Duration) {
	switch FromStatus(status) {
	case Found:
		s.settle(now, Parse(body, productToken))
	case Missing, Follow:
		s.settle(now, AllowAll())
	default:
		s.postpone(now, retryAfter, fmt.Sprintf("status %d", status))
	}
}

// Failed takes a request that got no answer, and why. Of a long cause the
// beginning is kept.
func (s *State) Failed(now time.Time, cause string) { s.postpone(now, 0, cause) }

func (s *State) settle(now time.Time, rules *Rules) {
	*s = State{rules: rules, askAt: now.Add(Lifetime)}
}

func (s *State) postpone(now time.Time, least time.Duration, cause string) {
	wait := min(firstRetry<<min(s.fails, 16), lastRetry)
	s.fails++
	s.askAt = now.Add(min(max(wait, least), Lifetime))
	s.cause = strings.ToValidUTF8(cause[:min(len(cause), maxCause)], "")
}

// What follows in the binary form.
const (
	hasRules byte = 1 << iota
	hasCause
)

// AppendBinary appends s to b, with its rules but their sitemaps. On error,
// ErrTooLarge, it returns b as it was.
//
// The form: version, what follows, the time of the next request, the failures
// in a row; then the cause of the last one with its length before it, and the
// rules, if there are any.
//
// It keeps the time of the next request by the wall clock: among machines
// whose clocks are minutes apart an answer counts minutes more or less than
// Lifetime. How long a state lay somewhere nobody would tell it.
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	head := append(b, binaryVersion, 0)
	if s.rules != nil {
		head[len(b)+1] |= hasRules
	}
	if s.cause != "" {
		head[len(b)+1] |= hasCause
	}
	at := int64(0)
	if !s.askAt.IsZero() {
		at = s.askAt.Unix()
	}
	head = binary.AppendVarint(head, at)
	head = binary.AppendUvarint(head, uint64(s.fails))
	if s.cause != "" {
		head = append(binary.AppendUvarint(head, uint64(len(s.cause))), s.cause...)
	}
	if s.rules == nil {
		return head, nil
	}
	whole, err := s.rules.AppendBinary(head)
	if err != nil {
		return b, err
	}
	return whole, nil
}

// Restore sets s to what AppendBinary appended. A time of the next
// request that lies further ahead than it can, for a clock was set, becomes
// now. On error, ErrBinary, s is unchanged.
func (s *State) Restore(b []byte, now time.Time) error {
	if len(b) < 2 || b[0] != binaryVersion || b[1] > hasRules|hasCause {
		return ErrBinary
	}
	follows, b := b[1], b[2:]
	at, n := binary.Varint(b)
	if n <= 0 {
		return ErrBinary
	}
	b = b[n:]
	fails, n := binary.Uvarint(b)
	if n <= 0 || fails > 1<<31 {
		return ErrBinary
	}
	read := State{fails: int(fails)}
	if follows&hasCause != 0 {
		size, w := binary.Uvarint(b[n:])
		if b = b[n:]; w <= 0 || size == 0 || size > maxCause || size > uint64(len(b)-w) {
			return ErrBinary
		}
		read.cause, n = string(b[w:w+int(size)]), w+int(size)
	}
	b = b[n:]
	if at != 0 {
		read.askAt = time.Unix(at, 0)
	}
	if read.askAt.Sub(now) > Lifetime {
		read.askAt = now
	}
	if follows&hasRules != 0 {
		read.rules = new(Rules)
		if err := read.rules.UnmarshalBinary(b); err != nil {
			return err
		}
	} else if len(b) > 0 {
		return ErrBinary
	}
	*s = read
	return nil
}
