package explain

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/follow"
)

// noURL returns the verdict on a text that has no canonical form.
func noURL(err error) Verdict {
	v := Verdict{Answer: frontier.Refused.String(), Reason: frontier.ReasonMalformed, Words: "it is not a URL"}
	switch {
	case errors.Is(err, canon.ErrScheme):
		v.Reason, v.Words = frontier.ReasonScheme, "only http and https are crawled"
	case errors.Is(err, canon.ErrTooLong):
		v.Reason, v.Words = frontier.ReasonTooLong, fmt.Sprintf("it is longer than %d bytes", frontier.MaxURLBytes)
	}
	if fault, ok := errors.AsType[*canon.Error](err); ok && fault.Hint != "" {
		v.Words += ": " + fault.Hint // the error's own text quotes the URL with its password
	}
	return v
}

// verdict sums up the explanation.
func (q *query) verdict() Verdict {
	switch q.out.Store.State {
	case frontier.Queued:
		return Verdict{Answer: string(frontier.Queued), Words: q.queuedWords() + q.prospect()}
	case frontier.Leased:
		return Verdict{Answer: string(frontier.Leased), Words: "a worker has it now"}
	case frontier.Done:
		words := q.endWords()
		if r := q.out.Record; q.at.Forgets && !q.out.Filter.Known && r != nil && r.Class == "" {
			words += "; its window is over: it is queued again when it is found"
		}
		return Verdict{Answer: string(frontier.Done), Words: words + q.blockedWords()}
	case frontier.Failed:
		if words := q.blockedWords(); words != "" {
			return Verdict{Answer: string(frontier.Failed), Words: q.endWords() + words}
		}
		return Verdict{Answer: string(frontier.Failed), Words: q.endWords() + "; `crawler retry` offers it again"}
	}
	var ifs []string
	for _, c := range q.out.Rules {
		switch {
		case c.Answer == follow.Refuses:
			return Verdict{Answer: frontier.Refused.String(), Reason: c.Reason, Words: c.Words}
		case c.Answer == follow.Depends && c.Rule != follow.Hops.String():
			ifs = append(ifs, c.Words)
		}
	}
	if q.out.Filter.Known && !q.falseClaim {
		return Verdict{Answer: frontier.Seen.String(), Words: q.seenWords()}
	}
	words := q.placeWords()
	if len(ifs) > 0 {
		words = strings.Join(ifs, ", ") + "; " + words
	}
	return Verdict{Answer: "would be queued", Words: words + q.prospect()}
}

// blockedWords says that the URL is blocked, or returns "".
func (q *query) blockedWords() string {
	for _, c := range q.out.Rules {
		if c.Reason == frontier.ReasonBlockRule {
			return "; it is blocked now: it is not requested again, and its records are hidden"
		}
	}
	return ""
}

// seenWords explains why the filter claims to know a URL that was never queued.
func (q *query) seenWords() string {
	why := fmt.Sprintf("a false positive (p = %.2g now)", q.out.Filter.FPR)
	if q.at.Given > 0 {
		why = fmt.Sprintf("it is one of the %s given as known, or %s", count(q.at.Given, "URL"), why)
	}
	return fmt.Sprintf("the filter claims to know it, but it was never queued: %s; `crawler seed` queues it all the same", why)
}

// placeWords describes the position at which a new URL would be queued.
func (q *query) placeWords() string {
	queue := q.out.Store.Queue
	switch {
	case queue == nil:
		return "no rule refuses it and it has not been offered yet"
	case queue.Waiting == 0:
		return fmt.Sprintf("nothing else of %s waits", q.out.Host)
	}
	return fmt.Sprintf("behind %s of %s", count(queue.Waiting, "URL"), q.out.Host)
}

// queuedWords describes the position of the URL and how long it will wait.
func (q *query) queuedWords() string {
	words := "it waits for its host"
	queue := q.out.Store.Queue
	if queue != nil {
		words = fmt.Sprintf("%d of %d of %s", queue.Ahead+1, queue.Waiting, q.out.Host)
	}
	if queue != nil && queue.Delay > 0 {
		words += fmt.Sprintf(", not before %s", rounded(time.Duration(queue.Delay)))
	}
	if n := q.out.Store.Item.Attempts; n > 0 {
		words += fmt.Sprintf(", after %s that failed", count(uint64(n), "attempt"))
	}
	if in := time.Duration(q.out.Store.HostDueIn); in > 0 {
		return words + fmt.Sprintf("; the host is due %s", within(in))
	}
	return words + "; the host is due"
}

// prospect describes why the URL will probably not be fetched, or returns "".
func (q *query) prospect() string {
	if q.out.Trap != "" {
		return "; it will not be requested: " + q.out.Trap
	}
	if r := q.out.Robots; r != nil && r.Access == Disallowed {
		return fmt.Sprintf("; it will not be requested: robots.txt has %q", r.Rule)
	}
	if r := q.out.Robots; r != nil && r.Access == Unavailable {
		return "; robots.txt of its origin failed" + causeClause(r.Cause)
	}
	if q.out.HostFailure != "" {
		return "; the host does not answer" + causeClause(q.out.HostFailure)
	}
	if a := q.out.Address; a != nil && a.Refused {
		return "; it will not be requested: " + a.Words
	}
	return ""
}

// endWords describes the URL's outcome and the record of it.
func (q *query) endWords() string {
	words, r := q.out.Store.outcome(), q.out.Record
	switch {
	case r == nil && words == "":
		return q.missingWords()
	case r == nil:
		return words
	}
	failed := q.at.State == frontier.Failed
	if failed && r.Attempts > 0 { // otherwise nothing was requested
		words += ", after " + count(uint64(r.Attempts), "attempt")
	}
	words += ", at " + stamp(r.FetchedAt)
	if !failed && r.RedirectTo != "" {
		words += ", to " + r.RedirectTo
	}
	if r.Error != "" {
		words += ": " + r.Error
	}
	return words
}

// missingWords explains why the outcome of a URL is unknown that only the filter claims to know.
func (q *query) missingWords() string {
	const elsewhere = "in the directory of a worker that is not here (--dir names them)"
	if q.at.Trail == nil {
		return "its outcome is " + elsewhere
	}
	return fmt.Sprintf("its record is %s, or the filter's claim to know it is a false positive (p = %.2g now)", elsewhere, q.out.Filter.FPR)
}

// outcome names the outcome and the HTTP status, if there was one.
func (s *Store) outcome() string {
	if s.Status == 0 {
		return string(s.Outcome)
	}
	return fmt.Sprintf("%s, status %d", s.Outcome, s.Status)
}

func count(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// rounded rounds a duration for display.
func rounded(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(time.Second)
}

func within(d time.Duration) string {
	if d <= 0 {
		return "now"
	}
	return "in " + rounded(d).String()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
