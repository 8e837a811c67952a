package cli

import (
	"math"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/sizing"
)

// probesFor is how many random fingerprints show a false-positive rate of p:
// a hundred of them are then claimed.
func probesFor(p float64) uint64 { return uint64(math.Ceil(100 / p)) }

// probes are what the filter said of random fingerprints.
type probes struct{ claimed, asked uint64 }

// falsePositives returns the three figures of P3 and what they have cost.
func falsePositives(stats frontier.Stats, p probes, chain sizing.Chain) *report.FalsePositives {
	shadow := stats.Shadow
	f := &report.FalsePositives{
		// Every bit was counted: there is nothing between low and high.
		Estimated: &report.Figure{P: stats.Filter.FPR, Low: stats.Filter.FPR, High: stats.Filter.FPR},
		Shadow:    counted(shadow.Lost, shadow.New+shadow.Lost),
		Lost:      lost(stats, chain),
	}
	if p.asked > 0 {
		f.Probed = counted(p.claimed, p.asked)
	}
	return f
}

func counted(hits, trials uint64) *report.Figure {
	f := &report.Figure{Hits: hits, Trials: trials}
	if trials > 0 {
		f.P = float64(hits) / float64(trials)
	}
	f.Low, f.High = sizing.Interval(hits, trials)
	return f
}

// lost returns how many of the new URLs were taken for known ones while the
// filter filled. Those of --known were in it before, and none of them was new.
func lost(stats frontier.Stats, chain sizing.Chain) *report.Lost {
	keys := stats.Filter.Keys
	known := keys + stats.Recovered - min(keys+stats.Recovered, stats.Added)
	expected := max(chain.At(keys).LostKeys-chain.At(min(known, keys)).LostKeys, 0)
	low, high := poissonRange(expected)
	return &report.Lost{Expected: expected, Low: low, High: high}
}

// poissonRange returns the bounds that a Poisson number with this mean keeps
// within with 95 %: at most 2.5 % lie below, at most 2.5 % above.
func poissonRange(mean float64) (low, high float64) {
	const tail, reach, many = 0.025, 1.959963984540054, 500
	if mean > many { // as good as normal
		return math.Max(0, math.Floor(mean-reach*math.Sqrt(mean))), math.Ceil(mean + reach*math.Sqrt(mean))
	}
	term := math.Exp(-mean) // P(N = n)
	sum, foundLow := term, false
	for n := 0.0; ; n++ {
		if !foundLow && sum > tail {
			low, foundLow = n, true
		}
		if sum >= 1-tail {
			return low, n
		}
		term *= mean / (n + 1)
		sum += term
	}
}

// filterOf describes the filter; added is the pace of new URLs, per second.
func filterOf(stats frontier.FilterStats, layers []frontier.FilterLayer, growth bool, added float64) *report.Filter {
	f := &report.Filter{Keys: stats.Keys, Capacity: stats.Capacity, Bytes: stats.Bytes, Growth: growth}
	for i, l := range layers {
		of := report.Layer{Keys: l.Keys, Capacity: l.Capacity, Bits: l.Bits, Hashes: l.Hashes, Fill: l.Fill, FPR: l.FPR, Target: l.Target}
		if i == len(layers)-1 { // the others take no more
			of.FullIn = report.SecondsToFull(l.Keys, l.Capacity, added)
		}
		f.Layers = append(f.Layers, of)
	}
	return f
}
