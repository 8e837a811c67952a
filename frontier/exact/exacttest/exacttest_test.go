package exacttest

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/exact"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the random run with this seed; 0: a new one")
	proof = flag.Bool("proof", false, "many long random runs")
)

func openMemory(_ *testing.T, opt Options) exact.Set {
	return exact.NewMemory(exact.MemoryConfig{Windows: opt.Windows, Now: opt.Now})
}

func TestMemory(t *testing.T) { RunSet(t, openMemory) }

// TestModelOfMemory compares the model with itself: the calls it makes are fair.
func TestModelOfMemory(t *testing.T) {
	runs, steps := 5, 500
	if *proof {
		runs, steps = 100, 2000
	}
	first := *seed
	if first == 0 {
		first = rand.Uint64N(1 << 48)
	} else {
		runs = 1
	}
	for i := range runs {
		ModelSet(t, openMemory, first+uint64(i), steps)
	}
}
