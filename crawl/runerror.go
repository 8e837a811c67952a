package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/internal/human"
)

var (
	// ErrNoSeed reports that no seed was accepted, or that a new crawl has none.
	ErrNoSeed = errors.New("no seed was accepted")
	// ErrUnreached reports that no host of a seed answered.
	ErrUnreached = errors.New("no seed could be reached")
)

// HandlerError reports URLs whose handler (Config.OnPage or OnAnswer) returned an error or panicked at each attempt. They
// have failed with the outcome "handler"; Handle.Retry queues them again.
type HandlerError struct {
	Count uint64      // of the URLs of this run
	Pages []PageError // the first of them, at most 100
}

// PageError is the last error of the handler of a URL.
type PageError struct {
	URL string
	Err error
}

// Error implements error. It names three URLs.
func (e *HandlerError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the page handler failed for %s", human.Plural(e.Count, "URL"))
	for i, p := range e.Pages[:min(len(e.Pages), 3)] {
		fmt.Fprintf(&b, "%s%s: %v", map[bool]string{true: ": ", false: "; "}[i == 0], p.URL, p.Err)
	}
	return b.String()
}

// Unwrap returns the errors of the handlers.
func (e *HandlerError) Unwrap() (errs []error) {
	for _, p := range e.Pages {
		errs = append(errs, p.Err)
	}
	return errs
}

// handlers collects the errors of handlers. It is safe for concurrent use.
type handlers struct {
	mu     sync.Mutex
	failed HandlerError
}

// note notes an error of a handler. Only the last attempt counts.
func (h *handlers) note(url string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed.Count++; len(h.failed.Pages) < 100 {
		h.failed.Pages = append(h.failed.Pages, PageError{url, err})
	}
}

// Err returns an error if the run stopped early or could not do what it was asked to do. It can be several errors in one:
//
//   - the error and the cause of the context that ended the run, or ErrStopped
//   - ErrNoSeed with the first refusal, or ErrUnreached with the last failure
//   - a *HandlerError
//
// A run that Settings.MaxPages or MaxTime ended did what it was asked to do.
func (r *Result) Err() error { return errors.Join(r.stopped, r.noSeed, r.Unreached, r.handler) }

// fault sets the errors that Err returns.
func (r *Result) fault(ctx context.Context, c *Crawl) {
	if r.End == fetcher.Stopped {
		r.stopped = c.StoppedBy()
		if ended := ctx.Err(); ended != nil && !errors.Is(r.stopped, ended) {
			r.stopped = fmt.Errorf("%w: %w", ended, context.Cause(ctx))
		}
	}
	seeds := c.ses.seedCounts()
	if r.End == fetcher.Empty && seeds.Added+seeds.Seen == 0 && (seeds.Refused > 0 || r.Stats.Added == 0) {
		if r.noSeed = ErrNoSeed; c.ses.refusal != "" {
			r.noSeed = fmt.Errorf("%w: %s", ErrNoSeed, c.ses.refusal)
		}
	}
	c.ses.handlers.mu.Lock()
	defer c.ses.handlers.mu.Unlock()
	if failed := c.ses.handlers.failed; failed.Count > 0 {
		r.handler = &failed
	}
}
