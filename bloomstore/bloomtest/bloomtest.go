// Package bloomtest tests implementations of bloomstore.Filter.
//
// Run is the suite that every filter passes, and RunDeleter the one of filters from which keys can
// be deleted. FPR measures a false-positive rate. For tests of code that uses a filter, Exact
// returns a filter that never errs. The package imports no backend.
//
// Random cases print their seed. A test binary can define two flags: -seed repeats a
// run, and -proof runs the cases at full size.
package bloomtest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/internal/bloomrate"
	"github.com/bloomfrontier/crawler/internal/suite"
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
	suite.Run(t, cases, func(t *testing.T, _ options) *trial { return newTrial(t, open(t)) })
}

// options is empty, because all cases need the same filter.
type options struct{}

// trial is what a case of the suite gets: the filter under test, and methods that use and
// check the filter.
type trial struct {
	suite.Driver
	bloomstore.Filter
	rng   *rand.Rand
	proof bool // run at full size
	logf  func(format string, args ...any)
}

func newTrial(t *testing.T, filter bloomstore.Filter) *trial {
	t.Helper()
	return &trial{
		Driver: suite.NewDriver(t.Context()), Filter: filter,
		rng: rand.New(rand.NewPCG(Seed(t), 0)), proof: isProof(), logf: t.Logf,
	}
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

// wantFew checks that a number of false positives is plausible. A larger number occurs by
// chance once in three million times (5σ, one-sided).
func (t *trial) wantFew(what string, got, lookups int) {
	off := bloomrate.Deviation(uint64(got), uint64(lookups), MaxRate, 0)
	t.Require(off <= 5, "%d false %s of %d keys that were never added, %.1fσ above the rate of %g, want at most 5σ",
		got, what, lookups, off, MaxRate)
}
