package bloomrate

import (
	"math"
	"testing"
)

// TestDeviationInSigma compares Deviation with values that another program computed.
func TestDeviationInSigma(t *testing.T) {
	for _, c := range []struct {
		name          string
		count, trials uint64
		p, spread     float64
		want          float64
	}{
		{"as expected, many", 10_000, 1_000_000, 0.01, 0, 0},
		{"5σ above, many", 10_497, 1_000_000, 0.01, 0, 4.995},
		{"5σ below, many", 9503, 1_000_000, 0.01, 0, -4.995},
		{"many, of a rate that varies", 10_497, 1_000_000, 0.01, 0.01, 3.522},
		{"few, of a rate that varies by half", 150, 1_000_000, 1e-4, 0.5, 0.9068},
		{"one, a millionth expected", 1, 1, 1e-6, 0, 4.7534},
		{"none, none expected", 0, 1000, 0, 0, 0},
		{"one, none expected", 1, 1000, 0, 0, math.Inf(1)},
		{"none, a hundred expected", 0, 100_000_000, 1e-6, 0, -13.8885},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Deviation(c.count, c.trials, c.p, c.spread)
			if got != c.want && math.Abs(got-c.want) > 5e-3 {
				t.Errorf("Deviation(%d, %d, %g, %g) = %.4f, want %.4f", c.count, c.trials, c.p, c.spread, got, c.want)
			}
		})
	}
}

// TestDeviationIsContinuous: there is no jump where the normal distribution replaces the
// Poisson distribution.
func TestDeviationIsContinuous(t *testing.T) {
	for _, off := range []float64{-5, -2, 2, 5} {
		count := uint64(minNormal + off*math.Sqrt(minNormal))
		below, above := Deviation(count, 1e9, (minNormal-1e-6)/1e9, 0), Deviation(count, 1e9, minNormal/1e9, 0)
		if math.Abs(below-above) > 0.25 {
			t.Errorf("Deviation of %d with just less than %d expected is %.3fσ, with %d it is %.3fσ, want nearly the same",
				count, minNormal, below, minNormal, above)
		}
	}
}
