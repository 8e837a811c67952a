// Package axes draws what our plots have in common: logarithmic axes with a grid
// and decades, lines that can be told apart in grey print, points with intervals.
//
// It owns the looks, not the figures.
package axes

import (
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Lines differ by dashes and by lightness.
var (
	Solid  = []vg.Length(nil)
	Dashed = []vg.Length{vg.Points(6), vg.Points(3)}
	Dotted = []vg.Length{vg.Points(1.5), vg.Points(3)}

	Black = color.Gray{Y: 0}
	Grey  = color.Gray{Y: 140}
)

// Shades returns what lines of one plot take in turn.
func Shades() []color.Gray { return []color.Gray{Black, Grey, {Y: 80}, {Y: 170}} }

// Logarithmic returns a plot with logarithmic axes and a grid.
func Logarithmic(title, x, y string) *plot.Plot {
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

// AddLine adds a line and its entry in the legend.
func AddLine(p *plot.Plot, name string, points plotter.XYs, shade color.Gray, dashes []vg.Length) error {
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = shade, dashes, vg.Points(1.5)
	p.Add(line)
	p.Legend.Add(name, line)
	return nil
}

// Intervals are points with what lies below and above them.
type Intervals struct {
	plotter.XYs
	plotter.YErrors
}

// AddMarks adds points with their intervals and an entry in the legend. Marks
// that differ in number differ in shape, and stand beside each other.
func AddMarks(p *plot.Plot, name string, points Intervals, shade color.Gray, number int) error {
	const aside = 1.12
	for i := range points.XYs {
		points.XYs[i].X *= math.Pow(aside, float64(number))
	}
	marks, err := plotter.NewScatter(points.XYs)
	if err != nil {
		return err
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
	}
	shapes := []draw.GlyphDrawer{draw.CircleGlyph{}, draw.RingGlyph{}, draw.TriangleGlyph{}, draw.SquareGlyph{}, draw.CrossGlyph{}, draw.PyramidGlyph{}}
	marks.Color, marks.Shape, marks.Radius = shade, shapes[number%len(shapes)], vg.Points(3)
	bars.Color = shade
	p.Add(bars, marks)
	p.Legend.Add(name, marks)
	return nil
}

// AddLevel adds a horizontal line from x = least to most, with its name and value
// on it: at the left, or at the right where a near one has its name at the left.
func AddLevel(p *plot.Plot, name string, least, most, y float64, right bool) error {
	line, err := plotter.NewLine(plotter.XYs{{X: least, Y: y}, {X: most, Y: y}})
	if err != nil {
		return err
	}
	line.Color, line.Width = Grey, vg.Points(0.8)
	at := plotter.XY{X: least * 1.2, Y: y}
	if right {
		at.X = most / 1.2
	}
	label, err := plotter.NewLabels(plotter.XYLabels{XYs: []plotter.XY{at}, Labels: []string{fmt.Sprintf("%s: %.3g", name, y)}})
	if err != nil {
		return err
	}
	style := &label.TextStyle[0]
	style.Font.Size, style.YAlign = vg.Points(7.5), text.YBottom
	if right {
		style.XAlign = text.XRight
	}
	p.Add(line, label)
	return nil
}

// Fit widens logarithmic axes to whole decades, marks those, and puts the legend
// where nothing else is: above everything. With linearY only the other axis is
// logarithmic.
func Fit(p *plot.Plot, linearY bool) {
	decades(&p.X, 0)
	if linearY {
		p.Y.Max += 0.4 * (p.Y.Max - p.Y.Min)
	} else {
		decades(&p.Y, 1)
	}
	p.Legend.Top, p.Legend.Left = true, true
}

// decades has an axis begin and end with one, and leaves room for so many more.
func decades(axis *plot.Axis, room float64) {
	axis.Min = math.Pow(10, math.Floor(math.Log10(axis.Min)+1e-9))
	axis.Max = math.Pow(10, math.Ceil(math.Log10(axis.Max)-1e-9)+room)
	if axis.Max <= axis.Min { // one value alone: plot would widen the axis to below zero
		axis.Max = 10 * axis.Min
	}
	axis.Tick.Marker = Decades{Most: math.Inf(1)}
}

// Decades marks powers of ten up to Most, and labels each Every-th of them; 0
// means as many as there is room for.
type Decades struct {
	Every int
	Most  float64
}

// Ticks implements plot.Ticker. It marks nothing where the axis is not
// logarithmic, so that it begins at or below 0.
func (d Decades) Ticks(low, high float64) (ticks []plot.Tick) {
	if !(low > 0 && high < math.MaxFloat64) {
		return nil
	}
	first, last := int(math.Ceil(math.Log10(low)-1e-9)), int(math.Floor(math.Log10(min(high, d.Most))+1e-9))
	every := d.Every
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
