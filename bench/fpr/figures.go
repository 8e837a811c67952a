package fpr

import (
	"fmt"
	"math"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/bloomstore/bloomrate"
	"github.com/bloomfrontier/crawler/sizing"
)

// label is the first cell of a row.
func (c Case) label(s Subject) report.Cell {
	name := s.Name
	if c.Growth && c.Hosts == 0 {
		name += fmt.Sprintf(", grown ×%d", c.growth())
	}
	if c.Hosts > 0 {
		name += fmt.Sprintf(", %d Zipf hosts in %d partitions", c.Hosts, c.Partitions)
	}
	return report.Words(name)
}

// reportFull adds the row of a set that has all its keys.
func (m *measurement) reportFull(turn *agenda.Turn, s Subject, c Case, claimed, probes uint64, theory Theory) {
	spread := bloomrate.Spread(c.FPR, c.Keys)
	rate := float64(claimed) / float64(probes)
	lo, hi := sizing.Interval(claimed, probes)
	off := bloomrate.Deviation(claimed, probes, theory.FPR, spread)
	m.full.Row(c.label(s), report.Count(c.Keys), report.Number(c.FPR, 3), report.Count(probes), report.Count(claimed),
		report.Number(rate, 4), report.Between(lo, hi), report.Number(theory.FPR, 4),
		report.Fixed(rate/theory.FPR, 3), report.Fixed(off, 1))
	m.bound.Hold(tooOften(s.Name+", "+c.Name(), claimed, probes, c.FPR, spread))
	m.theory.Hold(unlike(s.Name+", "+c.Name(), claimed, probes, theory.FPR, theory.Slack, spread))
	m.mark(s).Add(report.Point{X: c.FPR, Y: rate / theory.FPR, Low: lo / theory.FPR, High: hi / theory.FPR})
	turn.Found("%.4g in %s probes, %.3f of the theory, %+.1fσ", rate, report.Count(probes).Text, rate/theory.FPR, off)
}

// mark returns the marks of a subject in the plot.
func (m *measurement) mark(s Subject) *report.Line {
	if m.marks[s.Name] == nil {
		m.marks[s.Name] = m.plot.Line(s.Name, report.Marks)
	}
	return m.marks[s.Name]
}

// reportLost adds the row of what a set lost while it was filled.
func (m *measurement) reportLost(s Subject, c Case, lost uint64, theory Theory) {
	spread := bloomrate.Spread(c.FPR, c.Keys)
	lo, hi := sizing.Interval(lost, c.Keys)
	share := float64(lost) / float64(c.Keys)
	off := bloomrate.Deviation(lost, c.Keys, theory.Lost, spread)
	m.filling.Row(c.label(s), report.Count(c.Keys), report.Number(c.FPR, 3), report.Count(lost), report.Number(share, 4),
		report.Between(lo, hi), report.Number(theory.Lost, 4), ratio(share, theory.Lost), report.Fixed(off, 1))
	m.theory.Hold(unlike(s.Name+", "+c.Name()+", while filling", lost, c.Keys, theory.Lost, theory.Slack, spread))
}

// ratio leaves out what has no meaning: of a theory that expects less than some keys.
func ratio(share, theory float64) report.Cell {
	if theory == 0 || share == 0 {
		return report.Words("–")
	}
	return report.Fixed(share/theory, 3)
}

// reportExact adds the row of a store that must not err: neither when keys come
// nor when it is asked for some that did not.
func (m *measurement) reportExact(turn *agenda.Turn, s Subject, c Case, lost, claimed uint64) {
	lo, hi := sizing.Interval(lost, c.Keys)
	m.filling.Row(report.Words(s.Name), report.Count(c.Keys), report.Words("exact"), report.Count(lost),
		report.Number(float64(lost)/float64(c.Keys), 4), report.Between(lo, hi), report.Number(0, 1), report.Words("–"), report.Words("–"))
	fault := ""
	if lost > 0 {
		fault = fmt.Sprintf("%s: %d of %d new keys were taken for known ones", s.Name, lost, c.Keys)
	}
	m.exact.Hold(fault)
	fault = ""
	if claimed > 0 {
		fault = fmt.Sprintf("%s: claims to know %d of %d keys that were never added", s.Name, claimed, min(c.Keys, sample))
	}
	m.exact.Hold(fault)
	turn.Found("%d of %d lost, %d of %d others claimed", lost, c.Keys, claimed, min(c.Keys, sample))
}

// tooOften says when count events in trials are more than a rate of p explains.
func tooOften(what string, count, trials uint64, p, spread float64) string {
	off := bloomrate.Deviation(count, trials, p, spread)
	if off <= limit {
		return ""
	}
	return fmt.Sprintf("%s: claimed %d of %d keys that were never added, a rate of %.4g: %+.1fσ from %g",
		what, count, trials, float64(count)/float64(trials), off, p)
}

// unlike says when count events in trials are more or fewer than a rate explains
// that is within slack of theory.
func unlike(what string, count, trials uint64, theory, slack, spread float64) string {
	above := bloomrate.Deviation(count, trials, theory*(1+slack), spread)
	below := bloomrate.Deviation(count, trials, theory*(1-slack), spread)
	if above <= limit && below >= -limit {
		return ""
	}
	off := above
	if math.Abs(below) > math.Abs(above) {
		off = below
	}
	if above <= limit {
		off = below
	}
	return fmt.Sprintf("%s: %d of %d, a rate of %.4g: %+.1fσ from the theory's %.4g", what, count, trials,
		float64(count)/float64(trials), off, theory)
}
