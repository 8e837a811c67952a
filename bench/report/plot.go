package report

import (
	"bytes"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/bloomfrontier/crawler/bench/axes"
)

// Plot is a plot over two logarithmic axes, or one.
type Plot struct {
	Title   string  `json:"title"`
	X       string  `json:"x"`
	Y       string  `json:"y"`
	LinearY bool    `json:"linear_y,omitempty"`
	Lines   []*Line `json:"lines"`
}

// Line is a named line or a set of points of a plot.
type Line struct {
	Name   string  `json:"name"`
	Style  Style   `json:"style"`
	Points []Point `json:"points"`
}

// Style says how a line is drawn.
type Style string

// The styles.
const (
	Solid  Style = "solid"
	Dashed Style = "dashed"
	Dotted Style = "dotted"
	Marks  Style = "marks" // points with their intervals, not joined
	Level  Style = "level" // from the first point to the last, with its name on it
)

// Point is a value, with its 95 % interval unless Low and High are 0.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Line returns the line of that name, which is added without points.
func (p *Plot) Line(name string, style Style) *Line {
	for _, l := range p.Lines {
		if l.Name == name {
			return l
		}
	}
	l := &Line{Name: name, Style: style, Points: []Point{}}
	p.Lines = append(p.Lines, l)
	return l
}

// Add adds a point; one that has no place on a logarithmic axis is left out.
func (l *Line) Add(at Point) {
	if at.X > 0 && at.Y > 0 {
		l.Points = append(l.Points, at)
	}
}

// drawable reports whether there is anything to see.
func (p *Plot) drawable() bool {
	for _, l := range p.Lines {
		if len(l.Points) > 0 {
			return true
		}
	}
	return false
}

const plotWidth, plotHeight = 16 * vg.Centimeter, 11 * vg.Centimeter

// SVG draws the plot.
func (p *Plot) SVG() ([]byte, error) {
	drawn, err := p.draw()
	if err != nil {
		return nil, err
	}
	canvas := vgsvg.New(plotWidth, plotHeight)
	drawn.Draw(draw.New(canvas))
	var svg bytes.Buffer
	_, err = canvas.WriteTo(&svg)
	return svg.Bytes(), err
}

// draw puts the lines that have points between axes.
func (p *Plot) draw() (*plot.Plot, error) {
	drawn := axes.Logarithmic(p.Title, p.X, p.Y)
	if p.LinearY {
		drawn.Y.Scale = plot.LinearScale{}
	}
	shades := axes.Shades()
	marks, levels := 0, 0
	for i, l := range p.Lines {
		if len(l.Points) == 0 {
			continue
		}
		shade := shades[i%len(shades)]
		var err error
		switch l.Style {
		case Marks:
			err = axes.AddMarks(drawn, l.Name, l.intervals(), shade, marks)
			marks++
		case Level:
			first, last := l.Points[0], l.Points[len(l.Points)-1]
			err = axes.AddLevel(drawn, l.Name, first.X, last.X, first.Y, levels%2 == 1)
			levels++
		case Dashed:
			err = axes.AddLine(drawn, l.Name, l.xys(), shade, axes.Dashed)
		case Dotted:
			err = axes.AddLine(drawn, l.Name, l.xys(), shade, axes.Dotted)
		default:
			err = axes.AddLine(drawn, l.Name, l.xys(), shade, axes.Solid)
		}
		if err != nil {
			return nil, err
		}
	}
	axes.Fit(drawn, p.LinearY)
	return drawn, nil
}

func (l *Line) xys() plotter.XYs {
	points := make(plotter.XYs, len(l.Points))
	for i, at := range l.Points {
		points[i] = plotter.XY{X: at.X, Y: at.Y}
	}
	return points
}

func (l *Line) intervals() axes.Intervals {
	in := axes.Intervals{XYs: l.xys(), YErrors: make(plotter.YErrors, len(l.Points))}
	for i, at := range l.Points {
		if at.Low > 0 && at.High > 0 {
			in.YErrors[i].Low, in.YErrors[i].High = at.Y-at.Low, at.High-at.Y
		}
	}
	return in
}
