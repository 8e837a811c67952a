// Package politeness decides when the next request to a host is allowed.
//
// It owns the delay between two starts, crawl-delay, the latency factor, Retry-After,
// back-off, and the decision to give up a host. It does not read robots.txt (package
// robots), hold queues (package frontier) or decide what an answer means for its URL
// (package get). It does no I/O, reads no clock and draws no random number: the caller
// passes the time and, if needed, a source of random numbers.
//
// The table shows events, their effect on the host, and when the URL is tried again:
//
//	2xx, 3xx, other 4xx             healthy; the next back-off has n = 0      never
//	429, 503                        back-off, at least Retry-After            RetryIn
//	408, 425, other 5xx             alive; the back-off does not change       RetryIn
//	no connection (name, dial, TLS) back-off; counts towards DeadAfter        RetryIn
//	connected, but no answer        back-off from the third in a row;         RetryIn
//	                                counts towards DeadAfter
//	an answer that ends early       back-off from the third in a row          RetryIn
//	kept-alive connection closed    no effect, but the start counts           RetryIn
//	a wall                          blocked after five of the last ten        unchanged
//	                                answers: for 10 min, 1 h, 6 h, 24 h
//
// A single reset or timeout is often the fault of one page, so other pages of the host do
// not wait. Three in a row are the host's fault. Any answer sets the count of failures back
// to 0. After Policy.DeadAfter requests in a row without any answer the host is dead.
//
// Back-off n (0, 1, …) lasts BackoffBase × 2ⁿ, varied by Jitter, at most BackoffMax.
// Retry-After can make it longer, up to MaxRetryAfter. Failures during a back-off do not
// count, because their requests were in flight when it began.
package politeness

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Defaults of Policy.
const (
	DefaultDelay         = time.Second
	DefaultMaxCrawlDelay = 60 * time.Second
	DefaultLatencyFactor = 1.0
	DefaultBackoffBase   = 10 * time.Second
	DefaultBackoffMax    = time.Hour
	DefaultJitter        = 0.2
	DefaultRetryBase     = time.Second
	DefaultMaxRetryAfter = 24 * time.Hour
	DefaultDeadAfter     = 6
)

// MaxLatencyDelay bounds the part of the delay that comes from latency.
const MaxLatencyDelay = 30 * time.Second

// toBackoff is the number of incomplete answers in a row that begin a back-off.
const toBackoff = 3

// Policy configures politeness. Its values are plain: 0 is 0. The zero value has no delays, no
// back-offs and no limits; a crawl of other people's hosts begins with Default.
type Policy struct {
	Delay         time.Duration // between two starts; 0 means none
	MaxCrawlDelay time.Duration // a longer crawl-delay is reduced to this value; 0 means that crawl-delay is ignored
	// LatencyFactor × the host's smoothed latency is the least time between two starts. With 1,
	// a host has about one request in flight, even if more are allowed at once. 0 means that
	// latency has no effect.
	LatencyFactor float64
	BackoffBase   time.Duration // the first back-off; 0 means that only Retry-After begins one
	BackoffMax    time.Duration // the longest back-off and the longest wait of RetryIn; at least BackoffBase
	Jitter        float64       // share by which back-offs and retries vary, from 0 to below 1
	RetryBase     time.Duration // before the first retry of one URL
	MaxRetryAfter time.Duration // a longer Retry-After is reduced to this value; 0 means that Retry-After is ignored
	DeadAfter     int           // requests in a row without any answer after which a host is dead; 0 means never
}

// Default returns the policy with the default values.
func Default() Policy {
	return Policy{
		Delay: DefaultDelay, MaxCrawlDelay: DefaultMaxCrawlDelay, LatencyFactor: DefaultLatencyFactor,
		BackoffBase: DefaultBackoffBase, BackoffMax: DefaultBackoffMax, Jitter: DefaultJitter,
		RetryBase: DefaultRetryBase, MaxRetryAfter: DefaultMaxRetryAfter, DeadAfter: DefaultDeadAfter,
	}
}

// Validate returns nil or an error that joins all faults of p.
func (p Policy) Validate() error {
	var errs []error
	check := func(ok bool, name string, value any, want string) {
		if !ok {
			errs = append(errs, fmt.Errorf("politeness: %s is %v, want %s", name, value, want))
		}
	}
	for _, field := range []struct {
		name  string
		value time.Duration
	}{
		{"Delay", p.Delay}, {"MaxCrawlDelay", p.MaxCrawlDelay}, {"BackoffBase", p.BackoffBase},
		{"BackoffMax", p.BackoffMax}, {"RetryBase", p.RetryBase}, {"MaxRetryAfter", p.MaxRetryAfter},
	} {
		check(field.value >= 0, field.name, field.value, "0 or more")
	}
	check(p.LatencyFactor >= 0 && !math.IsInf(p.LatencyFactor, 1), "LatencyFactor", p.LatencyFactor, "0 or more")
	check(p.Jitter >= 0 && p.Jitter < 1, "Jitter", p.Jitter, "0 or more and below 1")
	check(p.DeadAfter >= 0, "DeadAfter", p.DeadAfter, "0 or more")
	check(p.BackoffBase <= p.BackoffMax, "BackoffBase", p.BackoffBase, fmt.Sprintf("at most BackoffMax, %v", p.BackoffMax))
	return errors.Join(errs...)
}

// RetryIn returns how long a URL waits before its next attempt. After n ≥ 1 failed attempts,
// this is RetryBase × 4ⁿ⁻¹, varied by Jitter, at most BackoffMax. The URL waits longer if the
// host is not due at that time. random returns a number in [0, 1).
func (p Policy) RetryIn(attempts int, random func() float64) time.Duration {
	return p.spread(p.RetryBase, 4, attempts-1, random)
}

// BackoffIn returns how long a URL waits before its next attempt, after the program that crawls has
// failed n ≥ 1 times to handle its answer. This is BackoffBase × 2ⁿ⁻¹, varied by Jitter, at most BackoffMax.
func (p Policy) BackoffIn(attempts int, random func() float64) time.Duration {
	return p.spread(p.BackoffBase, 2, attempts-1, random)
}

// spread returns base × factorⁿ, at most BackoffMax, varied by Jitter.
func (p Policy) spread(base time.Duration, factor float64, n int, random func() float64) time.Duration {
	d := math.Min(float64(base)*math.Pow(factor, float64(max(0, n))), float64(p.BackoffMax))
	if p.Jitter > 0 {
		d *= 1 + p.Jitter*(2*random()-1)
	}
	return time.Duration(math.Min(d, float64(p.BackoffMax)))
}
