package robots

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
)

const (
	// Lifetime is the time for which an answer is valid. After that robots.txt is
	// requested again.
	Lifetime = 24 * time.Hour
	// MaxRedirects is the number of redirects that are followed to a robots.txt. After
	// more redirects the file counts as missing.
	MaxRedirects = 5

	// After n failed requests in a row, the next request is due in firstRetry × 2ⁿ⁻¹,
	// at most lastRetry, unless SetBackoff sets other times.
	firstRetry = 10 * time.Second
	lastRetry  = time.Hour

	// maxCause is the maximum length of State.Cause in bytes.
	maxCause = 200
)

// Meaning is the meaning of the status of an answer to the request for robots.txt.
type Meaning uint8

const (
	Unreachable Meaning = iota // no answer about the rules; the last one stays valid (see State)
	Missing                    // everything is allowed
	Follow                     // a redirect, followed up to MaxRedirects times
	Found                      // the body has the rules
)

// FromStatus returns the meaning of an HTTP status (RFC 9309, 2.3.1); a status of 0 means
// that there was no answer. 429 means Unreachable, unlike other 4xx: an overloaded server
// has not said that everything is allowed.
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

// Access is what robots.txt permits for a path.
type Access uint8

const (
	Ask      Access = iota // request robots.txt first
	Wait                   // robots.txt could not be fetched; try again after State.AskIn
	Allow                  // the path may be requested
	Disallow               // the path must not be requested
)

// State is the state of the robots.txt of one origin (scheme, host, port): its rules, and
// when it is requested again. In the zero State nothing is known. A State is not safe for
// concurrent use.
//
// An answer is valid for Lifetime. After that it must be renewed. If a request fails, the
// last answer stays valid until a later request succeeds. Without any answer nothing is
// allowed, but nothing is refused permanently.
type State struct {
	rules *Rules    // of the last answer; nil if there was none
	askAt time.Time // when robots.txt is requested again; zero means at once
	fails int       // number of requests in a row that failed
	cause string    // why the last request failed; empty if it succeeded, or if the cause is not known

	first, longest time.Duration // see SetBackoff; 0 means firstRetry and lastRetry
}

// SetBackoff sets the time until the next request after a first failure, and the longest such time. 0
// means the defaults, 10 s and 1 h. The times are not part of the binary form, and an answer resets
// them.
func (s *State) SetBackoff(first, longest time.Duration) { s.first, s.longest = first, longest }

// Check returns what robots.txt permits for a path now, and the rule that decided.
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

// AskIn returns the time until robots.txt should be requested; 0 means now.
func (s *State) AskIn(now time.Time) time.Duration { return max(0, s.askAt.Sub(now)) }

// Rules returns the rules of the last answer, or nil.
func (s *State) Rules() *Rules { return s.rules }

// Failures returns the number of requests in a row that failed.
func (s *State) Failures() int { return s.fails }

// Cause returns why the last request failed. The result is empty if the request succeeded, or if
// the cause is not known.
func (s *State) Cause() string { return s.cause }

// WithoutCause returns a copy of s without its Cause.
func (s *State) WithoutCause() *State {
	bare := *s
	bare.cause = ""
	return &bare
}

// Answered stores an answer: its status, body and Retry-After (0 for none). The caller
// must follow up to MaxRedirects redirects. So a status of 3xx means that there were more
// redirects, or that a redirect had no target. Such a status counts as Missing.
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

// Failed stores that a request had no answer, and why. A long cause is cut.
func (s *State) Failed(now time.Time, cause string) { s.postpone(now, 0, cause) }

func (s *State) settle(now time.Time, rules *Rules) {
	*s = State{rules: rules, askAt: now.Add(Lifetime)}
}

func (s *State) postpone(now time.Time, least time.Duration, cause string) {
	first, longest := cmp.Or(s.first, firstRetry), cmp.Or(s.longest, lastRetry)
	wait := min(time.Duration(min(float64(first)*float64(uint64(1)<<min(s.fails, 16)), float64(longest))), longest)
	s.fails++
	s.askAt = now.Add(min(max(wait, least), Lifetime))
	s.cause = strings.ToValidUTF8(cause[:min(len(cause), maxCause)], "")
}

// stateVersion is the version of a State's binary form.
const stateVersion = 2

// Flags in the binary form: which optional parts follow.
const (
	hasRules byte = 1 << iota
	hasCause
)

// maxToken is the maximum length of a product token in the binary form, in bytes.
const maxToken = 255

// AppendBinary appends s to b, with its rules but without sitemaps. If the rules or their
// product token are too long it returns ErrTooLarge, and b unchanged.
//
// The form is: the version, the flags, the time of the next request, and the number of
// failures in a row. If there is a cause, its length and the cause follow. If there are
// rules, they are last, after the version of the parser, and the length and the text of the
// product token that they are for.
//
// The time of the next request is a time of the wall clock, because a state may be stored
// for an unknown time. If the clocks of machines differ by minutes, an answer is valid
// for minutes more or less than Lifetime.
func (s *State) AppendBinary(b []byte) ([]byte, error) {
	head := append(b, stateVersion, 0)
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
	if len(s.rules.token) > maxToken {
		return b, ErrTooLarge
	}
	head = append(head, parserVersion, byte(len(s.rules.token)))
	head = append(head, s.rules.token...)
	whole, err := s.rules.AppendBinary(head)
	if err != nil {
		return b, err
	}
	return whole, nil
}

// Restore sets s from bytes that AppendBinary has appended, for the crawler with this product
// token. Rules for another crawler, or from another version of Parse, are not used: s becomes
// the zero State, so that robots.txt is requested again. The argument now is the current time.
// If the next request is due more than Lifetime later, because a clock was set, Restore makes
// it due at once. On error Restore returns ErrBinary and leaves s unchanged.
func (s *State) Restore(b []byte, productToken string, now time.Time) error {
	if len(b) < 2 || b[0] != stateVersion || b[1] > hasRules|hasCause {
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
	if follows&hasRules == 0 {
		if len(b) > 0 {
			return ErrBinary
		}
		*s = read
		return nil
	}
	if len(b) < 2 || int(b[1]) > len(b)-2 {
		return ErrBinary
	}
	parser, token, b := b[0], string(b[2:2+b[1]]), b[2+b[1]:]
	if parser != parserVersion || token != "" && !strings.EqualFold(token, productToken) {
		*s = State{}
		return nil
	}
	read.rules = new(Rules)
	if err := read.rules.UnmarshalBinary(b); err != nil {
		return err
	}
	read.rules.token = token
	*s = read
	return nil
}
