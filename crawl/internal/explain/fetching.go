package explain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// askRobots finds out whether robots.txt permits the URL, as far as that is known.
func (q *query) askRobots(context.Context) error {
	r := &Robots{Origin: q.url.Origin(), Access: NotFetched}
	if ignore := q.src.IgnoreRobots; ignore != nil && ignore(q.out.Host) {
		r.Access, r.Words = Ignored, "it does not count for this host, as the settings say"
		q.out.Robots = r
		return nil
	}
	if q.at.Robots == nil {
		return nil
	}
	state, err := q.at.Robots()
	if err != nil {
		return err
	}
	q.out.Robots = r
	if state != nil {
		r.read(state, q.url.Path(), q.src.Now)
	}
	if r.Access == NotFetched {
		r.Words = "it is fetched before the first page"
	}
	return nil
}

// read fills r from the known state of a robots.txt.
func (r *Robots) read(state *robots.State, path string, now time.Time) {
	in := state.AskIn(now)
	r.AskedIn, r.Failures, r.Cause = human.Seconds(in), state.Failures(), state.Cause()
	rules := state.Rules()
	switch {
	case rules != nil:
		allowed, rule := rules.Allowed(path)
		r.Access, r.Rule, r.Rules = Disallowed, rule, rules.Len()
		if allowed {
			r.Access = Allowed
		}
		if r.Failures == 0 && in > 0 {
			at := now.Add(in - robots.Lifetime).UTC()
			r.FetchedAt = &at
		}
		r.Words = r.decision() + ", " + r.age(in)
	case r.Failures > 0:
		r.Access = Unavailable
		r.Words = fmt.Sprintf("%s failed%s; it is asked for again %s, and no page before",
			count(uint64(r.Failures), "attempt"), causeClause(r.Cause), within(in))
	}
}

// causeClause returns a clause with the cause, or "" if the cause is not known.
func causeClause(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + cause
}

// decision describes which rule decided, or why none did.
func (r *Robots) decision() string {
	switch {
	case r.Rule != "":
		return fmt.Sprintf("%q decides", r.Rule)
	case r.Rules == 0:
		return "it has no rules for us"
	}
	return fmt.Sprintf("none of its %s for us matches", count(uint64(r.Rules), "rule"))
}

// age describes how old the file is, and until when it is valid.
func (r *Robots) age(in time.Duration) string {
	switch {
	case r.FetchedAt != nil:
		return fmt.Sprintf("fetched at %s, asked for again %s", stamp(*r.FetchedAt), within(in))
	case r.Failures > 0:
		return fmt.Sprintf("an old answer, which %s could not renew%s; asked for again %s",
			count(uint64(r.Failures), "request"), causeClause(r.Cause), within(in))
	}
	return "asked for again before the next page"
}

// askAddress finds out whether the crawl is allowed to dial the host.
func (q *query) askAddress(ctx context.Context) error {
	if q.src.CheckHost == nil {
		return nil
	}
	err := q.src.CheckHost(ctx, q.url.Host())
	if ctx.Err() != nil {
		return ctx.Err()
	}
	a := &Address{Words: "may be dialled"}
	if refused, ok := errors.AsType[*get.AddressError](err); ok {
		a.Refused, a.Words = true, refused.Error()
	} else if err != nil {
		a.Words = "cannot be looked up now: " + err.Error()
	}
	q.out.Address = a
	return nil
}
