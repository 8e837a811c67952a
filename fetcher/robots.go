package fetcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/budget"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
	"github.com/bloomfrontier/crawler/internal/stage"
)

// access returns what the robots.txt of an origin says about a path. If an earlier attempt to
// fetch the robots.txt failed, access returns Wait instead of Ask, so that other origins of
// the host go first.
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

// origin returns the state of an origin's robots.txt. The caller must hold mu. The rules of
// at most maxOrigins origins are kept. The rules of a further origin replace the rules of
// another origin. The robots.txt of the other origin is requested again when it is needed.
func (h *holding) origin(origin string) *robots.State {
	polite := &h.rules.host.Politeness
	state := h.origins[origin]
	if state != nil {
		state.SetBackoff(polite.BackoffBase, polite.BackoffMax)
		return state
	}
	ruled := 0
	for other, state := range h.origins {
		if state.Rules() == nil {
			continue // small, and its failures must be kept
		}
		if ruled++; ruled >= maxOrigins {
			delete(h.origins, other)
		}
	}
	state = new(robots.State)
	state.SetBackoff(polite.BackoffBase, polite.BackoffMax)
	h.origins[origin] = state
	return state
}

// robotsOut defers the first pending item because its robots.txt could not be fetched. If
// the robots.txt has failed more than Policy.Retries times, and must not be requested again
// yet, robotsOut finishes the item as failed instead.
func (h *holding) robotsOut(origin string) error {
	h.mu.Lock()
	state := h.origin(origin)
	failures, cause, due := state.Failures(), state.Cause(), state.AskIn(time.Now()) == 0
	walls := h.host.Walls()
	h.mu.Unlock()
	switch given := failures > h.cfg.Policy().Retries && !due; {
	case given && !isWall(cause):
		return h.conclude(1, frontier.Network, causeRobots, robotsFault(failures, cause))
	case given && walls == 0: // otherwise the host will be blocked, unless its pages come
		return h.conclude(1, frontier.Blocked, causeRobots, robotsFault(failures, cause))
	}
	h.deferred = append(h.deferred, h.pending[0])
	h.pending = h.pending[1:]
	h.full = true // the host's queue may have items of other origins
	return nil
}

// robotsFault returns the cause of the failure of a page whose robots.txt could not be fetched.
func robotsFault(failures int, cause string) string {
	fault := fmt.Sprintf("robots.txt: %s failed", human.Plural(failures, "attempt"))
	if cause == "" { // an earlier version of the program stored no causes
		return fault
	}
	return fault + ": " + cause
}

// undefer makes all deferred items pending if at least one robots.txt for which they wait can
// be requested again. It must be called only while no items are pending.
func (h *holding) undefer() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.deferred) == 0 || h.robotsIn(time.Now()) > 0 {
		return
	}
	h.pending, h.deferred, h.askAgain = h.deferred, nil, true
}

// robotsIn returns the time until the first robots.txt of deferred items can be requested
// again. The caller must hold mu.
func (h *holding) robotsIn(now time.Time) time.Duration {
	first := forever
	for _, item := range h.deferred {
		if url, err := h.cfg.Canon.Parse(item.URL); err == nil {
			first = min(first, h.origin(url.Origin()).AskIn(now))
		}
	}
	return first
}

// robotsDue returns how long the host must wait for a robots.txt that could not be
// fetched. It returns 0 if there is something else to request. The caller must hold mu.
func (h *holding) robotsDue(now time.Time) time.Duration {
	// Only the method run may read pending and deferred until closing is true.
	if !h.closing || len(h.pending) > 0 || len(h.deferred) == 0 {
		return 0
	}
	return h.robotsIn(now)
}

// askRobots requests the robots.txt of a URL's origin, and follows redirects. Each request
// waits for its turn and for its host's delay.
func (h *holding) askRobots(stop context.Context, url canon.URL) error {
	h.tally.ruling.Add(1)
	defer h.tally.ruling.Add(-1)
	stage.Fetch.Begin()
	defer stage.None.Begin()
	origin := url.Origin()
	target, err := h.cfg.Canon.Parse(origin + "/robots.txt")
	if err != nil {
		return h.conclude(1, frontier.Network, get.CauseOther, err.Error())
	}
	patience := maxPark
	share, _ := h.memory.Take(h.hard, 0) // an empty share never waits
	defer share.Release()
	for hop := 0; ; hop++ {
		answer, err := h.requestFile(stop, target, patience, robots.MaxBytes+1, share)
		if err != nil {
			return h.robotsFailed(origin, err)
		}
		if err := h.keepRobots(target, answer); err != nil {
			answer.Release()
			h.noteFailure(err)
			return errStop
		}
		next, follow := h.robotsTarget(target, answer, hop)
		if !follow {
			slower, err := h.takeRobots(origin, answer, share)
			if err != nil {
				return err
			}
			share.Release()
			if err := h.offerSitemaps(origin); err != nil {
				return err
			}
			if slower {
				// The store must receive the delay before the next request starts. After a
				// crash it uses the last delay that it received.
				h.complete(nil, false)
			}
			return nil
		}
		answer.Release()
		share.TryGrow(-share.Size())
		if host := h.cfg.Canon.HostKey(next); host != h.lease.Host {
			h.cfg.Logger.Debug("robots.txt redirects to another host", slog.String("origin", origin), slog.String("host", host))
		}
		target, patience = next, forever // a later attempt would have to repeat the first hops, and wait here again
	}
}

// takeRobots parses an answer, stores it in the origin's state, and releases it. It reports whether
// the host's delay became longer. Its error is errStop.
func (h *holding) takeRobots(origin string, answer *get.Response, share *budget.Share) (slower bool, err error) {
	defer answer.Release()
	if h.backlog.grow(h.hard, share, parseFactor*int64(len(answer.Body))) != nil || !h.takeReader() {
		return false, errStop
	}
	slower = h.noteRobots(origin, answer)
	<-h.readers
	h.noteRules(origin)
	return slower, nil
}

// robotsTarget returns the target of a redirect, and whether it is followed.
func (h *holding) robotsTarget(target canon.URL, answer *get.Response, hop int) (canon.URL, bool) {
	if robots.FromStatus(answer.Status) != robots.Follow || answer.RedirectTo == "" || hop >= robots.MaxRedirects || answer.Wall().Reason != "" {
		return canon.URL{}, false
	}
	next, err := h.cfg.Canon.Join(target, answer.RedirectTo)
	return next, err == nil
}

// requestFile makes one request for a robots.txt or a tdmrep.json, of at most this many bytes, with the memory of
// share.
func (h *holding) requestFile(stop context.Context, url canon.URL, patience time.Duration, maxBytes int64, share *budget.Share) (*get.Response, error) {
	host := h.cfg.Canon.HostKey(url)
	sameHost := host == h.lease.Host
	header, next := h.present().host.Header, h.turn(patience)
	if !sameHost {
		header, next = h.otherHost(host)
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
		h.room.leave()
	}()
	started := func() {
		if sameHost {
			h.mu.Lock()
			h.host.Start(time.Now())
			h.mu.Unlock()
		}
	}
	delay, reserve := h.delay(), h.reserve
	if !sameHost {
		delay = h.delayOf(host)
		reserve = func(delay time.Duration) time.Time { return h.roster.reserve(host, delay) }
	}
	sent := func() { pause(h.stopping, time.Until(reserve(delay))) }
	h.tally.robots.Add(1)
	grow := h.newGrowth(share)
	answer, err := h.cfg.Client.Get(h.hard, get.Request{
		URL: url.String(), Header: header, Private: private, Started: started, Sent: sent, Permit: h.permit,
		AnyType: true, MaxBody: maxBytes, Grow: grow.grow,
	})
	err = grow.explain(err)
	if sameHost {
		if err == nil {
			h.noteWall(answer, false, false)
		}
		h.noteAnswer(answer, err)
	}
	return answer, err
}

// otherHost returns the header of a request to a host other than that of the lease, and the
// function (see turn) that decides when the request may start.
func (h *holding) otherHost(host string) (header map[string][]string, next turn) {
	other := h.cfg.Policy().Host(host)
	delay := other.Politeness.Delay
	own := h.turn(forever)
	return other.Header, func(start bool) (time.Duration, error) {
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

// delayOf returns the delay of a host that this worker has not leased.
func (c *Crawl) delayOf(host string) time.Duration {
	return c.cfg.Policy().Host(host).Politeness.Delay
}

// noteRobots stores an answer in the origin's state. It reports whether the host's delay
// became longer.
func (h *holding) noteRobots(origin string, answer *get.Response) (slower bool) {
	h.mu.Lock()
	state := h.origin(origin)
	failures := state.Failures()
	defer func() {
		h.mu.Unlock()
		h.noteOrigin(origin, failures)
	}()
	before := h.host.Delay()
	why := cmp.Or(answer.Cut, answer.Damage)
	if wall := answer.Wall(); wall.Reason != "" {
		state.Failed(time.Now(), wall.String())
	} else if why != nil && robots.FromStatus(answer.Status) == robots.Found {
		state.Failed(time.Now(), why.Error()) // rules may be missing
	} else {
		state.Answered(time.Now(), answer.Status, answer.Body, h.rules.token, answer.RetryAfter)
	}
	longest := time.Duration(0) // because a host key has one delay for all its origins
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

// robotsFailed stores that a request for robots.txt failed.
func (h *holding) robotsFailed(origin string, err error) error {
	if errors.Is(err, errStop) || errors.Is(err, errDead) {
		return err
	}
	switch fault := get.Classify(err); {
	case fault.Aborted:
		return errStop
	case fault.Local:
		h.awaitMachine(err)
		return nil
	case fault.Outcome == frontier.Address:
		return h.concludeOrigin(origin, frontier.Address, "", err.Error())
	case fault.Lasting:
		return h.concludeOrigin(origin, fault.Outcome, get.Cause(err), h.noteLasting("robots.txt: "+causeOf(err)))
	}
	h.mu.Lock()
	state := h.origin(origin)
	failures := state.Failures()
	state.Failed(time.Now(), causeOf(err))
	h.changed = true
	h.mu.Unlock()
	if errors.Is(err, errBusy) { // no request was made
		return nil
	}
	h.noteOrigin(origin, failures)
	return nil
}

// concludeOrigin finishes the pending items of an origin without a request.
func (h *holding) concludeOrigin(origin string, outcome frontier.Outcome, cause, why string) error {
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
	return h.conclude(len(theirs), outcome, cause, why)
}
