package fetcher

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// access says what robots.txt of an origin says about a path.
func (h *holding) access(origin, path string) (robots.Access, string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.origin(origin).Check(time.Now(), path)
}

// origin returns the state of an origin's robots.txt; mu is held.
func (h *holding) origin(origin string) *robots.State {
	state := h.origins[origin]
	if state == nil {
		state = new(robots.State)
		h.origins[origin] = state
	}
	return state
}

// robotsDue is how long the host must wait for a robots.txt that could not be
// had, when there is nothing else it could be asked for; mu is held.
func (h *holding) robotsDue() time.Duration {
	if !h.closing || len(h.pending) == 0 { // pending is run's alone until closing
		return 0
	}
	url, err := h.cfg.Canon.Parse(h.pending[0].URL)
	if err != nil || h.rules.IgnoreRobots {
		return 0
	}
	now := time.Now()
	state := h.origin(url.Origin())
	if access, _ := state.Check(now, url.Path()); access == robots.Wait {
		return state.AskIn(now)
	}
	return 0
}

// robotsOut deals with an item whose robots.txt cannot be had: it waits, and
// after as many tries as a page gets it has failed.
func (h *holding) robotsOut(origin string) error {
	h.mu.Lock()
	failures := h.origin(origin).Failures()
	h.mu.Unlock()
	if failures <= h.cfg.Retries {
		return errStop
	}
	return h.conclude(1, frontier.Network, fmt.Sprintf("robots.txt cannot be had after %d tries", failures))
}

// askRobots requests the robots.txt of a URL's origin. It is a request to the
// host like any other: in its turn and under its delay. Only a redirect to
// another host key is followed at once.
func (h *holding) askRobots(stop context.Context, url canon.URL) error {
	if err := h.begin(stop); err != nil {
		return err
	}
	defer func() {
		h.dropSlot()
		<-h.asks
		<-h.room
	}()
	origin := url.Origin()
	target, err := h.cfg.Canon.Parse(origin + "/robots.txt")
	if err != nil {
		return h.conclude(1, frontier.Network, err.Error())
	}
	for hop := 0; ; hop++ {
		answer, err := h.requestRobots(target)
		if err != nil {
			return h.robotsFailed(origin, err)
		}
		next, jump := h.robotsTarget(target, answer, hop)
		if !jump {
			slower := h.noteRobots(origin, answer)
			answer.Release()
			if slower {
				// The store must know before the next start: after a crash it
				// holds the host for as long as it knows of.
				h.complete(nil, false)
			}
			return nil
		}
		answer.Release()
		if h.cfg.Canon.HostKey(next) == h.lease.Host {
			wait, err := h.due()
			if err != nil {
				return err
			}
			pause(stop, wait)
			if stop.Err() != nil {
				return errStop
			}
		} else {
			h.cfg.Logger.Debug("robots.txt on another host", slog.String("url", next.String()))
		}
		target = next
	}
}

// noteRobots takes an answer into the origin's state; it reports whether the
// host's delay became longer.
func (h *holding) noteRobots(origin string, answer *get.Response) (slower bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.host.Delay()
	state := h.origin(origin)
	state.Answered(time.Now(), answer.Status, answer.Body, h.token, answer.RetryAfter)
	if rules := state.Rules(); rules != nil {
		delay, _ := rules.CrawlDelay()
		h.host.CrawlDelay(delay)
	}
	h.changed = true
	return h.host.Delay() > before
}

// robotsTarget returns where an answer points, if it is to be followed.
func (h *holding) robotsTarget(target canon.URL, answer *get.Response, hop int) (canon.URL, bool) {
	if robots.FromStatus(answer.Status) != robots.Follow || answer.RedirectTo == "" || hop >= robots.MaxRedirects {
		return canon.URL{}, false
	}
	next, err := h.cfg.Canon.Join(target, answer.RedirectTo)
	return next, err == nil
}

func (h *holding) requestRobots(url canon.URL) (*get.Response, error) {
	same := h.cfg.Canon.HostKey(url) == h.lease.Host
	started := func() {
		if same {
			h.mu.Lock()
			h.host.Start(time.Now())
			h.mu.Unlock()
		}
	}
	h.tally.robots.Add(1)
	answer, err := h.cfg.Client.Get(h.hard, get.Request{
		URL: url.String(), Header: h.rules.Header, Started: started, Sent: started,
		AnyType: true, MaxBody: robots.MaxBytes + 1,
	})
	if same {
		h.noteAnswer(answer, err)
	}
	return answer, err
}

// robotsFailed notes that a robots.txt did not come.
func (h *holding) robotsFailed(origin string, err error) error {
	fault := get.Classify(err)
	switch {
	case fault.Aborted:
		return errStop
	case fault.Stale:
		return nil // again, when the host is due
	case fault.Outcome == frontier.Address:
		return h.conclude(1, frontier.Address, err.Error())
	}
	h.mu.Lock()
	h.origin(origin).Failed(time.Now())
	h.changed = true
	h.mu.Unlock()
	return nil
}
