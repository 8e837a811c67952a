// Package memory measures what a remembered or queued URL takes, as the system
// that keeps it sees it, beside what `crawler size` says, what no set can do
// without, and what people use instead.
//
// It owns the stores that are compared and how each is weighed: the resident
// memory of a process that holds nothing else, what Redis says it allocated, the
// size of a relation, the bytes of a directory. What should come out is in
// package sizing.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/sizing"
)

// Config says what to weigh. Its zero value is nothing: there are no subjects.
type Config struct {
	Keys     uint64 // of the largest measurement; 0 means a million
	Subjects []Subject
}

// Subject is one way to keep URLs.
type Subject struct {
	Name   string
	Family string        // in the plot, where several rates of one store are one set of marks
	Ours   bool          // what it takes is promised: within tolerance of Predict
	FPR    float64       // with which it takes a new URL for a known one; 0: it is exact
	Most   uint64        // items that it is measured with; 0: any number
	Usual  bool          // what people use instead of a filter: a level in the plot
	Add    time.Duration // roughly what an item costs: decides the share of the budget
	// Weigh keeps n items and returns what they take. It leaves nothing behind.
	Weigh func(ctx context.Context, n uint64, progress func(share float64)) (Weight, error)
	// Predict returns the bytes for n items by package sizing, lowest and
	// highest; nil where that says nothing of it.
	Predict func(n uint64) (low, high float64)
}

// Weight is what items take.
type Weight struct {
	Bytes float64 // of all of them together
	By    string  // what says so
	Keys  float64 // the same as MEMORY USAGE has it, for whatever Redis keeps; 0: not asked
}

// fixedCost is about what a weighing takes before and after the items come: a
// process or a server starts, and comes to rest.
const fixedCost = 3 * time.Second

// tolerance is how far what is ours may be from what `crawler size` says.
const tolerance = 0.10

// urlBytes is the length of all URLs here: what `crawler size` takes for the mean.
const urlBytes = 80

// most is how many items are weighed of what takes some hundred bytes for each.
const most = 10_000_000

// smallest is the number of items of the first measurement; each is ten times
// as large as the one before.
const smallest = 100_000

// Steps returns the steps of the whole measurement, and their section.
func Steps(config Config) (*report.Section, []*agenda.Step) {
	config.Keys = cmp.Or(config.Keys, 1_000_000)
	m := newMeasurement()
	var steps []*agenda.Step
	for _, n := range sizes(config.Keys) {
		table := m.table(n)
		for _, s := range config.Subjects {
			if s.Most > 0 && n > s.Most {
				m.section.Miss(fmt.Sprintf("%s, %s items", s.Name, report.Count(n).Text), "too large to be weighed: up to "+report.Count(s.Most).Text)
				continue
			}
			steps = append(steps, m.step(table, s, n))
		}
	}
	return m.section, steps
}

// sizes returns the numbers of items that are measured: powers of ten and most.
func sizes(most uint64) (all []uint64) {
	for n := uint64(smallest); n < most; n *= 10 {
		all = append(all, n)
	}
	return append(all, most)
}

// measurement is a run under way.
type measurement struct {
	section *report.Section
	promise *report.Promise
	plot    *report.Plot
	lines   map[string]*report.Line
}

func newMeasurement() *measurement {
	s := report.NewSection("memory", "Memory for each URL", fmt.Sprintf(
		`URLs of %d bytes, all different, as many as the store is made for. Memory is weighed as the system sees it: anonymous
resident pages of a process that does nothing else (before and after; small sets are held many times over, so that pages
do not count), used_memory of a Redis of its own, with no client's buffers in it, pg_total_relation_size, bytes of a
directory. The bound is what a set with that rate of errors takes at least, log2(1/p) bits; an exact one has none, for it
keeps what it is given. What a Redis takes once for all crawls (scripts) is not counted, nor is its slow log. What is ours must be within %.0f %% of what crawler size says.`, urlBytes, 100*tolerance))
	m := &measurement{section: s, lines: make(map[string]*report.Line)}
	m.promise = s.Promise(fmt.Sprintf("memory is within %.0f %% of what `crawler size` says", 100*tolerance))
	m.plot = s.Plot(report.Plot{Title: "Bytes for each URL, over the false-positive rate", X: "p", Y: "bytes"})
	bound := m.plot.Line("information bound", report.Dotted)
	for exponent := -9.0; exponent <= -1; exponent += 0.25 {
		p := math.Pow(10, exponent)
		bound.Add(report.Point{X: p, Y: sizing.InformationBound(p) / 8})
	}
	return m
}

func (m *measurement) table(n uint64) *report.Table {
	return m.section.Table(fmt.Sprintf("%s items", report.Count(n).Text), "store", "p", "bytes each", "by", "MEMORY USAGE",
		"crawler size", "measured / predicted", "bound", "times the bound")
}

// step returns the weighing of one store.
func (m *measurement) step(table *report.Table, s Subject, n uint64) *agenda.Step {
	name := fmt.Sprintf("%s, %s items", s.Name, report.Count(n).Text)
	return &agenda.Step{Section: m.section, Name: name, Cost: time.Duration(n)*s.Add + fixedCost, Long: n > smallest,
		Run: func(ctx context.Context, turn *agenda.Turn) error {
			weight, err := s.Weigh(ctx, n, turn.Progress)
			if err != nil {
				return err
			}
			m.report(table, s, n, weight)
			turn.Found("%.4g bytes each by %s%s", weight.Bytes/float64(n), weight.By, s.beside(n, weight))
			return nil
		}}
}

// beside says how a weight compares with the prediction.
func (s Subject) beside(n uint64, weight Weight) string {
	if s.Predict == nil {
		return ""
	}
	low, high := s.Predict(n)
	return ", predicted " + span(low/float64(n), high/float64(n))
}

func span(low, high float64) string {
	if low == high {
		return fmt.Sprintf("%.4g", low)
	}
	return fmt.Sprintf("%.4g to %.4g", low, high)
}

// report adds the row of a store, and holds it to its promise.
func (m *measurement) report(table *report.Table, s Subject, n uint64, weight Weight) {
	each := weight.Bytes / float64(n)
	rate, bound, times := report.Words("exact"), report.Words("–"), report.Words("–")
	if s.FPR > 0 {
		least := sizing.InformationBound(s.FPR) / 8
		rate, bound, times = report.Number(s.FPR, 3), report.Number(least, 3), report.Fixed(each/least, 2)
	}
	usage, predicted, share := report.Words("–"), report.Words("–"), report.Words("–")
	if weight.Keys > 0 {
		usage = report.Number(weight.Keys/float64(n), 4)
	}
	if s.Predict != nil {
		low, high := s.Predict(n)
		predicted = report.Words(span(low/float64(n), high/float64(n)))
		if low == high {
			predicted = report.Number(low/float64(n), 4)
		}
		of := nearest(weight.Bytes, low, high)
		share = report.Fixed(weight.Bytes/of, 3)
		if s.Ours {
			m.promise.Hold(s.fault(n, weight.Bytes, of))
		}
	}
	table.Row(report.Words(s.Name), rate, report.Number(each, 4), report.Words(weight.By), usage, predicted, share, bound, times)
	m.draw(s, each)
}

// nearest returns what of low..high is nearest to x.
func nearest(x, low, high float64) float64 { return min(max(x, low), high) }

// fault says when a weight is not what was predicted.
func (s Subject) fault(n uint64, bytes, predicted float64) string {
	if math.Abs(bytes/predicted-1) <= tolerance {
		return ""
	}
	return fmt.Sprintf("%s: %d items take %.4g bytes each, %+.1f %% of the %.4g that crawler size says",
		s.Name, n, bytes/float64(n), 100*(bytes/predicted-1), predicted/float64(n))
}

// draw puts a store into the plot, a filter as a mark and what people use as a
// level. The last of several sizes stays.
func (m *measurement) draw(s Subject, each float64) {
	const least, most = 1e-9, 0.1
	name := cmp.Or(s.Family, s.Name)
	style := report.Marks
	switch {
	case s.FPR == 0 && !s.Usual:
		return
	case s.FPR == 0:
		style = report.Level
	}
	line := m.lines[name]
	if line == nil {
		line = m.plot.Line(name, style)
		m.lines[name] = line
	}
	if style == report.Level {
		line.Points = []report.Point{{X: least, Y: each}, {X: most, Y: each}}
		return
	}
	line.Points = slices.DeleteFunc(line.Points, func(at report.Point) bool { return at.X == s.FPR })
	line.Add(report.Point{X: s.FPR, Y: each})
}
