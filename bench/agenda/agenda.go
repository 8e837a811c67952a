// Package agenda runs the steps of a benchmark one after the other, within a
// budget of time.
//
// It owns how the budget is shared out and that nothing is left out in silence:
// a step that was interrupted, had no time or failed is named in its section of
// the report. What a step measures is its author's.
package agenda

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/bench/report"
)

// Step is one measurement, which adds what it finds to its section.
type Step struct {
	Section *report.Section
	Name    string        // unique within the section
	Cost    time.Duration // roughly: decides its share of the budget
	Long    bool          // comes after all that are not: where time lacks, its section has the small sizes
	Run     func(ctx context.Context, turn *Turn) error
}

// Watcher is told how far a run is. Calls come one at a time.
type Watcher interface {
	Begin(s *Step)
	// Progress is told the share of the whole agenda that is done, 0 to 1.
	Progress(share float64)
	// End is told what s found, or why it did not find it.
	End(s *Step, found string)
}

// Turn is a step's time.
type Turn struct {
	deadline time.Time
	progress func(share float64)
	found    string
}

// Left returns how much is left of the step's share of the budget: a step that
// can do with less work does as much as fits.
func (t *Turn) Left() time.Duration { return time.Until(t.deadline) }

// Progress tells how much of the step is done, 0 to 1.
func (t *Turn) Progress(share float64) { t.progress(min(max(share, 0), 1)) }

// Found says in a few words what the step found.
func (t *Turn) Found(format string, args ...any) { t.found = fmt.Sprintf(format, args...) }

// errBudget reports that a step took longer than all of the budget that was left.
var errBudget = errors.New("the budget was used up")

// Run runs steps in order, the long ones last, and returns the errors of those
// that failed, together with ctx.Err(). What is missing afterwards is in the
// sections.
func Run(ctx context.Context, budget time.Duration, steps []*Step, watch Watcher) error {
	end := time.Now().Add(budget)
	within, cancel := context.WithDeadlineCause(ctx, end, errBudget)
	defer cancel()
	steps = inOrder(steps)
	var total, done, failed = cost(steps), time.Duration(0), []error(nil)
	for i, s := range steps {
		if why := ended(ctx, within); why != "" {
			s.Section.Miss(s.Name, why)
			continue
		}
		share := float64(s.Cost) / float64(cost(steps[i:]))
		turn := &Turn{deadline: time.Now().Add(time.Duration(share * float64(time.Until(end))))}
		turn.progress = func(of float64) {
			watch.Progress((float64(done) + of*float64(s.Cost)) / float64(total))
		}
		watch.Begin(s)
		err := s.Run(within, turn)
		done += s.Cost
		why := ended(ctx, within)
		if err != nil && why == "" {
			why = err.Error()
			failed = append(failed, fmt.Errorf("%s: %w", s.Name, err))
		}
		if err != nil {
			s.Section.Miss(s.Name, why)
			turn.Found("%s", why)
		}
		watch.End(s, turn.found)
		turn.Progress(1)
	}
	return errors.Join(append(failed, ctx.Err())...)
}

func inOrder(steps []*Step) (ordered []*Step) {
	for _, long := range []bool{false, true} {
		for _, s := range steps {
			if s.Long == long {
				ordered = append(ordered, s)
			}
		}
	}
	return ordered
}

// ended says why no more can be done, or nothing.
func ended(ctx, within context.Context) string {
	switch {
	case ctx.Err() != nil:
		return "interrupted"
	case within.Err() != nil:
		return errBudget.Error()
	default:
		return ""
	}
}

// cost adds up steps; it is never 0.
func cost(steps []*Step) time.Duration {
	sum := time.Duration(1)
	for _, s := range steps {
		sum += s.Cost
	}
	return sum
}
