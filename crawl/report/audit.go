package report

import (
	"math"
	"slices"
)

// Audit is a recount of a crawl. docs/reference/audit.md lists the source from which
// each term is counted.
type Audit struct {
	Balanced bool     `json:"balanced"`
	Terms    []Term   `json:"terms"`
	Faults   []string `json:"faults,omitempty"` // where the store's tables contradict each other
	Notes    []string `json:"notes,omitempty"`  // what was not counted, and why
}

// Term is one counter of the crawl, with its recount.
type Term struct {
	Term    string  `json:"term"`
	Counter uint64  `json:"counter"`
	Counted float64 `json:"counted"`
	Within  float64 `json:"within,omitempty"` // the largest difference that counts as balanced; 0 unless Counted is an estimate
	From    string  `json:"from"`             // the source that was counted
	Fault   string  `json:"fault,omitempty"`  // why the term does not balance
}

// Add adds a term that is counted exactly. A term with a fault does not balance
// even if the numbers agree.
func (a *Audit) Add(name string, counter, counted uint64, from, fault string) {
	if fault == "" && counter != counted {
		fault = "differ"
	}
	a.Terms = append(a.Terms, Term{Term: name, Counter: counter, Counted: float64(counted), From: from, Fault: fault})
}

// AddEstimate adds a term that compares the number of added URLs with an estimate from
// the fill of the filter. A difference of up to 5 standard errors plus one URL counts as
// balanced. The one URL is for small crawls: only whole bits can be set, so an estimate of few
// URLs is not precise.
func (a *Audit) AddEstimate(added uint64, estimate, stderr float64) {
	t := Term{Term: "added", Counter: added, From: "fill of the filter"}
	if math.IsInf(estimate, 1) {
		t.From += ", which is too full for an estimate"
		a.Terms = append(a.Terms, t)
		return
	}
	t.Counted, t.Within = estimate, 5*stderr+1
	if math.Abs(t.Counted-float64(t.Counter)) > t.Within {
		t.Fault = "differ"
	}
	a.Terms = append(a.Terms, t)
}

// Broken names the terms that do not balance.
func (a *Audit) Broken() (names []string) {
	for _, t := range a.Terms {
		if t.Fault != "" && !slices.Contains(names, t.Term) {
			names = append(names, t.Term)
		}
	}
	if len(a.Faults) > 0 {
		names = append(names, "tables")
	}
	return names
}
