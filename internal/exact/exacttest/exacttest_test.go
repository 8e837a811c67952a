package exacttest

import (
	"flag"
	"testing"

	"github.com/bloomfrontier/crawler/internal/suite"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the random run with this seed; 0: a new one")
	proof = flag.Bool("proof", false, "many long random runs")
)

func openMemory(_ *testing.T, opt Options) Set {
	return NewMemory(opt)
}

func TestMemoryPassesSuite(t *testing.T) { RunSet(t, openMemory) }

// TestModelOfMemory compares Memory with itself, to show that ModelSet makes only valid
// calls.
func TestModelOfMemory(t *testing.T) {
	runs, steps := 5, 500
	if *proof {
		runs, steps = 100, 2000
	}
	first, runs := suite.FirstSeed(*seed, runs)
	for i := range runs {
		ModelSet(t, openMemory, first+uint64(i), steps)
	}
}
