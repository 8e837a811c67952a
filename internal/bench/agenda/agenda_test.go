package agenda

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/internal/bench/report"
)

type diary struct {
	told   []string
	shares []float64
}

func (d *diary) Begin(s *Step)               { d.told = append(d.told, "begin "+s.Name) }
func (d *diary) Progress(share float64)      { d.shares = append(d.shares, share) }
func (d *diary) End(s *Step, found string)   { d.told = append(d.told, "end "+s.Name+": "+found) }
func section() *report.Section               { return report.NewSection("x", "X", "") }
func missing(s *report.Section) (all string) { return strings.Join(words(s), "; ") }

func words(s *report.Section) (all []string) {
	for _, m := range s.Missing {
		all = append(all, m.What+": "+m.Why)
	}
	return all
}

// sleeper returns a step that sleeps for the given duration.
func sleeper(s *report.Section, name string, cost, duration time.Duration) *Step {
	return &Step{Section: s, Name: name, Cost: cost, Run: func(ctx context.Context, turn *Turn) error {
		turn.Found("slept")
		select {
		case <-ctx.Done():
			return fmt.Errorf("asleep: %w", ctx.Err())
		case <-time.After(duration):
			return nil
		}
	}}
}

func TestLongOnesComeLast(t *testing.T) {
	s, d := section(), new(diary)
	steps := []*Step{sleeper(s, "a", 1, 0), sleeper(s, "b", 1, 0), sleeper(s, "c", 1, 0), sleeper(s, "d", 1, 0)}
	steps[0].Long, steps[2].Long = true, true
	if err := Run(t.Context(), time.Minute, steps, d); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(d.told, " "); got != "begin b end b: slept begin d end d: slept begin a end a: slept begin c end c: slept" {
		t.Errorf("told %q, want the long steps a and c last", got)
	}
}

func TestRunsInOrder(t *testing.T) {
	s, d := section(), new(diary)
	if err := Run(t.Context(), time.Minute, []*Step{sleeper(s, "a", 1, 0), sleeper(s, "b", 3, 0)}, d); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"begin a", "end a: slept", "begin b", "end b: slept"}, d.told); diff != "" || missing(s) != "" {
		t.Errorf("told (-want +got):\n%s\nmissing: %q, want nothing", diff, missing(s))
	}
	if n := len(d.shares); n != 2 || d.shares[0] > d.shares[1] || d.shares[n-1] < 0.7 {
		t.Errorf("progress %v, want two shares that grow to 0.7 or more", d.shares)
	}
}

// TestFailedStep checks that the other steps run after one has failed, and that the report
// names the failed one with the reason.
func TestFailedStep(t *testing.T) {
	s, d, trouble := section(), new(diary), errors.New("trouble")
	failing := &Step{Section: s, Name: "a", Cost: 1, Run: func(context.Context, *Turn) error { return trouble }}
	err := Run(t.Context(), time.Minute, []*Step{failing, sleeper(s, "b", 1, 0)}, d)
	if !errors.Is(err, trouble) || missing(s) != "a: trouble" || d.told[len(d.told)-1] != "end b: slept" {
		t.Errorf("error %v, missing %q, told %q; want the error and the reason of step a, and step b run", err, missing(s), d.told)
	}
}

// TestInterruptedAgenda checks that the report names the interrupted step and the steps
// after it, and that Run returns the error of the context.
func TestInterruptedAgenda(t *testing.T) {
	s, d := section(), new(diary)
	ctx, cancel := context.WithCancel(t.Context())
	steps := []*Step{sleeper(s, "a", 1, 0), sleeper(s, "b", 1, time.Hour), sleeper(s, "c", 1, 0)}
	under := steps[1].Run
	steps[1].Run = func(ctx context.Context, turn *Turn) error { cancel(); return under(ctx, turn) }
	err := Run(ctx, time.Minute, steps, d)
	if !errors.Is(err, context.Canceled) || missing(s) != "b: interrupted; c: interrupted before it began" {
		t.Errorf("error %v, missing %q; want context.Canceled, and b and c missing", err, missing(s))
	}
}

// TestBudgetIsKept checks that Run ends when the budget is used up, even if a step would
// take longer, and that Run then returns no error.
func TestBudgetIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, begun := section(), time.Now()
		err := Run(t.Context(), time.Minute, []*Step{sleeper(s, "a", 1, 10*time.Second), sleeper(s, "b", 1, time.Hour), sleeper(s, "c", 1, 0)}, new(diary))
		if took := time.Since(begun); err != nil || took != time.Minute || missing(s) != "b: the budget was used up; c: the budget was used up before it began" {
			t.Errorf("error %v after %v, missing %q; want no error after 1m, and b and c missing", err, took, missing(s))
		}
	})
}

// TestSharesOfBudget checks that each step gets its share of the time that the earlier
// steps have not used.
func TestSharesOfBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, left := section(), make(map[string]time.Duration)
		steps := []*Step{sleeper(s, "a", time.Second, 20*time.Second), sleeper(s, "b", time.Second, 0), sleeper(s, "c", 2*time.Second, 0)}
		for _, step := range steps {
			sleep := step.Run
			step.Run = func(ctx context.Context, turn *Turn) error {
				left[step.Name] = turn.Left().Round(time.Second)
				return sleep(ctx, turn)
			}
		}
		if err := Run(t.Context(), 2*time.Minute, steps, new(diary)); err != nil {
			t.Fatal(err)
		}
		want := map[string]time.Duration{"a": 30 * time.Second, "b": 33 * time.Second, "c": 100 * time.Second}
		if diff := cmp.Diff(want, left); diff != "" {
			t.Errorf("time left for each step (-want +got):\n%s", diff)
		}
	})
}

// TestBudgetEndsStep checks that the report says how far a step was when the budget ended it, and
// which steps had no time at all.
func TestBudgetEndsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := section(), new(diary)
		steps := []*Step{sleeper(s, "a", 1, time.Hour), sleeper(s, "b", 1, 0)}
		under := steps[0].Run
		steps[0].Run = func(ctx context.Context, turn *Turn) error {
			turn.At("after 3 of 9 keys")
			return under(ctx, turn)
		}
		if err := Run(t.Context(), time.Minute, steps, d); err != nil {
			t.Fatal(err)
		}
		want := []report.Missing{
			{What: "a", Why: "the budget was used up after 3 of 9 keys", Budget: report.BudgetEnded},
			{What: "b", Why: "the budget was used up before it began", Budget: report.BudgetLeftOut},
		}
		if diff := cmp.Diff(want, s.Missing); diff != "" || d.told[1] != "end a: "+want[0].Why {
			t.Errorf("missing (-want +got):\n%s\ntold %q", diff, d.told)
		}
	})
}
