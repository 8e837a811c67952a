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

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// The lines differ by dashes and by lightness, so that they can be told apart
// in grey print too.
var (
	solid  = []vg.Length(nil)
	dashed = []vg.Length{vg.Points(6), vg.Points(3)}
	dotted = []vg.Length{vg.Points(1.5), vg.Points(3)}

	black = color.Gray{Y: 0}
	grey  = color.Gray{Y: 140}
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
	p := logPlot(fmt.Sprintf("Made for %s URLs at p = %.3g", human.Commas(r.Filter.Keys), r.rate),
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
		{"taken for known now, without growth", func(f fillReport) float64 { return f.Fixed.FPR }, black, solid},
		{"lost so far, without growth", func(f fillReport) float64 { return f.Fixed.LostShare }, grey, solid},
		{"taken for known now, growing", func(f fillReport) float64 { return f.Growing.FPR }, black, dashed},
		{"lost so far, growing", func(f fillReport) float64 { return f.Growing.LostShare }, grey, dashed},
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
		if err := addLine(p, line.name, points, line.shade, line.dashes); err != nil {
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
	p.Y.Tick.Marker = decades{most: 1}
	return p, nil
}

// plotCost draws bytes per URL over p.
func (r report) plotCost() (*plot.Plot, error) {
	p := logPlot(fmt.Sprintf("Memory for one of %s URLs of %d bytes", human.Commas(r.Filter.Keys), r.urlBytes),
		"p", "bytes per URL")
	const least, most = 1e-10, 0.1
	curves := []struct {
		name   string
		bits   func(p float64) float64
		shade  color.Gray
		dashes []vg.Length
	}{
		{"information bound", sizing.InformationBound, grey, dotted},
		{"Bloom filter", func(p float64) float64 {
			m, _ := sizing.OptimalBits(r.Filter.Keys, p)
			return float64(m) / float64(r.Filter.Keys)
		}, black, solid},
		{fmt.Sprintf("in Redis, blocks of %d bits", r.Redis.Segments.BlockBits), func(p float64) float64 {
			bits, _ := sizing.ExactBlockedBits(p, r.Redis.Segments.BlockBits)
			return bits
		}, black, dashed},
	}
	for _, curve := range curves {
		var points plotter.XYs
		for exponent := math.Log10(least); exponent <= math.Log10(most)+1e-9; exponent += 0.25 {
			rate := math.Pow(10, exponent)
			points = append(points, plotter.XY{X: rate, Y: curve.bits(rate) / 8})
		}
		if err := addLine(p, curve.name, points, curve.shade, curve.dashes); err != nil {
			return nil, err
		}
	}
	if err := r.addStores(p, least, most); err != nil {
		return nil, err
	}
	p.Legend.Left = true
	p.X.Min, p.X.Max = least, most
	p.Y.Min, p.Y.Max = 0.2, 500
	p.X.Tick.Marker, p.Y.Tick.Marker = decades{every: 2, most: 1}, decades{most: math.Inf(1)}
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
		line.Color, line.Width = grey, vg.Points(0.8)

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

func logPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Legend.ThumbnailWidth = vg.Points(28)
	p.Legend.Padding = vg.Points(2)
	grid := plotter.NewGrid()
	light := color.Gray{Y: 225}
	grid.Horizontal.Color, grid.Vertical.Color = light, light
	p.Add(grid)
	return p
}

func addLine(p *plot.Plot, name string, points plotter.XYs, shade color.Gray, dashes []vg.Length) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = shade, dashes, vg.Points(1.5)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// decades marks powers of ten up to most, and labels every so many of them.
type decades struct {
	every int // 0 means as many as there is room for
	most  float64
}

func (d decades) Ticks(low, high float64) (ticks []plot.Tick) {
	first, last := int(math.Ceil(math.Log10(low)-1e-9)), int(math.Floor(math.Log10(min(high, d.most))+1e-9))
	every := d.every
	if every == 0 {
		every = 1 + (last-first)/8
	}
	for exponent := first; exponent <= last; exponent++ {
		tick := plot.Tick{Value: math.Pow(10, float64(exponent))}
		if exponent%every == 0 {
			tick.Label = fmt.Sprintf("%.0e", tick.Value)
			if exponent >= -2 && exponent <= 4 {
				tick.Label = fmt.Sprintf("%g", tick.Value)
			}
		}
		ticks = append(ticks, tick)
	}
	return ticks
}
