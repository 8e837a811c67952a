package get

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// timeoutError reports that a request exceeded a time limit. It is a net.Error, like the
// timeouts of net/http.
type timeoutError string

func (e timeoutError) Error() string   { return string(e) }
func (e timeoutError) Timeout() bool   { return true }
func (e timeoutError) Temporary() bool { return true }

// If a request takes too long, its *Error wraps one of these errors.
const (
	ErrTimeout       = timeoutError("no whole answer in time")
	ErrHeaderTimeout = timeoutError("no header of an answer in time")
	ErrTooSlow       = timeoutError("the body comes too slowly")
)

// limits are the time limits of a Client, and the error of each.
type limits struct {
	header                          time.Duration
	window                          time.Duration
	least                           int64 // bytes in a window; 0 or less means no limit
	errWhole, errHeader, errTooSlow error
}

func newLimits(c Config) limits {
	return limits{
		header:     c.HeaderTimeout,
		window:     c.RateWindow,
		least:      int64(float64(c.MinRate) * c.RateWindow.Seconds()),
		errWhole:   fmt.Errorf("%w: %v", ErrTimeout, c.Timeout),
		errHeader:  fmt.Errorf("%w: %v", ErrHeaderTimeout, c.HeaderTimeout),
		errTooSlow: fmt.Errorf("%w: less than %d B/s over %v", ErrTooSlow, c.MinRate, c.RateWindow),
	}
}

// pace ends a request whose body is too slow.
type pace struct {
	limits *limits
	cancel context.CancelCauseFunc
	read   atomic.Int64 // bytes of the body so far

	mu     sync.Mutex
	timer  *time.Timer // nil while the rate is not checked
	before int64       // bytes at the beginning of this window
}

// start begins the first window. From then on the rate of the body is checked.
func (p *pace) start() {
	if p.limits.least <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before = p.read.Load()
	p.timer = time.AfterFunc(p.limits.window, p.judge)
}

// stop ends the checks.
func (p *pace) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// judge checks the window that ends now. It ends the request or begins the next window.
func (p *pace) judge() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	read := p.read.Load()
	if read-p.before < p.limits.least {
		p.cancel(p.limits.errTooSlow)
		return
	}
	p.before = read
	p.timer.Reset(p.limits.window)
}
