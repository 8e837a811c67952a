package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// runAudit implements `crawler status --audit`.
func runAudit(ctx context.Context, c *attached, s streams, asJSON bool) error {
	a, err := c.Audit(ctx)
	switch {
	case err != nil:
		return err
	case asJSON:
		err = json.NewEncoder(s.out).Encode(a)
	default:
		printAudit(s.out, &a)
	}
	if err != nil {
		return err
	}
	if names := a.Broken(); names != nil {
		return printed{&exitError{exitFailed, fmt.Errorf("the books of %s do not balance: %s", c.at, strings.Join(names, ", "))}}
	}
	return nil
}

// printAudit prints an audit as a table. Each row compares a counter of the crawl with what
// the audit has counted.
func printAudit(w io.Writer, a *report.Audit) {
	rows := [][]string{{"TERM", "COUNTER", "COUNTED", "FROM", ""}}
	for i := range a.Terms {
		line := &a.Terms[i]
		counted := human.Commas(uint64(math.Round(max(line.Counted, 0))))
		if line.Within > 0 {
			counted += fmt.Sprintf(" ± %.0f", math.Ceil(line.Within))
		}
		rows = append(rows, []string{line.Term, human.Commas(line.Counter), counted, line.From, cmp.Or(line.Fault, "ok")})
	}
	for _, line := range human.Columns(rows, 0, 3, 4) {
		fmt.Fprintln(w, "", line)
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
