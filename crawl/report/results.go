package report

import (
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
)

// Result counts the finished URLs with one kind of answer.
type Result struct {
	Kind  ResultKind `json:"kind"`
	Count uint64     `json:"count"` // more than 0
	// Where selects the records of these URLs, as the flag --where of `crawler output` does.
	Where string `json:"where"`
}

// ResultKind is a kind of answer.
type ResultKind string

// Each finished URL is of exactly one kind other than Broken, except checks, which Checks counts.
const (
	Status2xx ResultKind = "2xx" // also pages that are as they were, whose type was not wanted, or that could not be processed
	Status3xx ResultKind = "3xx"
	Status4xx ResultKind = "4xx" // also statuses above 599, which no standard defines
	Status5xx ResultKind = "5xx"
	NoAnswer  ResultKind = "no answer"
	Blocked   ResultKind = "blocked"     // by a wall; the page may be alive
	Broken    ResultKind = "broken"      // 4xx, 5xx, and no answer except that of lost workers
	Forbidden ResultKind = "robots"      // by robots.txt
	Use       ResultKind = "refused_use" // by its owner, for a use of the crawl
	Address   ResultKind = "address"
	Dropped   ResultKind = "dropped" // by a rule that became stricter while they waited
)

// results are the outcomes of each kind, in the order of Report.Results.
var results = []struct {
	kind     ResultKind
	outcomes []frontier.Outcome
}{
	{Status2xx, []frontier.Outcome{frontier.OK, frontier.NotModified, frontier.Type, frontier.Coding, frontier.Handler}},
	{Status3xx, []frontier.Outcome{frontier.Redirect}},
	{Status4xx, []frontier.Outcome{frontier.ClientError, frontier.Throttled}},
	{Status5xx, []frontier.Outcome{frontier.ServerError}},
	{NoAnswer, []frontier.Outcome{frontier.Network, frontier.HostDead, frontier.WorkerLost}},
	{Blocked, []frontier.Outcome{frontier.Blocked}},
	{Broken, brokenOutcomes()},
	{Forbidden, []frontier.Outcome{frontier.Robots}},
	{Use, []frontier.Outcome{frontier.RefusedUse}},
	{Address, []frontier.Outcome{frontier.Address}},
	{Dropped, []frontier.Outcome{frontier.Dropped}},
}

// brokenOutcomes returns the outcomes that are broken (see frontier.Outcome.IsBroken), except those of
// checks.
func brokenOutcomes() (broken []frontier.Outcome) {
	for _, o := range frontier.Outcomes {
		if o.Broken && !o.Outcome.IsCheck() {
			broken = append(broken, o.Outcome)
		}
	}
	return broken
}

// ResultsOf returns the results with these numbers of finished URLs, without those that count none.
// Their conditions name only outcomes that some URL has.
func ResultsOf(outcomes map[frontier.Outcome]uint64) (all []Result) {
	for _, r := range results {
		var sum uint64
		var conditions []string
		for _, outcome := range r.outcomes {
			if n := outcomes[outcome]; n > 0 {
				sum += n
				conditions = append(conditions, "outcome = "+string(outcome))
			}
		}
		if sum > 0 {
			all = append(all, Result{r.kind, sum, strings.Join(conditions, " or ")})
		}
	}
	return all
}
