package fetcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// access says what robots.txt of an origin says about a path. When it could not
// be had before, other origins of the host go first: Wait instead of Ask.
func (h *holding) access(origin, path string) (robots.Access, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.origin(origin)
	access, rule := state.Check(time.Now(), path)
	if access == robots.Ask && state.Failures() > 0 && state.Rules() == nil && !h.askAgain {
		access = robots.Wait
	}
	return access, rule
}

// origin returns the state of an origin's robots.txt; mu is held. At most
// maxOrigins have their rules known: another one makes room, and the one that
// made it is asked again when needed.
func (h *holding) origin(origin string) *robots.State {
	state := h.origins[origin]
	if state != nil {
		return state
	}
	ruled := 0
	for other, state := range h.origins {
		if state.Rules() == nil {
			continue // small, and its failures must not be forgotten
		}
		if ruled++; ruled >= maxOrigins {
			delete(h.origins, other)
		}
	}
	state = new(robots.State)
	h.origins[origin] = state
	return state
}

// robotsOut deals with the first pending item when its robots.txt cannot be
// had: it waits, and after as many tries as a page gets it has failed.
func (h *holding) robotsOut(origin string) error {
	h.mu.Lock()
	state := h.origin(origin)
	failures, cause, due := state.Failures(), state.Cause(), state.AskIn(time.Now()) == 0
	h.mu.Unlock()
	if failures > h.cfg.Retries && !due {
		return h.conclude(1, frontier.Network, robotsFault(failures, cause))
	}
	h.shelved = append(h.shelved, h.pending[0])
	h.pending = h.pending[1:]
	h.full = true // behind them there may be items of other origins
	return nil
}

// robotsFault says why a page has failed without a request of its own.
func robotsFault(failures int, cause string) string {
	attempts := "1 attempt"
	if failures > 1 {
		attempts = fmt.Sprintf("%d attempts", failures)
	}
	fault := fmt.Sprintf("robots.txt: %s failed", attempts)
	if cause == "" { // left by a worker that did not keep it
		return fault
	}
	return fault + ": " + cause
}

// unshelve makes shelved items pending, when nothing else is and a robots.txt
// that they wait for can be asked for again.
func (h *holding) unshelve() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.shelved) == 0 || h.robotsIn(time.Now()) > 0 {
		return
	}
	h.pending, h.shelved, h.askAgain = h.shelved, nil, true
}

// robotsIn returns how long it is until the first robots.txt that shelved items
// wait for can be asked for again; mu is held.
func (h *holding) robotsIn(now time.Time) time.Duration {
	first := forever
	for _, item := range h.shelved {
		if url, err := h.cfg.Canon.Parse(item.URL); err == nil {
			first = min(first, h.origin(url.Origin()).AskIn(now))
		}
	}
	return first
}

// robotsDue is how long the host must wait for a robots.txt that could not be
// had, when there is nothing else it could be asked for; mu is held.
func (h *holding) robotsDue(now time.Time) time.Duration {
	// Both lists are run's alone until closing.
	if !h.closing || len(h.pending) > 0 || len(h.shelved) == 0 {
		return 0
	}
	return h.robotsIn(now)
}

// askRobots requests the robots.txt of a URL's origin, and follows it where it
// redirects. Each is a request like any other: in its turn and under its host's
// delay.
func (h *holding) askRobots(stop context.Context, url canon.URL) error {
	h.tally.ruling.Add(1)
	defer h.tally.ruling.Add(-1)
	stage.Fetch.Begin()
	defer stage.None.Begin()
	origin := url.Origin()
	target, err := h.cfg.Canon.Parse(origin + "/robots.txt")
	if err != nil {
		return h.conclude(1, frontier.Network, err.Error())
	}
	patience := maxPark
	for hop := 0; ; hop++ {
		answer, err := h.requestRobots(stop, target, patience)
		if err != nil {
			return h.robotsFailed(origin, err)
		}
		if err := h.keepRobots(target, answer); err != nil {
			answer.Release()
			h.note(err)
			return errStop
		}
		next, follow := h.robotsTarget(target, answer, hop)
		if !follow {
			slower := h.noteRobots(origin, answer)
			answer.Release()
			if err := h.offerSitemaps(origin); err != nil {
				return err
			}
			if slower {
				// The store must know before the next start: after a crash it
				// holds the host for as long as it knows of.
				h.complete(nil, false)
			}
			return nil
		}
		answer.Release()
		if host := h.cfg.Canon.HostKey(next); host != h.lease.Host {
			h.cfg.Logger.Debug("robots.txt redirects to another host", slog.String("origin", origin), slog.String("host", host))
		}
		target, patience = next, forever // to begin anew would come to the same point
	}
}

// robotsTarget returns where an answer points, if it is to be followed.
func (h *holding) robotsTarget(target canon.URL, answer *get.Response, hop int) (canon.URL, bool) {
	if robots.FromStatus(answer.Status) != robots.Follow || answer.RedirectTo == "" || hop >= robots.MaxRedirects {
		return canon.URL{}, false
	}
	next, err := h.cfg.Canon.Join(target, answer.RedirectTo)
	return next, err == nil
}

// requestRobots makes one request for a robots.txt.
func (h *holding) requestRobots(stop context.Context, url canon.URL, patience time.Duration) (*get.Response, error) {
	host := h.cfg.Canon.HostKey(url)
	home := host == h.lease.Host
	header, next := h.rules.Header, h.turn(patience)
	if !home {
		header, next = h.abroad(host)
	}
	private, err := h.private(url)
	if err != nil {
		return nil, err
	}
	asked, err := h.begin(stop, next)
	if err != nil {
		return nil, err
	}
	defer func() {
		asked()
		<-h.room
	}()
	started := func() {
		if home {
			h.mu.Lock()
			h.host.Start(time.Now())
			h.mu.Unlock()
		}
	}
	h.tally.robots.Add(1)
	answer, err := h.cfg.Client.Get(h.hard, get.Request{
		URL: url.String(), Header: header, Private: private, Started: started, Sent: started, Permit: h.permit,
		AnyType: true, MaxBody: robots.MaxBytes + 1,
	})
	if home {
		h.noteAnswer(answer, err)
	}
	return answer, err
}

// abroad returns what holds for a request to a host of another lease, or of none.
func (h *holding) abroad(host string) (header map[string][]string, next turn) {
	rules, policy := h.rulesOf(host)
	delay := politeness.New(policy).Delay()
	own := h.turn(forever)
	return rules.Header, func(start bool) (time.Duration, error) {
		if _, err := own(false); err != nil {
			return 0, err
		}
		wait := h.roster.start(host, delay, start)
		if wait > maxPark {
			return 0, errBusy
		}
		return wait, nil
	}
}

// noteRobots takes an answer into the origin's state; it reports whether the
// host's delay became longer.
func (h *holding) noteRobots(origin string, answer *get.Response) (slower bool) {
	h.mu.Lock()
	state := h.origin(origin)
	failures := state.Failures()
	defer func() {
		h.mu.Unlock()
		h.noteOrigin(origin, failures)
	}()
	before := h.host.Delay()
	state.Answered(time.Now(), answer.Status, answer.Body, h.token, answer.RetryAfter)
	longest := time.Duration(0) // the host key has one delay, whichever origin asked for it
	for _, state := range h.origins {
		if rules := state.Rules(); rules != nil {
			delay, _ := rules.CrawlDelay()
			longest = max(longest, delay)
		}
	}
	h.host.CrawlDelay(longest)
	h.changed = true
	return h.host.Delay() > before
}

// robotsFailed notes that a robots.txt did not come.
func (h *holding) robotsFailed(origin string, err error) error {
	if errors.Is(err, errStop) || errors.Is(err, errDead) {
		return err
	}
	switch fault := get.Classify(err); {
	case fault.Aborted:
		return errStop
	case fault.Stale:
		h.tally.failed(h.lease.Host, "robots.txt: "+causeOf(err))
		return nil // again, when the host is due
	case fault.Local:
		h.awaitMachine(err)
		return nil
	case fault.Outcome == frontier.Address:
		return h.concludeOrigin(origin, frontier.Address, err.Error())
	}
	h.mu.Lock()
	state := h.origin(origin)
	failures := state.Failures()
	state.Failed(time.Now(), causeOf(err))
	h.changed = true
	h.mu.Unlock()
	if errors.Is(err, errBusy) { // nothing was requested
		return nil
	}
	h.noteOrigin(origin, failures)
	return nil
}

// concludeOrigin finishes the pending items of an origin without a request.
func (h *holding) concludeOrigin(origin string, outcome frontier.Outcome, why string) error {
	of := func(item frontier.Item) bool { return strings.HasPrefix(item.URL, origin+"/") }
	var theirs, others []frontier.Item
	for _, item := range h.pending {
		if of(item) {
			theirs = append(theirs, item)
		} else {
			others = append(others, item)
		}
	}
	h.pending = append(theirs, others...)
	return h.conclude(len(theirs), outcome, why)
}
