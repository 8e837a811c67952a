package fetcher

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// This file has what follows an attempt that failed: another one, or the end of the item with a cause.

// errorEvery is how old the last failure in the state of a host can be while failures continue.
const errorEvery = 10 * time.Second

// because sets the cause of a completion, unless its item is Done, and keeps it as an example.
func (h *holding) because(done frontier.Completion, cause string, r *record.Record) frontier.Completion {
	if done.Disposition == frontier.Retry || done.Disposition == frontier.Finish && done.Outcome.State() == frontier.Failed {
		done.Cause = cause
		now := time.Now().UTC()
		h.tally.addExample(cause, Example{Time: now, URL: r.URL, Error: clip(r.Error)})
		h.mu.Lock()
		// The blob can be large, so it is not stored again for each failure. It is always stored when the lease ends.
		h.changed = h.changed || h.lastError == nil || now.Sub(h.lastError.Time) > errorEvery
		h.lastError = &LastError{Time: now, Error: clip(cmp.Or(r.Error, cause))}
		h.mu.Unlock()
	}
	return done
}

// again returns the completion after an attempt that failed. The completion queues the item
// for another attempt, which starts after minWait or later. If the attempts are used up, the
// completion finishes the item. The argument cause is why the attempt failed.
func (v *visited) again(outcome frontier.Outcome, minWait time.Duration, cause string, r *record.Record) frontier.Completion {
	if again, left := v.retry(outcome, minWait); left {
		return v.because(again, cause, r)
	}
	r.Attempts = int(v.item.Attempts) + 1
	return v.because(v.finish(outcome, r), cause, r)
}

// retry returns the completion that queues the item for another attempt, if one is left.
func (v *visited) retry(outcome frontier.Outcome, minWait time.Duration) (again frontier.Completion, left bool) {
	attempts, polite := int(v.item.Attempts)+1, &v.rules.host.Politeness
	if attempts > v.rules.policy.Retries {
		return frontier.Completion{}, false
	}
	wait := max(polite.RetryIn(attempts, random), minWait)
	if outcome == frontier.Handler {
		wait = polite.BackoffIn(attempts, random)
	}
	return frontier.Completion{Item: v.item.Fingerprint, Disposition: frontier.Retry, RetryIn: wait}, true
}

// localPause is the wait of a host after a request that this machine could not make.
const localPause = 5 * time.Second

// awaitMachine notes that this machine could not make a request, and waits.
func (h *holding) awaitMachine(err error) {
	cause := causeOf(err)
	h.tally.failed("", cause)
	h.machineCause.Store(&cause)
	h.noteMachine(err)
	h.awaitingMachine.Add(1)
	defer h.awaitingMachine.Add(-1)
	pause(h.hard, localPause)
}

// failed returns the completion of an item whose request had no answer.
func (v *visited) failed(err error) frontier.Completion {
	fault := get.Classify(err)
	v.cfg.Logger.Debug("no answer", slog.String("url", v.item.URL), slog.Any("err", err))
	if fault.Aborted {
		return v.giveBack()
	}
	if fault.Local {
		v.awaitMachine(err)
		return v.giveBack()
	}
	r := v.newVisitRecord()
	r.DurationMS = milliseconds(time.Since(v.startedAt()))
	r.Error = err.Error()
	if fault.Retry {
		// The request counts as an attempt even if the server closed a kept connection.
		// Otherwise, if the server does so at each request, the URL would be tried for ever.
		v.tally.failed(v.item.Host, causeOf(err))
		return v.again(fault.Outcome, 0, get.Cause(err), r)
	}
	r.Attempts++
	if fault.Lasting {
		v.noteLasting(causeOf(err))
	}
	return v.because(v.finish(fault.Outcome, r), get.Cause(err), r)
}

// Causes of failures (frontier.Completion.Cause), besides those of get.Cause, "status_" with a status, and
// "blocked_" with the reason of a wall.
const (
	causeCut      = "cut"         // the body ended early
	causeHandler  = "handler"     // OnPage returned an error, or the work on the page took too long
	causeRobots   = "robots_txt"  // it cannot be fetched
	causeHostDead = "host_dead"   // the host was given up
	causeWorker   = "worker_lost" // its workers died over it
)
