package size

import (
	"fmt"
	"math"

	bench "github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// plot returns the report's plots as one SVG: the loss over the number of URLs offered, and the
// bytes per URL over the false-positive rate, p. The second plot also shows exact stores.
func (r report) plot() []byte { return bench.SVG(r.plotLost(), r.plotCost()) }

// plotLost draws the false-positive rate and the share of lost URLs over the number of
// URLs offered.
func (r report) plotLost() *bench.Plot {
	floor := r.plan.FPR * 1e-4
	p := &bench.Plot{
		Title: fmt.Sprintf("Made for %s URLs at p = %.3g", human.Commas(r.Filter.Keys), r.plan.FPR),
		X:     "URLs offered, in multiples of n", Y: "share of URLs",
		XRange: [2]float64{0.25, 4}, XTicks: []float64{0.25, 0.5, 1, 2, 4}, YRange: [2]float64{floor, 1},
	}
	var multiples []float64
	for of := 0.25; of <= 4; of *= 1.05 {
		multiples = append(multiples, of)
	}
	for _, of := range append(multiples, 4) {
		f := r.plan.Fill(of)
		for _, line := range []struct {
			name  string
			share float64
			style bench.Style
		}{
			{"taken for known now, without growth", f.Fixed.FPR, bench.Solid},
			{"lost so far, without growth", f.Fixed.LostShare, bench.Solid},
			{"taken for known now, growing", f.Growing.FPR, bench.Dashed},
			{"lost so far, growing", f.Growing.LostShare, bench.Dashed},
		} {
			drawn := p.Line(line.name, line.style)
			if line.share >= floor { // a tiny filter loses nothing until it is full
				drawn.Add(bench.Point{X: f.Of, Y: line.share})
			}
		}
	}
	return p
}

// plotCost draws bytes per URL over the false-positive rate, p.
func (r report) plotCost() *bench.Plot {
	const least, most = 1e-10, 0.1
	p := &bench.Plot{
		Title: fmt.Sprintf("Memory for one of %s URLs of %d bytes", human.Commas(r.Filter.Keys), r.plan.URLBytes), X: "p", Y: "bytes per URL",
		XRange: [2]float64{least, most}, YRange: [2]float64{0.2, 500},
	}
	for _, curve := range []struct {
		name  string
		bits  func(p float64) float64
		style bench.Style
	}{
		{"information bound", sizing.InformationBound, bench.Dotted},
		{"Bloom filter", func(p float64) float64 {
			m, _ := sizing.OptimalBits(r.Filter.Keys, p)
			return float64(m) / float64(r.Filter.Keys)
		}, bench.Solid},
		{fmt.Sprintf("in Redis, blocks of %d bits", r.Redis.Segments.BlockBits), func(p float64) float64 {
			bits, _ := sizing.ExactBlockedBits(p, r.Redis.Segments.BlockBits)
			return bits
		}, bench.Dashed},
	} {
		for exponent := math.Log10(least); exponent <= math.Log10(most)+1e-9; exponent += 0.25 {
			rate := math.Pow(10, exponent)
			p.Line(curve.name, curve.style).Add(bench.Point{X: rate, Y: curve.bits(rate) / 8})
		}
	}
	for _, s := range r.Stores {
		p.Line(s.Name, bench.Level).Points = []bench.Point{{X: least, Y: s.BytesPerKey}, {X: most, Y: s.BytesPerKey}}
	}
	return p
}
