package fetcher

import (
	"errors"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Answer is the final result of a URL that was requested and is no page. See Config.OnAnswer.
type Answer struct {
	URL     canon.URL
	Item    frontier.Item
	Outcome frontier.Outcome
	Status  int            // 0 if there was no answer
	Target  string         // where a redirect leads, in canonical form; empty if that is not known
	Err     error          // why there is no complete answer; nil if there is one
	Record  *record.Record // as it will be written; links are counted later
}

// handOver calls OnAnswer, unless OnPage was called for the answer. After an error, it returns the
// completion that queues the item again, or finishes it with the outcome "handler". The record of the
// argument done must be v.record.
func (v *visited) handOver(done frontier.Completion) frontier.Completion {
	if v.cfg.OnAnswer == nil || v.isPage || done.Disposition != frontier.Finish {
		return done
	}
	r := v.record
	a := &Answer{URL: v.url, Item: v.item, Outcome: done.Outcome, Status: r.Status, Target: r.RedirectTo, Record: r}
	if r.Error != "" {
		a.Err = errors.New(r.Error)
	}
	err := v.callHandler(func() error { return v.cfg.OnAnswer(v.hard, a) })
	switch {
	case err == nil:
		return done
	case v.hard.Err() != nil: // its context ended
		return v.giveBack()
	}
	r.Error = err.Error()
	if again, left := v.retry(frontier.Handler, 0); left {
		return v.because(again, causeHandler, r)
	}
	done.Outcome, done.Links, done.Refused, done.LinkAnswered, v.refused = frontier.Handler, nil, nil, nil, nil
	r.Outcome = string(frontier.Handler)
	return v.because(done, causeHandler, r)
}
