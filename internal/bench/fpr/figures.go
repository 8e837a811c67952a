package fpr

import (
	"fmt"

	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/sizing"
)

// counted is the number of events in a number of trials, and the rate of events that theory
// predicts.
type counted struct {
	count, trials uint64
	theory        Rate
}

func (n counted) rate() float64 { return float64(n.count) / float64(n.trials) }

// off returns the deviation of the number of events from the number that a rate predicts,
// in σ.
func (n counted) off(rate float64) float64 {
	return bloomrate.Deviation(n.count, n.trials, rate, n.theory.spread())
}

// cells returns the cells of the columns for the measured rate, its interval, the
// theory, the ratio and the deviation. An undefined value is a dash.
func (n counted) cells() []report.Cell {
	lo, hi := sizing.Interval(n.count, n.trials)
	theory := n.theory.Mean
	ratio, off := report.Words("–"), report.Words("–")
	if theory > 0 {
		off = report.Fixed(n.off(theory), 1)
		if n.count > 0 {
			ratio = report.Fixed(n.rate()/theory, 3)
		}
	}
	return []report.Cell{report.Count(n.count), report.Number(n.rate(), 4), report.Words(fmt.Sprintf("%.3g … %.3g", lo, hi)), report.Number(theory, 4), ratio, off}
}

// hold checks a promise: the number of events must agree with a rate between lowest and
// highest.
func (n counted) hold(promise *report.Promise, what string, lowest, highest float64) {
	bound, off := highest, n.off(highest)
	kept := off <= limit
	if kept && lowest > 0 {
		bound, off = lowest, n.off(lowest)
		kept = off >= -limit
	}
	promise.Hold(kept, "%s: %d of %d, a rate of %.4g: %+.1fσ from %.4g", what, n.count, n.trials, n.rate(), off, bound)
}

// agrees checks that the number of events agrees with the theory, and returns true. But if a
// set has so few keys that the rates of such sets are not normally distributed, agrees does
// not check the number. It adds a note to the section and returns false.
func (m *measurement) agrees(n counted, what string, slack float64) bool {
	if n.theory.uneven(n.trials) {
		m.section.Miss(what, fmt.Sprintf("not compared with a promise: the rates of sets with so few keys differ by chance by ±%.0f %% (one σ), more to one side than to the other",
			100*n.theory.spread()))
		return false
	}
	n.hold(m.theory, what, n.theory.Mean*(1-slack), n.theory.Mean*(1+slack))
	return true
}

// reportFull adds the row for a set to which all its keys were added.
func (m *measurement) reportFull(turn *report.Turn, s Subject, c Case, claimed, probes uint64, theory Theory) {
	n, what, mean := counted{claimed, probes, theory.FPR}, s.Name+", "+c.Name(), theory.FPR.Mean
	m.full.Row(append([]report.Cell{report.Words(s.Name + c.growth()), report.Count(c.Keys), report.Number(c.FPR, 3), report.Count(probes)}, n.cells()...)...)
	if m.agrees(n, what, theory.Slack) {
		n.hold(m.bound, what, 0, c.FPR)
	}
	turn.Found("%.4g in %s probes, %.3f of the theory", n.rate(), report.Count(probes).Text, n.rate()/mean)
}

// reportLost adds the row for the keys that a set lost while it was filled.
func (m *measurement) reportLost(s Subject, c Case, lost uint64, theory Theory) {
	n := counted{lost, c.Keys, theory.Lost}
	m.filling.Row(append([]report.Cell{report.Words(s.Name + c.growth()), report.Count(c.Keys), report.Number(c.FPR, 3)}, n.cells()...)...)
	m.agrees(n, s.Name+", "+c.Name()+", while filling", theory.Slack)
}

// reportExact adds the row for a store that must never err: it must recognise every new
// key as new, both when the key is added and when it is only looked up.
func (m *measurement) reportExact(turn *report.Turn, s Subject, c Case, lost, claimed uint64) {
	n, asked := counted{lost, c.Keys, Rate{}}, min(c.Keys, sample)
	m.filling.Row(append([]report.Cell{report.Words(s.Name), report.Count(c.Keys), report.Words("exact")}, n.cells()...)...)
	m.exact.Hold(lost == 0, "%s: %d of %d new keys were taken for known ones", s.Name, lost, c.Keys)
	m.exact.Hold(claimed == 0, "%s: claims to know %d of %d keys that were never added", s.Name, claimed, asked)
	turn.Found("%d of %d lost, %d of %d others claimed", lost, c.Keys, claimed, asked)
}
