package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sleeper returns a step that sleeps for the given duration.
func sleeper(duration time.Duration) func(context.Context, *Turn) error {
	return func(ctx context.Context, turn *Turn) error {
		turn.Found("slept")
		select {
		case <-ctx.Done():
			return fmt.Errorf("asleep: %w", ctx.Err())
		case <-time.After(duration):
			return nil
		}
	}
}

// runFor runs the steps of a section within a budget, and returns the lines about them.
func runFor(ctx context.Context, budget time.Duration, s *Section) (lines []string, err error) {
	r := Report{Began: time.Now(), Budget: budget.Seconds(), Sections: []*Section{s}}
	err = r.Run(ctx, func(line string) { lines = append(lines, line) })
	return lines, err
}

// TestRunsInOrder checks that all steps run after one has failed, and that the report names the
// failed one with the reason.
func TestRunsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, trouble := &Section{Name: "x", Title: "X"}, errors.New("trouble")
		s.Step("a", func(context.Context, *Turn) error { return trouble })
		s.Step("b", sleeper(3*time.Second))
		lines, err := runFor(t.Context(), time.Minute, s)
		if diff := cmp.Diff([]string{"x: a: trouble (0s)", "x: b: slept (3s)"}, lines); diff != "" || !errors.Is(err, trouble) {
			t.Errorf("error %v, want that of a; lines (-want +got):\n%s", err, diff)
		}
		if diff := cmp.Diff([]Missing{{What: "a", Why: "trouble"}}, s.Missing); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
	})
}

// TestInterruptedRun checks that the report names the interrupted step and the steps after it,
// and that Run returns the error of the context.
func TestInterruptedRun(t *testing.T) {
	s := &Section{Name: "x", Title: "X"}
	ctx, cancel := context.WithCancel(t.Context())
	s.Step("a", sleeper(0))
	s.Step("b", func(ctx context.Context, turn *Turn) error { cancel(); return sleeper(time.Hour)(ctx, turn) })
	s.Step("c", sleeper(0))
	_, err := runFor(ctx, time.Minute, s)
	want := []Missing{{What: "b", Why: "interrupted"}, {What: "c", Why: "interrupted before it began"}}
	if diff := cmp.Diff(want, s.Missing); diff != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v; missing (-want +got):\n%s", err, context.Canceled, diff)
	}
}

// TestBudgetIsKept checks that Run ends when the budget is used up, even if a step would take
// longer, and that Run then returns no error. The report says how far that step was, and which
// steps had no time at all.
func TestBudgetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, began := &Section{Name: "x", Title: "X"}, time.Now()
		s.Step("a", sleeper(10*time.Second))
		s.Step("b", func(ctx context.Context, turn *Turn) error {
			turn.At("after %d of 9 keys", 3)
			return sleeper(time.Hour)(ctx, turn)
		})
		s.Step("c", sleeper(0))
		r := Report{Began: began, Budget: 60, Sections: []*Section{s}}
		var lines []string
		err := r.Run(t.Context(), func(line string) { lines = append(lines, line) })
		if took := time.Since(began); err != nil || took != time.Minute {
			t.Errorf("error %v after %v, want no error after 1m", err, took)
		}
		want := []Missing{
			{What: "b", Why: "the budget was used up after 3 of 9 keys"},
			{What: "c", Why: "the budget was used up before it began"},
		}
		if diff := cmp.Diff(want, s.Missing); diff != "" || len(lines) != 2 || !strings.HasPrefix(lines[1], "x: b: "+want[0].Why) {
			t.Errorf("missing (-want +got):\n%s\nlines %q", diff, lines)
		}
		ends := "the budget ended the run: x: b: the budget was used up after 3 of 9 keys"
		if text := r.Markdown(); !strings.Contains(text, "\n* "+ends+"\n") {
			t.Errorf("%q is not in\n%s", ends, text)
		}
	})
}

// TestSharesOfBudget checks that each step gets its share of the time that the earlier steps
// have not used.
func TestSharesOfBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, left := &Section{Name: "x", Title: "X"}, make(map[string]time.Duration)
		s.Step("a", sleeper(30*time.Second))
		for _, name := range []string{"b", "c"} {
			s.Step(name, func(_ context.Context, turn *Turn) error { left[name] = turn.Left(); return nil })
		}
		if _, err := runFor(t.Context(), 2*time.Minute, s); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]time.Duration{"b": 45 * time.Second, "c": 90 * time.Second}, left); diff != "" {
			t.Errorf("time left for each step (-want +got):\n%s", diff)
		}
	})
}
