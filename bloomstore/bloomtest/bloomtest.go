// Package bloomtest holds implementations of bloomstore.Filter to their contract.
//
// Run is the suite that every filter passes, FPR measures a false-positive rate,
// Bench measures speed. Exact is a filter that never errs and Faulty one that
// fails on purpose, for the tests of whoever uses a filter. It imports no backend.
//
// Random cases print their seed. A test binary that defines the flag -seed
// replays one with it, and one that defines -proof runs the cases at full size.
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

// What Run expects of the filters it is given.
const (
	Keys    = 1 << 20 // keys that one must hold
	MaxRate = 1e-6    // false-positive rate that it must not pass with them
)

// Run holds the filters that open returns, fresh and empty each time and fit for
// Keys keys at MaxRate, to the contract of bloomstore.Filter.
//
// False positives are allowed as often as MaxRate explains: a filter that keeps
// it is refused once in three million runs of a case.
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

// cases are functions that return an error, so that this package's own tests can
// see them find the faults of broken filters.
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

// Seed returns the value of the flag -seed if the test binary defines it and it
// is not 0, and a random seed otherwise. It logs how to replay.
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

// prints returns n random fingerprints. Real ones are keyed hashes, so random
// ones are as good.
func (t *trial) prints(n int) []bloomstore.Fingerprint {
	return bloomrate.Random(t.rng, make([]bloomstore.Fingerprint, n))
}

// falseLimit returns the number of false positives that looking up n keys gives
// by chance less than once in three million times (5σ, one-sided) at MaxRate.
// They are so few that they are Poisson and not normal.
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
