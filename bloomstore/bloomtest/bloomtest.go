// Package bloomtest tests implementations of bloomstore.Filter.
//
// Run is the suite that every filter passes, FPR measures a false-positive rate, and
// Bench measures speed. For tests of code that uses a filter, Exact returns a filter
// that never errs, and Faulty returns a filter that fails on purpose. The package
// imports no backend.
//
// Random cases print their seed. A test binary can define two flags: -seed repeats a
// run, and -proof runs the cases at full size.
package bloomtest

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
)

// Run expects these properties of a filter.
const (
	Keys    = 1 << 20 // the capacity of a filter
	MaxRate = 1e-6    // its maximum false-positive rate with Keys keys
)

// Run tests the contract of bloomstore.Filter. Each call of open must return a new,
// empty filter that is sized for Keys keys at MaxRate.
//
// A case fails if there are more false positives than MaxRate explains. It fails for
// a correct filter once in three million runs.
func Run(t *testing.T, open func(t *testing.T) bloomstore.Filter) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			trial := newTrial(t)
			trial.open = func() bloomstore.Filter { return open(t) }
			if err := c.check(t.Context(), trial); err != nil {
				t.Error(err)
			}
		})
	}
}

// cases return errors instead of failing a test, so that the tests of this package
// can run them with broken filters.
var cases = []struct {
	name  string
	check func(context.Context, *trial) error
}{
	{"EmptyBatch", emptyBatch},
	{"AnswersIndexForIndex", answersIndexForIndex},
	{"DuplicatesInOneBatch", duplicatesInOneBatch},
	{"LargeBatch", largeBatch},
	{"TellsSimilarKeysApart", tellsSimilarKeysApart},
	{"CancelledContext", cancelledContext},
	{"KeepsNoReference", keepsNoReference},
	{"RacersGetAtMostOneTrue", racersGetAtMostOneTrue},
	{"Model", modelRun},
	{"ModelWithFaults", modelRunWithFaults},
}

// trial is one run of one case.
type trial struct {
	open  func() bloomstore.Filter
	rng   *rand.Rand
	proof bool // run at full size
	logf  func(format string, args ...any)
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	return &trial{rng: rand.New(rand.NewPCG(Seed(t), 0)), proof: isProof(), logf: t.Logf}
}

// Seed returns the value of the flag -seed, or a random seed if that flag is 0 or not
// defined. It logs how to repeat the run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 1 // fits a signed flag as well
	if f := flag.Lookup("seed"); f != nil {
		var given uint64
		if _, err := fmt.Sscan(f.Value.String(), &given); err != nil {
			t.Fatalf("-seed=%s: %v", f.Value, err)
		}
		if given != 0 {
			seed = given
		}
	}
	t.Logf("replay with -run='^%s$' -seed=%d", t.Name(), seed)
	return seed
}

func isProof() bool {
	f := flag.Lookup("proof")
	return f != nil && f.Value.String() == "true"
}

// prints returns n random fingerprints. Random numbers are as good as keyed hashes of
// URLs.
func (t *trial) prints(n int) []bloomstore.Fingerprint {
	return bloomrate.Random(t.rng, make([]bloomstore.Fingerprint, n))
}

// falseLimit returns the largest number of false positives among n look-ups that is
// still plausible at MaxRate. A larger number occurs by chance once in three
// million times (5σ, one-sided). The numbers are small, so their distribution is
// Poisson, not normal.
func falseLimit(n int) int {
	const accident = 2.9e-7
	mean := float64(n) * MaxRate
	term := math.Exp(-mean)
	below := term
	limit := 0
	for 1-below > accident {
		limit++
		term *= mean / float64(limit)
		below += term
	}
	return limit
}

func checkFalse(what string, got, lookups int) error {
	if limit := falseLimit(lookups); got > limit {
		return fmt.Errorf("%d %s of %d keys that were never added, want at most %d (5σ at a rate of %g)",
			got, what, lookups, limit, MaxRate)
	}
	return nil
}
