// Package agenda runs the steps of a benchmark one after the other, within a time
// budget.
//
// It divides the budget among the steps. Each step makes a measurement and adds the result
// to a section of the report. If a step is interrupted, has no time or fails, the section
// gives the reason.
package agenda

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/internal/bench/report"
)

// Step is one measurement. Run adds the figures to Section.
type Step struct {
	Section *report.Section
	Name    string        // unique within the section
	Cost    time.Duration // approximate; determines the share of the budget
	Long    bool          // runs after the steps that are not Long, so that small sizes come first
	Run     func(ctx context.Context, turn *Turn) error
}

// Sizes returns the sizes at which a measurement is repeated. The sizes begin with
// smallest and end with largest. Each size in between is ten times the size before it.
func Sizes(smallest, largest uint64) (all []uint64) {
	for n := smallest; n < largest; n *= 10 {
		all = append(all, n)
	}
	return append(all, largest)
}

// Watcher receives the progress of a run. Its methods are called one at a time.
type Watcher interface {
	Begin(s *Step)
	// Progress receives the share of all steps that is done, from 0 to 1.
	Progress(share float64)
	// End receives the result of s in a few words, or the reason why s failed.
	End(s *Step, found string)
}

// Turn is the time in which a step runs.
type Turn struct {
	deadline time.Time
	progress func(share float64)
	found    string
	at       string
}

// Left returns the time that remains of the step's share of the budget. A step should
// choose an amount of work that it can do in this time.
func (t *Turn) Left() time.Duration { return time.Until(t.deadline) }

// Progress reports the share of the step that is done, 0 to 1.
func (t *Turn) Progress(share float64) { t.progress(min(max(share, 0), 1)) }

// Found reports the result of the step in a few words.
func (t *Turn) Found(format string, args ...any) { t.found = fmt.Sprintf(format, args...) }

// At reports how far the step is, such as "after 3 of 9 keys". If the step is then interrupted,
// or the budget ends it, the section has these words beside the reason.
func (t *Turn) At(format string, args ...any) { t.at = fmt.Sprintf(format, args...) }

// errBudget reports that a step took longer than the rest of the budget.
var errBudget = errors.New("the budget was used up")

// Run runs steps in order, the Long ones last. It returns the errors of failed steps and
// ctx.Err(), joined. The sections name the steps that have no result, and how far the last of them
// was.
func Run(ctx context.Context, budget time.Duration, steps []*Step, watch Watcher) error {
	end := time.Now().Add(budget)
	within, cancel := context.WithDeadlineCause(ctx, end, errBudget)
	defer cancel()
	var short, long []*Step
	for _, s := range steps {
		if s.Long {
			long = append(long, s)
		} else {
			short = append(short, s)
		}
	}
	steps = append(short, long...)
	var total, done, failed = cost(steps), time.Duration(0), []error(nil)
	for i, s := range steps {
		if why := ended(ctx, within); why != "" {
			s.miss(why+" before it began", ctx.Err() == nil, report.BudgetLeftOut)
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
			s.Section.Miss(s.Name, why)
			turn.Found("%s", why)
		} else if err != nil {
			why = strings.TrimSpace(why + " " + turn.at)
			s.miss(why, ctx.Err() == nil, report.BudgetEnded)
			turn.Found("%s", why)
		}
		watch.End(s, turn.found)
		turn.Progress(1)
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// miss adds s to its section as missing. If isBudget is true, the budget is the reason and did
// what budget says.
func (s *Step) miss(why string, isBudget bool, budget string) {
	m := report.Missing{What: s.Name, Why: why}
	if isBudget {
		m.Budget = budget
	}
	s.Section.Missing = append(s.Section.Missing, m)
}

// ended returns why no more steps can run, or "".
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

// cost returns the sum of the costs of steps. It is never 0.
func cost(steps []*Step) time.Duration {
	sum := time.Duration(1)
	for _, s := range steps {
		sum += s.Cost
	}
	return sum
}
