package report

import (
	"cmp"
	"slices"
)

// Plot is a plot with a logarithmic X axis, and a logarithmic or linear Y axis.
type Plot struct {
	Title   string  `json:"title"`
	X       string  `json:"x"`
	Y       string  `json:"y"`
	LinearY bool    `json:"linear_y,omitempty"`
	Lines   []*Line `json:"lines"`

	XRange [2]float64 `json:"x_range,omitzero"` // zero means that the points determine it
	YRange [2]float64 `json:"y_range,omitzero"`
	XTicks []float64  `json:"x_ticks,omitempty"` // nil means powers of ten
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
	Level  Style = "level" // a horizontal line from the first point to the last, with its name on it
)

// Point is a value with its 95 % interval. If Low and High are 0, it has no interval.
type Point struct {
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
}

// Line returns the line with that name. It adds an empty one if there is none.
func (p *Plot) Line(name string, style Style) *Line {
	if i := slices.IndexFunc(p.Lines, func(l *Line) bool { return l.Name == name }); i >= 0 {
		return p.Lines[i]
	}
	l := &Line{Name: name, Style: style, Points: []Point{}}
	p.Lines = append(p.Lines, l)
	return l
}

// Add adds a point. It drops a point that a logarithmic axis cannot show.
func (l *Line) Add(at Point) {
	if at.X > 0 && at.Y > 0 {
		l.Points = append(l.Points, at)
	}
}

// interval returns the 95 % interval of the point, or Y for both ends if the point has
// no interval.
func (at Point) interval() (low, high float64) { return cmp.Or(at.Low, at.Y), cmp.Or(at.High, at.Y) }

func (p *Plot) drawable() bool {
	return slices.ContainsFunc(p.Lines, func(l *Line) bool { return len(l.Points) > 0 })
}
