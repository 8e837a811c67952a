package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/bench/report"
)

// command runs `crawler bench` with args.
func command(ctx context.Context, progress io.Writer, args ...string) (stdout string, err error) {
	c := Command("test")
	var out bytes.Buffer
	c.SetArgs(args)
	c.SetOut(&out)
	c.SetErr(progress)
	c.SilenceUsage, c.SilenceErrors = true, true
	err = c.ExecuteContext(ctx)
	return out.String(), err
}

func TestFlagFaults(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"nonsense", []string{`"nonsense" is nothing to measure`, "fpr, speed, memory"}},
		{"fpr --n 10", []string{"--n", "want a whole number from 1000"}},
		{"fpr --n many", []string{"whole number"}},
		{"fpr --budget -1s", []string{"--budget", "want a time of more than 0"}},
		{"fpr --fpr 1e-13", []string{"--fpr", "want a probability from 1e-12"}},
		{"fpr --redis http://x", []string{"want redis://"}}, // package cli does not show the value
		{"fpr --redis redis://x,y", []string{"want a single server"}},
		{"fpr --postgres mysql://y", []string{"want postgres://"}},
		{"fpr --unknown", []string{"unknown"}},
	} {
		out, err := command(t.Context(), io.Discard, strings.Fields(c.args)...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("bench %s: error %v, want %q in it", c.args, err, want)
			}
		}
		if out != "" || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("bench %s: printed %q, error %v; want no output and no secret", c.args, out, err)
		}
	}
}

// TestOutput: there is a line for each step, and the report says which servers no flag names.
func TestOutput(t *testing.T) {
	dir, progress := t.TempDir(), new(bytes.Buffer)
	out, err := command(t.Context(), progress, "fpr", "--n", "10k", "--fpr", "5%", "--budget", "1m", "--seed", "7", "--report", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Claimed when full", "membits", "kept", "--seed 7", "* all that is in Redis: no --redis is given", "* all that is in Postgres: no --postgres is given"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	for line := range strings.Lines(progress.String()) {
		if !strings.HasPrefix(line, "fpr: ") {
			t.Errorf("progress line %q, want it to begin with \"fpr: \"", line)
		}
	}
	r, err := read(dir)
	if err != nil || len(r.Sections) != 1 || len(r.Sections[0].Tables[0].Rows) != 1 || r.Took <= 0 {
		t.Errorf("report %+v (%v), want one section with one row", r, err)
	}
}

// TestNumberOfKeys: --n is the number of keys of every set. If the budget ends the run before all
// are added, the report and the output say where.
func TestNumberOfKeys(t *testing.T) {
	dir := t.TempDir()
	if out, err := command(t.Context(), io.Discard, "fpr", "--n", "30k", "--fpr", "5%", "--budget", "5m", "--report", dir); err != nil ||
		strings.Contains(out, "budget ended") {
		t.Fatalf("error %v, want none and no word of an end:\n%s", err, out)
	}
	r, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	rows := r.Sections[0].Tables[1].Rows
	if len(rows) < 2 {
		t.Fatalf("%d rows, want one for membits and one for localstore at least", len(rows))
	}
	for _, row := range rows {
		if row[1].Text != "30,000" {
			t.Errorf("%s: %s keys, want 30,000", row[0].Text, row[1].Text)
		}
	}
	out, err := command(t.Context(), io.Discard, "fpr", "--n", "100M", "--fpr", "5%", "--budget", "3s", "--report", dir)
	if err != nil {
		t.Fatal(err)
	}
	markdown, err := os.ReadFile(filepath.Join(dir, report.MarkdownFile))
	if err != nil {
		t.Fatal(err)
	}
	end := regexp.MustCompile(`(?m)^\* the budget ended the run: fpr: membits, p = 0\.05: the budget was used up after [\d,]+ of 100,000,000 keys were added$`)
	for what, text := range map[string]string{"stdout": out, "report": string(markdown)} {
		if !end.MatchString(text) {
			t.Errorf("%s: no line matches %v:\n%s", what, end, text)
		}
	}
}

// read returns the report in dir.
func read(dir string) (*report.Report, error) {
	text, err := os.ReadFile(filepath.Join(dir, report.JSONFile))
	if err != nil {
		return nil, err
	}
	r := new(report.Report)
	return r, json.Unmarshal(text, r)
}

// TestInterruptedReportIsValid: the report of an interrupted run is valid and says what
// is missing. The error of the run is that of the context.
func TestInterruptedReportIsValid(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	_, err := command(ctx, writer(func(string) { cancel() }), "fpr", "--n", "10k", "--budget", "1m", "--report", dir)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted run: error %v, want %v", err, context.Canceled)
	}
	r, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if rows := len(r.Sections[0].Tables[0].Rows); rows != 1 || !strings.Contains(r.Markdown(), ": interrupted") {
		t.Errorf("%d rows, want 1, and \": interrupted\" in\n%s", rows, r.Markdown())
	}
	if _, err := os.Stat(filepath.Join(dir, report.MarkdownFile)); err != nil {
		t.Error(err)
	}
}

// writer is a function that is called for each write.
type writer func(string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

func TestLineHasNoSecrets(t *testing.T) {
	o := &options{redis: "redis://u:se@cret@host:1/2?x=secret", postgres: "postgres://u:secret@host/db", budget: time.Minute, keys: 1000, fpr: 0.5}
	line := o.line([]string{"fpr"})
	if strings.Contains(line, "cret") || !strings.Contains(line, "redis://host:1/2") || !strings.Contains(line, "postgres://host/db") || !strings.Contains(line, "--n 1k --fpr 0.5") {
		t.Errorf("line %q, want it to have all flags and no secret", line)
	}
	if line := (&options{budget: time.Minute, seed: 7}).line([]string{"fpr", "speed"}); line != "crawler bench fpr speed --budget 1m0s --seed 7" {
		t.Errorf("line %q, want only the flags with a value", line)
	}
}

// TestSpeedRows: the tables have a row for each way to query each available set of seen URLs.
// The sets that are not available are named as missing.
func TestSpeedRows(t *testing.T) {
	dir := t.TempDir()
	out, err := command(t.Context(), io.Discard, "speed", "--n", "1000", "--budget", "20m", "--report", dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := read(dir)
	if err != nil || len(r.Sections) != 2 {
		t.Fatalf("report %+v (%v), want 2 sections", r, err)
	}
	// Sets × callers × links per call × kinds of links (new, known); callers × links per page.
	for i, want := range []int{2 * 3 * 2 * 2, 3 * 2} {
		if rows := len(r.Sections[i].Tables[0].Rows); rows != want {
			t.Errorf("%s: %d rows, want %d", r.Sections[i].Name, rows, want)
		}
	}
	for _, want := range []string{"in Redis: no --redis", "in Postgres: no --postgres"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
