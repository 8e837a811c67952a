package fetcher

import (
	"math"
	"testing"
)

// climb runs a climber for some ticks on a web that answers throughput(n)
// requests per second if n hosts are asked at once.
func climb(c *climber, ticks int, throughput func(n int) float64) {
	for range ticks {
		c.step(load{requests: throughput(c.limit), full: true})
	}
}

// TestClimberFindsTheLimit: for every kind of limit, the climber reaches at least nine
// tenths of the best throughput. Let n be the smallest number of hosts that reaches nine
// tenths. The last number that the climber chooses is at most the larger of 4*n and autoStart.
func TestClimberFindsTheLimit(t *testing.T) {
	for name, throughput := range map[string]func(int) float64{
		"latency only":                  func(n int) float64 { return float64(n) / 0.3 },
		"processor at 2000":             func(n int) float64 { return min(float64(n)/0.3, 2000) },
		"processor at 300":              func(n int) float64 { return min(float64(n)/0.3, 300) },
		"worse when there are too many": func(n int) float64 { return min(float64(n)/0.3, 4e6/math.Max(float64(n), 1500)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClimber(autoMax)
			best := 0.0
			for n := 1; n <= autoMax; n++ {
				best = max(best, throughput(n))
			}
			early := 0.0
			for range 40 {
				climb(c, 1, throughput)
				early += throughput(c.limit) / 40
			}
			const ticks = 1200
			got := 0.0
			for range ticks {
				climb(c, 1, throughput)
				got += throughput(c.limit) / ticks
			}
			if early < 0.8*best {
				t.Errorf("%.0f requests/s in the first twenty seconds, want at least 0.8 of the best, %.0f/s", early, best)
			}
			if got < 0.9*best {
				t.Errorf("%.0f requests/s in ten minutes, want at least 0.9 of the best, %.0f/s", got, best)
			}
			least := 1
			for throughput(least) < 0.9*best {
				least++
			}
			if c.limit > max(4*least, autoStart) {
				t.Errorf("%d hosts at once, want at most %d", c.limit, max(4*least, autoStart))
			}
		})
	}
}

// TestClimberStops: the number stays the same while slots are unused, while a resource is
// short, and at the allowed maximum. The number falls while memory is short.
func TestClimberStops(t *testing.T) {
	c := newClimber(1000)
	for range 20 {
		c.step(load{requests: 10})
	}
	if c.limit != autoStart {
		t.Errorf("%d hosts at once though slots are free, want %d", c.limit, autoStart)
	}
	for range 20 {
		c.step(load{requests: float64(c.limit), full: true, scarce: true})
	}
	if c.limit != autoStart {
		t.Errorf("%d hosts at once though the processor is busy, want %d", c.limit, autoStart)
	}
	climb(c, 60, func(n int) float64 { return float64(n) })
	if c.limit != 1000 {
		t.Errorf("%d hosts at once, want the maximum, 1000", c.limit)
	}
	for range 100 {
		c.step(load{requests: 10, full: true, squeezed: true})
	}
	if c.limit != autoStart {
		t.Errorf("%d hosts at once after memory was short for long, want %d", c.limit, autoStart)
	}
	if few := newClimber(8); few.step(load{requests: 8, full: true}) != 8 {
		t.Errorf("%d hosts at once, want 8 at most", few.limit)
	}
}
