package fetcher

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/politeness"
)

// An answer that comes from a wall (get.Response.Wall) says nothing about its page. Its URL stays in the
// lease, and what becomes of it depends on how the lease ends:
//
//	the host is blocked (politeness.Host.Walled)   the URL goes back unchanged, as all others
//	the host has had no answer but those of walls  the same: soon the host is blocked, or a page comes
//	the last answer is that of a wall, and the     the same: the next lease shows what the wall refuses
//	host may have more URLs; or the run stops
//	otherwise                                      an attempt is used up; the last one decides: Blocked
//
// A blocked host is not due until its back-off ends. Then it gets one request for a page, whose answer
// ends the block or continues it. A robots.txt that comes from a wall counts as not reachable.

// maxWalled is how many URLs stay in a lease after the answer of a wall.
const maxWalled = 32

// noteWall updates the state of the host with an answer to a request for a page or, if isPage is false,
// for a robots.txt. A robots.txt or a redirect that comes from no wall says nothing, because walls often let
// them through, and an answer that asks to come later says nothing either. again says that the URL was refused by a wall before.
func (h *holding) noteWall(answer *get.Response, isPage, again bool) {
	wall, now := answer.Wall(), time.Now()
	h.mu.Lock()
	if wall.Reason == "" {
		if outcome, later := get.OutcomeOf(answer.Status); isPage && !later && outcome != frontier.Redirect {
			h.changed = h.changed || h.host.Walls() > 0
			h.host.Passed(now)
		}
		h.mu.Unlock()
		return
	}
	before := h.host.BackoffUntil()
	h.host.Walled(now, again)
	h.changed, h.waits = true, true
	until := h.host.BackoffUntil()
	begins := h.host.Blocked() && until.After(before)
	if begins {
		h.cause = clip(wall.String())
	}
	h.mu.Unlock()
	if begins {
		h.cfg.Logger.Warn("host blocked", slog.String("host", h.lease.Host), slog.String("err", wall.String()),
			slog.Duration("next_try_in", until.Sub(now)))
	}
}

// walled returns the completion of a URL that a wall has refused, for the case that an attempt is used up.
func (v *visited) walled(wall get.Wall, r *record.Record) frontier.Completion {
	r.Error = wall.String()
	v.atWall = true
	v.tally.failed(v.item.Host, r.Error)
	return v.again(frontier.Blocked, 0, "blocked_"+string(wall.Reason), r)
}

// keepWalled keeps the completion of a URL that a wall has refused until the lease ends. It returns false
// if there are too many.
func (v *visited) keepWalled(done frontier.Completion) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.holding.walled) >= maxWalled {
		return false
	}
	v.holding.walled = append(v.holding.walled, walledVisit{v, done})
	return true
}

// walledVisit is a visit that has ended at a wall, and its completion if an attempt is used up.
type walledVisit struct {
	visit *visited
	done  frontier.Completion
}

// moreBehindWall is called when no visit is under way, and no item is pending. If the last answer is that
// of a wall, and the host is not blocked, it requests more items, so that they show what the wall refuses.
// It returns false if nothing more must be done under this lease.
func (h *holding) moreBehindWall() bool {
	received := h.received
	h.mu.Lock()
	if h.exhausted || len(h.walled) == 0 || h.host.Blocked() || !h.host.LastWall() || time.Since(h.since) >= h.lease.TTL {
		h.mu.Unlock()
		return false
	}
	h.closing = false
	h.mu.Unlock()
	h.prefetch(h.stopping)
	h.takePrefetched(true)
	h.exhausted = h.received == received
	return true
}

// settleWalled completes the URLs that walls have refused, unless they go back with the lease. It is
// called when no visit is under way.
func (h *holding) settleWalled() {
	h.mu.Lock()
	walled := h.walled
	undecided := h.host.LastWall() && !h.exhausted
	if h.host.Blocked() || h.host.OnlyWalls() || undecided || h.stopping.Err() != nil {
		walled = nil
	}
	h.mu.Unlock()
	if len(walled) == 0 || h.isOver() {
		return
	}
	completions := make([]frontier.Completion, len(walled))
	for i, w := range walled {
		if completions[i] = w.visit.handOver(w.done); completions[i].Disposition == frontier.Finish {
			h.tally.finished.Add(1)
		}
	}
	h.complete(completions, false)
}

// probes reports whether the host is blocked, and a request finds out whether it still is.
func (h *holding) probes() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.host.Blocked() && h.outstanding > 0
}

// BlockOf returns why a host is blocked, according to its blob, or "" if it is not.
func BlockOf(blob []byte) (why string, err error) {
	if blob == nil {
		return "", nil
	}
	polite, _, err := openBlob(blob)
	if err != nil {
		return "", err
	}
	var host politeness.Host
	if err := host.UnmarshalBinary(polite); err != nil || !host.Blocked() {
		return "", err
	}
	return CauseOf(blob)
}

// isWall reports whether the cause of a failure is a wall.
func isWall(cause string) bool { return strings.HasPrefix(cause, get.WallPrefix) }

// onlyBlocked reports whether only blocked hosts have work. It asks Config.OnlyBlocked at most every 10 s, and
// less often if the answer takes long.
func (c *Crawl) onlyBlocked(ctx context.Context) (bool, error) {
	if c.cfg.OnlyBlocked == nil || time.Now().Before(c.askBlocked) {
		return false, nil
	}
	begun := time.Now()
	only, err := c.cfg.OnlyBlocked(ctx)
	c.askBlocked = time.Now().Add(max(10*time.Second, 20*time.Since(begun)))
	return only, err
}
