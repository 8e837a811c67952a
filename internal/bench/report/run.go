package report

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// step is one measurement, which adds its figures to its section.
type step struct {
	name string
	run  func(ctx context.Context, turn *Turn) error
}

// Step adds a measurement, which Run makes. The name is unique within the section.
func (s *Section) Step(name string, run func(ctx context.Context, turn *Turn) error) {
	s.steps = append(s.steps, step{name, run})
}

// Sizes returns the sizes at which a measurement is repeated. The sizes begin with
// smallest and end with largest. Each size in between is ten times the size before it.
func Sizes(smallest, largest uint64) (all []uint64) {
	for n := smallest; n < largest; n *= 10 {
		all = append(all, n)
	}
	return append(all, largest)
}

// Turn is the time in which a step runs.
type Turn struct {
	deadline  time.Time
	found, at string
}

// Left returns the time that remains of the step's share of the budget. A step should
// choose an amount of work that it can do in this time.
func (t *Turn) Left() time.Duration { return time.Until(t.deadline) }

// Found reports the result of the step in a few words.
func (t *Turn) Found(format string, args ...any) { t.found = fmt.Sprintf(format, args...) }

// At reports how far the step is, such as "after 3 of 9 keys". If the step is then interrupted,
// or the budget ends it, the section has these words beside the reason.
func (t *Turn) At(format string, args ...any) { t.at = fmt.Sprintf(format, args...) }

// Run runs the steps of all sections in order, until Budget seconds after Began. The share of a
// step is the time that is left, divided by the number of steps that are left. After each step
// Run calls ended with a line about it. It returns the errors of failed steps and ctx.Err(),
// joined. The sections name the steps that have no result, and how far the last of them was.
func (r *Report) Run(ctx context.Context, ended func(line string)) error {
	end := r.Began.Add(time.Duration(r.Budget * float64(time.Second)))
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	left := 0
	for _, s := range r.Sections {
		left += len(s.steps)
	}
	var failed []error
	for _, s := range r.Sections {
		for _, step := range s.steps {
			began, turn := time.Now(), &Turn{at: "before it began"}
			turn.deadline = began.Add(end.Sub(began) / time.Duration(left))
			left--
			err := within.Err()
			starts := err == nil
			if starts {
				turn.at = ""
				err = step.run(within, turn)
			}
			switch {
			case err == nil:
			case within.Err() == nil:
				turn.found = err.Error()
				failed = append(failed, fmt.Errorf("%s: %w", step.name, err))
			case ctx.Err() != nil:
				turn.found = strings.TrimSpace("interrupted " + turn.at)
			default:
				turn.found = strings.TrimSpace("the budget was used up " + turn.at)
				if r.Ended == "" {
					r.Ended = fmt.Sprintf("%s: %s: %s", s.Name, step.name, turn.found)
				}
			}
			if err != nil {
				s.Miss(step.name, turn.found)
			}
			if starts {
				ended(fmt.Sprintf("%s: %s: %s (%v)", s.Name, step.name, turn.found, time.Since(began).Round(100*time.Millisecond)))
			}
		}
	}
	return errors.Join(append(failed, ctx.Err())...)
}
