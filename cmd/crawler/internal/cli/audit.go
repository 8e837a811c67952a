package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/bloomfrontier/crawler/internal/human"
)

// audit is the books of a crawl counted anew. docs/audit.md says what each term
// is counted from.
type audit struct {
	Balanced bool        `json:"balanced"`
	Terms    []auditTerm `json:"terms"`
	Faults   []string    `json:"faults,omitempty"` // where the store's tables contradict each other
	Notes    []string    `json:"notes,omitempty"`  // what was not counted, and why
}

// auditTerm is one term of the books.
type auditTerm struct {
	Term    string  `json:"term"`
	Counter uint64  `json:"counter"`
	Counted float64 `json:"counted"`
	Within  float64 `json:"within,omitempty"` // how far Counted may be off: an estimate's 5σ
	From    string  `json:"from"`             // what it was counted from
	Fault   string  `json:"fault,omitempty"`  // why it does not balance
}

func (ses *session) handleAudit(w http.ResponseWriter, r *http.Request) {
	a, err := ses.store.audit(r.Context())
	reply(w, a, err)
}

// term adds a term that is counted exactly. A fault is named even if the numbers agree.
func (a *audit) term(name string, counter, counted uint64, from, fault string) {
	if fault == "" && counter != counted {
		fault = "differ"
	}
	a.Terms = append(a.Terms, auditTerm{Term: name, Counter: counter, Counted: float64(counted), From: from, Fault: fault})
}

// broken names the terms that do not balance.
func (a *audit) broken() (names []string) {
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

// runAudit is `crawler status --audit`.
func runAudit(ctx context.Context, at place, s streams, asJSON bool) error {
	var a audit
	err := lookAtCrawl(ctx, at, s,
		func() error { return callControl(ctx, at.dir, "GET", "/audit", nil, &a) },
		func(ses *session) (err error) {
			a, err = ses.store.audit(ctx)
			return err
		})
	if err != nil {
		return err
	}
	if asJSON {
		if err := json.NewEncoder(s.out).Encode(a); err != nil {
			return err
		}
	} else {
		a.print(s.out)
	}
	if names := a.broken(); names != nil {
		return printed{&exitError{exitFailed, fmt.Errorf("the books of %s do not balance: %s", at.title(), strings.Join(names, ", "))}}
	}
	return nil
}

func (a *audit) print(w io.Writer) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.AppendHeader(table.Row{"term", "counter", "counted", "from", ""})
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 2, Align: text.AlignRight}, {Number: 3, Align: text.AlignRight}})
	for i := range a.Terms {
		line := &a.Terms[i]
		counted := human.Commas(uint64(math.Round(max(line.Counted, 0))))
		if line.Within > 0 {
			counted += fmt.Sprintf(" ± %.0f", math.Ceil(line.Within))
		}
		t.AppendRow(table.Row{line.Term, human.Commas(line.Counter), counted, line.From, cmp.Or(line.Fault, "ok")})
	}
	for line := range strings.Lines(t.Render()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
	for _, fault := range a.Faults {
		fmt.Fprintf(w, "tables: %s\n", fault)
	}
	for _, note := range a.Notes {
		fmt.Fprintln(w, note)
	}
	if a.Balanced {
		fmt.Fprintln(w, "the books balance")
	}
}
