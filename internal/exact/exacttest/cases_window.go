package exacttest

import (
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

var windowCases = []testCase{
	// This case checks that a done or failed key is new again, once, when its window
	// is over. The window begins when the key is finished.
	{"BackAfterTheWindow", hundred(), func(d *driver) {
		done, failed := key(0), key(1)
		d.queue(0, done, failed)
		for round := range uint32(3) {
			d.Clock.Advance(time.Hour)
			d.storeEnds(finished(done, round, frontier.OK, 200), finished(failed, round, frontier.Network, 0))
			s := d.status(done)
			d.Require(about(s.SeenFor, window) && !s.Forever,
				"the status of a key with a window of %v is %+v", window, s)
			d.wantAnswers(exact.Answer{Round: round}, done, failed)
			d.Clock.Advance(window - 2*time.Second)
			d.wantAnswers(exact.Answer{Round: round}, done, failed, done)
			d.wantState(exact.Done, round, done)
			d.Clock.Advance(4 * time.Second)
			s = d.status(done)
			d.Require(s.State == exact.Done && s.SeenFor == 0 && !s.Forever,
				"the status of a key whose window is over is %+v", s)
			if round == 1 { // asks for both keys in one batch, and for one of them twice
				answers := d.decide(done, failed, done)
				again := exact.Answer{New: true, Round: 2}
				d.Require(answers[0] == again && answers[1] == again && answers[2] == exact.Answer{Round: 2},
					"keys whose windows are over are answered %+v", answers)
				d.markQueued(2, done, failed)
				continue
			}
			d.queue(round+1, done, failed)
			d.wantAnswers(exact.Answer{Round: round + 1}, done, failed)
		}
	}},
	// This case withdraws keys that were new for a second time. They must be
	// finished as before, and new to the next caller.
	{"WithdrawOfARenewedKey", hundred(), func(d *driver) {
		d.queue(0, keys(0, 2)...)
		d.storeEnds(finished(key(0), 0, frontier.ClientError, 404), finished(key(1), 0, frontier.Network, 0))
		d.passWindow()
		d.wantAnswers(exact.Answer{New: true, Round: 1}, keys(0, 2)...)
		d.withdraw(0, keys(0, 2)...) // the keys are not pending in this round
		d.wantState(exact.Pending, 1, keys(0, 2)...)
		d.withdraw(1, keys(0, 2)...)
		d.wantState(exact.Done, 0, key(0))
		d.wantState(exact.Failed, 0, key(1))
		s := d.status(key(0))
		d.Require(s.Outcome == frontier.ClientError && s.HTTP == 404, "the status of a renewed key that was withdrawn is %+v, want its old outcome and HTTP status", s)
		d.wantEntries("Waiting", d.waiting(9), 1)
		d.queue(1, keys(0, 2)...)
	}},
	// This case checks that the window begins again when a retried key is
	// finished, but not when Finish is repeated.
	{"RetryStartsTheWindowAnew", hundred(), func(d *driver) {
		d.queue(0, key(0))
		d.storeEnds(finished(key(0), 0, frontier.Network, 0))
		d.Clock.Advance(window / 2)
		d.finish(1, key(0))
		d.Clock.Advance(window / 2)
		d.finish(1, key(0))
		d.wantAnswers(exact.Answer{Round: 1}, key(0))
		d.Clock.Advance(window/2 + 2*time.Second)
		d.queue(2, key(0))
	}},
	{"SweepInBatches", hundred(), func(d *driver) {
		d.queue(0, keys(0, 50)...)
		d.finish(0, keys(0, 20)...)
		d.Clock.Advance(30 * time.Second)
		d.finish(0, keys(20, 40)...)
		d.Clock.Advance(window - 32*time.Second)
		d.wantSweep("keys before their window is over", 100, 0, 0)
		d.Clock.Advance(12 * time.Second) // the window of the first 20 keys has been over for 10 s
		stats, err := d.Stats(d.Ctx)
		d.Must(err, "Stats")
		d.Require(about(stats.Lag, 10*time.Second) && stats.Due == 20, "Stats are %+v, want a lag of 10s, and 20 due", stats)
		d.wantSweep("the first 15 of 20 keys", 15, 15, 10*time.Second)
		stats, err = d.Stats(d.Ctx)
		d.Must(err, "Stats")
		d.Require(stats.Due == 5, "%d keys are due, want 5", stats.Due)
		d.wantSweep("the other 5 keys", 15, 5, 0)
		d.wantState(exact.Unknown, 0, keys(0, 20)...)
		d.wantStats(0, 10, 20, 0)
		d.Clock.Advance(30 * time.Second)
		d.wantSweep("the second 20 keys", 100, 20, 0)
		d.wantStats(0, 10, 0, 0)
	}},
	// This case checks that an unknown key begins in a later round than any swept key
	// had. The set cannot distinguish
	// a swept key from a key that it never had.
	{"SweptRoundsDoNotRepeat", hundred(), func(d *driver) {
		const first = 4 // two rounds after the swept key 1
		d.queue(0, keys(0, 3)...)
		d.wantSweep("a set in which no window is over", 9, 0, 0)
		d.wantAnswers(exact.Answer{New: true, First: true}, key(11))
		d.finish(0, key(0), key(1))
		d.finish(2, key(1)) // retried
		d.passWindow()
		d.wantSweep("two keys whose windows are over", 9, 2, 0)
		d.wantAnswers(exact.Answer{New: true, Round: first}, key(0), key(1), key(9))
		d.withdraw(first, key(9))
		d.wantState(exact.Unknown, 0, key(9))
		d.wantAnswers(exact.Answer{New: true, Round: first}, key(9))
		d.wantAnswers(exact.Answer{}, key(2)) // not swept, because it is queued
		d.finish(first, key(0))
		d.passWindow()
		d.queue(first+1, key(0)) // renewed, not swept
		d.wantAnswers(exact.Answer{New: true, Round: first}, key(10))
		d.finish(first+1, key(0))
		d.passWindow()
		d.wantSweep("a key that was swept before", 9, 1, 0)
		d.wantAnswers(exact.Answer{New: true, Round: first + 3}, key(0), key(12))
	}},
}

const window = 100 * time.Second

// hundred returns windows in which the class of the suite's keys has a window of 100 s.
func hundred() exact.Windows { return exact.Windows{frontier.Exact: window} }

// passWindow moves the clock so far that the windows of all finished keys are over.
func (d *driver) passWindow() { d.Clock.Advance(window + 2*time.Second) }
