package report

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestEachOutcomeHasOneKind checks that each outcome is of one kind of result besides Broken, and that
// the conditions name the outcomes that some URL has.
func TestEachOutcomeHasOneKind(t *testing.T) {
	for outcome, want := range map[frontier.Outcome]ResultKind{
		frontier.OK: Status2xx, frontier.Type: Status2xx, frontier.Coding: Status2xx, frontier.Handler: Status2xx,
		frontier.Redirect: Status3xx, frontier.ClientError: Status4xx, frontier.Throttled: Status4xx, frontier.ServerError: Status5xx,
		frontier.Network: NoAnswer, frontier.HostDead: NoAnswer, frontier.WorkerLost: NoAnswer,
		frontier.Robots: Forbidden, frontier.Address: Address, frontier.Blocked: Blocked, frontier.Dropped: Dropped,
	} {
		condition := "outcome = " + string(outcome)
		all := []Result{{want, 3, condition}}
		switch outcome {
		case frontier.ClientError, frontier.Throttled, frontier.ServerError, frontier.Network, frontier.HostDead:
			all = append(all, Result{Broken, 3, condition})
		}
		if diff := cmp.Diff(all, ResultsOf(map[frontier.Outcome]uint64{outcome: 3, "ok-not": 2})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", outcome, diff)
		}
	}
	for _, o := range frontier.Outcomes {
		results := ResultsOf(map[frontier.Outcome]uint64{o.Outcome: 1})
		if o.Outcome.IsCheck() || o.Outcome == frontier.Stale { // they have an account of their own, or no record
			if results != nil {
				t.Errorf("%s has the results %v, want none", o.Outcome, results)
			}
			continue
		}
		var kinds []ResultKind
		for _, r := range results {
			if r.Kind != Broken {
				kinds = append(kinds, r.Kind)
			}
		}
		if len(kinds) != 1 {
			t.Errorf("%s is of the kinds %q, want one", o.Outcome, kinds)
		}
	}
	got := ResultsOf(map[frontier.Outcome]uint64{frontier.Network: 1, frontier.HostDead: 2, frontier.ServerError: 4})
	want := []Result{
		{Status5xx, 4, "outcome = server_error"}, {NoAnswer, 3, "outcome = network or outcome = host_dead"},
		{Broken, 7, "outcome = server_error or outcome = network or outcome = host_dead"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
