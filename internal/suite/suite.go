// Package suite contains the parts that the test suites of our contracts share: cases, a
// clock, goroutines that race, and a list of random calls that is printed if one of them fails.
//
// A contract is an interface with rules that every implementation must follow. Package
// suite knows no contract. Packages frontiertest, exacttest and bloomtest own the cases, the
// models and the reference implementations. The model and the reference implementation of
// frontiertest are separate, because they check each other.
//
// A case that finds a fault calls Driver.Failf, which panics with the fault. Try returns
// the fault as an error and fails no test, so that tests can run a suite on implementations
// that are broken on purpose.
package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Clock is a clock that moves only when Advance is called. It is safe for concurrent use.
type Clock struct{ micros atomic.Int64 }

// NewClock returns a clock that shows a time in 2026, without a fraction of a second.
func NewClock() *Clock {
	c := new(Clock)
	c.micros.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro())
	return c
}

// Now returns the time, in UTC.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()).UTC() }

// Advance moves the clock by d, in whole microseconds.
func (c *Clock) Advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// Case tests one part of a contract. Options say what kind of implementation it needs. Check
// makes its calls through a driver, and calls Driver.Failf if it finds a fault. Case is an
// alias of a struct type without a name, because vet would require field names in the
// literals of other packages if the type had a name.
type Case[Options, D any] = struct {
	Name    string
	Options Options
	Check   func(driver D)
}

// failure is the value with which Driver.Failf panics.
type failure struct{ error }

// Try runs a case, and returns the fault that it found or nil. The function open returns the
// driver of a new implementation.
func Try[Options, D any](t *testing.T, c Case[Options, D], open func(*testing.T, Options) D) (err error) {
	defer func() {
		switch found := recover().(type) {
		case nil:
		case failure:
			err = found.error
		default:
			panic(found)
		}
	}()
	c.Check(open(t, c.Options))
	return nil
}

// Run runs the cases as parallel subtests. They run when the caller's test function has returned, so the function
// open must not use what that function cleans up with defer.
func Run[Options, D any](t *testing.T, cases []Case[Options, D], open func(*testing.T, Options) D) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if err := Try(t, c, open); err != nil {
				t.Error(err)
			}
		})
	}
}

// WantCaught fails the test unless the case with this name finds a fault.
func WantCaught[Options, D any](t *testing.T, cases []Case[Options, D], name string, open func(*testing.T, Options) D) {
	t.Helper()
	at := slices.IndexFunc(cases, func(c Case[Options, D]) bool { return c.Name == name })
	if at < 0 {
		t.Fatalf("there is no case %s", name)
	}
	if err := Try(t, cases[at], open); err == nil {
		t.Errorf("the case %s finds no fault, want one", name)
	} else {
		t.Logf("%s: %v", name, err)
	}
}

// Driver is embedded in the driver of each contract, through which a case makes its calls.
// It has the parts of a driver that do not depend on the contract.
type Driver struct {
	Ctx   context.Context
	Clock *Clock
	calls []string // the calls of a random run: see Note
}

// NewDriver returns a Driver with a clock of its own.
func NewDriver(ctx context.Context) Driver { return Driver{Ctx: ctx, Clock: NewClock()} }

// Failf ends the case. The fault contains the last noted calls. Only the goroutine that
// runs the case may call it.
func (d *Driver) Failf(format string, args ...any) {
	at := ""
	for skip := 1; skip < 10; skip++ { // the nearest caller in a file of cases
		if _, file, line, ok := runtime.Caller(skip); ok && strings.Contains(file, "cases") {
			at = fmt.Sprintf("%s:%d: ", file[strings.LastIndexByte(file, '/')+1:], line)
			break
		}
	}
	err := fmt.Errorf(at+format, args...)
	if len(d.calls) > 0 {
		last := d.calls[max(len(d.calls)-200, 0):]
		err = fmt.Errorf("%w\nafter %d calls, the last of them:\n%s", err, len(d.calls), strings.Join(last, "\n"))
	}
	panic(failure{err})
}

// Require ends the case unless ok is true. Only the goroutine that runs the case may call
// it. The arguments are always evaluated.
func (d *Driver) Require(ok bool, format string, args ...any) {
	if !ok {
		d.Failf(format, args...)
	}
}

// Must ends the case if a call failed.
func (d *Driver) Must(err error, call string) {
	if err != nil {
		d.Failf("%s: %w", call, err)
	}
}

// Race runs n goroutines that start together, and ends the case if one of them returns an
// error.
func (d *Driver) Race(n int, racer func(i int) error) {
	errs := make([]error, n)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = racer(i)
		})
	}
	close(start)
	wg.Wait()
	d.Must(errors.Join(errs...), "racers")
}

// Move is a random call. Its probability is its weight divided by the sum of all weights.
// Move is an alias, so that literals of other packages need no field names.
type Move = struct {
	Weight int
	Make   func()
}

// Step makes one random call from moves.
func Step(rng *rand.Rand, moves []Move) {
	total := 0
	for _, m := range moves {
		total += m.Weight
	}
	n := rng.IntN(total)
	for _, m := range moves {
		if n -= m.Weight; n < 0 {
			m.Make()
			return
		}
	}
}

// Note records a call of a random run before it is made.
func (d *Driver) Note(format string, args ...any) {
	d.calls = append(d.calls, d.Clock.Now().Format("15:04:05.000  ")+fmt.Sprintf(format, args...))
}

// Calls returns how many calls were noted.
func (d *Driver) Calls() int { return len(d.calls) }

// Cut shortens a URL for a message.
func Cut(url string) string {
	if len(url) > 60 {
		return url[:60] + "..."
	}
	return url
}

// FirstSeed returns the seed of the first of several random runs, and the number of runs.
// If seed is not 0, FirstSeed returns seed and 1. Otherwise it returns a random seed and the
// argument runs.
func FirstSeed(seed uint64, runs int) (uint64, int) {
	if seed != 0 {
		return seed, 1
	}
	return rand.Uint64N(1 << 48), runs
}
