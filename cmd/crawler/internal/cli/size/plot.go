package size

import (
	stdbytes "bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/bloomfrontier/crawler/bench/axes"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

const plotWidth, plotHeight = 25 * vg.Centimeter, 11.5 * vg.Centimeter

// plot returns the report's plots as one SVG: what is lost over the fill, and
// bytes per URL over p beside exact stores.
func (r report) plot() ([]byte, error) {
	canvas := vgsvg.New(plotWidth, plotHeight)
	if err := r.draw(canvas); err != nil {
		return nil, err
	}
	var svg stdbytes.Buffer
	_, err := canvas.WriteTo(&svg)
	return svg.Bytes(), err
}

// draw puts the two plots side by side on canvas.
func (r report) draw(canvas vg.CanvasSizer) error {
	lost, err := r.plotLost()
	if err != nil {
		return err
	}
	cost, err := r.plotCost()
	if err != nil {
		return err
	}
	tiles := draw.Tiles{
		Rows: 1, Cols: 2, PadX: 8 * vg.Millimeter, PadTop: 2 * vg.Millimeter, PadBottom: 2 * vg.Millimeter,
		PadLeft: 2 * vg.Millimeter, PadRight: 3 * vg.Millimeter,
	}
	whole := draw.New(canvas)
	lost.Draw(tiles.At(whole, 0, 0))
	cost.Draw(tiles.At(whole, 1, 0))
	return nil
}

// plotLost draws the rate and the share lost over how full the filter is.
func (r report) plotLost() (*plot.Plot, error) {
	p := axes.Logarithmic(fmt.Sprintf("Made for %s URLs at p = %.3g", human.Commas(r.Filter.Keys), r.rate),
		"URLs offered, in multiples of n", "share of URLs")
	floor := r.rate * 1e-4
	var multiples []float64
	for of := 0.25; of < 4.05; of *= 1.05 {
		multiples = append(multiples, of)
	}
	states := fills(r.Filter.Answer, r.rate, multiples...)
	for _, line := range []struct {
		name   string
		of     func(fillReport) float64
		shade  color.Gray
		dashes []vg.Length
	}{
		{"taken for known now, without growth", func(f fillReport) float64 { return f.Fixed.FPR }, axes.Black, axes.Solid},
		{"lost so far, without growth", func(f fillReport) float64 { return f.Fixed.LostShare }, axes.Grey, axes.Solid},
		{"taken for known now, growing", func(f fillReport) float64 { return f.Growing.FPR }, axes.Black, axes.Dashed},
		{"lost so far, growing", func(f fillReport) float64 { return f.Growing.LostShare }, axes.Grey, axes.Dashed},
	} {
		var points plotter.XYs
		for _, f := range states {
			if y := line.of(f); y >= floor {
				points = append(points, plotter.XY{X: f.Of, Y: y})
			}
		}
		if len(points) < 2 {
			continue // a tiny filter loses nothing before it is full
		}
		if err := axes.AddLine(p, line.name, points, line.shade, line.dashes); err != nil {
			return nil, err
		}
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.YOffs = -vg.Points(4)
	p.X.Min, p.X.Max = 0.25, 4
	p.X.Tick.Marker = plot.ConstantTicks{
		{Value: 0.25, Label: "0.25"}, {Value: 0.5, Label: "0.5"}, {Value: 1, Label: "1"}, {Value: 2, Label: "2"}, {Value: 4, Label: "4"},
	}
	p.Y.Min = floor
	p.Y.Max = 1000 * min(p.Y.Max, 1) // room for the legend
	p.Y.Tick.Marker = axes.Decades{Most: 1}
	return p, nil
}

// plotCost draws bytes per URL over p.
func (r report) plotCost() (*plot.Plot, error) {
	p := axes.Logarithmic(fmt.Sprintf("Memory for one of %s URLs of %d bytes", human.Commas(r.Filter.Keys), r.urlBytes),
		"p", "bytes per URL")
	const least, most = 1e-10, 0.1
	curves := []struct {
		name   string
		bits   func(p float64) float64
		shade  color.Gray
		dashes []vg.Length
	}{
		{"information bound", sizing.InformationBound, axes.Grey, axes.Dotted},
		{"Bloom filter", func(p float64) float64 {
			m, _ := sizing.OptimalBits(r.Filter.Keys, p)
			return float64(m) / float64(r.Filter.Keys)
		}, axes.Black, axes.Solid},
		{fmt.Sprintf("in Redis, blocks of %d bits", r.Redis.Segments.BlockBits), func(p float64) float64 {
			bits, _ := sizing.ExactBlockedBits(p, r.Redis.Segments.BlockBits)
			return bits
		}, axes.Black, axes.Dashed},
	}
	for _, curve := range curves {
		var points plotter.XYs
		for exponent := math.Log10(least); exponent <= math.Log10(most)+1e-9; exponent += 0.25 {
			rate := math.Pow(10, exponent)
			points = append(points, plotter.XY{X: rate, Y: curve.bits(rate) / 8})
		}
		if err := axes.AddLine(p, curve.name, points, curve.shade, curve.dashes); err != nil {
			return nil, err
		}
	}
	if err := r.addStores(p, least, most); err != nil {
		return nil, err
	}
	p.Legend.Left = true
	p.X.Min, p.X.Max = least, most
	p.Y.Min, p.Y.Max = 0.2, 500
	p.X.Tick.Marker, p.Y.Tick.Marker = axes.Decades{Every: 2, Most: 1}, axes.Decades{Most: math.Inf(1)}
	return p, nil
}

// addStores draws a labelled level for each exact store.
func (r report) addStores(p *plot.Plot, least, most float64) error {
	stores := byCost(r.Stores)
	near := func(i, j int) bool {
		return i >= 0 && j < len(stores) && stores[i].BytesPerKey < 1.5*stores[j].BytesPerKey
	}
	for i, s := range stores {
		line, err := plotter.NewLine(plotter.XYs{{X: least, Y: s.BytesPerKey}, {X: most, Y: s.BytesPerKey}})
		if err != nil {
			return err
		}
		line.Color, line.Width = axes.Grey, vg.Points(0.8)

		at := plotter.XY{X: least * 1.3, Y: s.BytesPerKey}
		label, err := plotter.NewLabels(plotter.XYLabels{
			XYs: []plotter.XY{at}, Labels: []string{fmt.Sprintf("%s: %.0f", s.Name, s.BytesPerKey)},
		})
		if err != nil {
			return err
		}
		style := &label.TextStyle[0]
		style.Font.Size, style.YAlign = vg.Points(7.5), text.YBottom
		switch above, below := near(i-1, i), near(i, i+1); {
		case above && below: // between two others: at the other end
			label.XYs[0].X, style.XAlign = most, text.XRight
		case above:
			style.YAlign = text.YTop
		}
		p.Add(line, label)
	}
	return nil
}
