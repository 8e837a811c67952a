package report

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
)

// The size of a plot and of its margins, in pixels.
const (
	plotWidth, plotHeight                            = 620, 430
	leftMargin, rightMargin, topMargin, bottomMargin = 66, 22, 34, 48
	legendRow                                        = 15
)

// SVG draws plots side by side. Lines differ in dashes and lightness, so that one can tell
// them apart in print without colours.
func SVG(plots ...*Plot) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="11">`+"\n",
		plotWidth*len(plots), plotHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, p := range plots {
		fmt.Fprintf(&b, "<g transform=\"translate(%d)\">\n", i*plotWidth)
		newDrawing(&b, p).draw()
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

type drawing struct {
	out  *bytes.Buffer
	plot *Plot
	x, y axis
}

func newDrawing(out *bytes.Buffer, p *Plot) *drawing {
	var xs, ys []float64
	rows := 0.0
	for _, l := range p.Lines {
		if l.Style != Level && len(l.Points) > 0 {
			rows++
		}
		for _, at := range l.Points {
			low, high := at.interval()
			xs, ys = append(xs, at.X), append(ys, low, high)
		}
	}
	top := topMargin + legendRow*rows // the legend is above everything
	return &drawing{out, p, newAxis(p.XRange, xs, false, leftMargin, plotWidth-rightMargin, p.XTicks),
		newAxis(p.YRange, ys, p.LinearY, plotHeight-bottomMargin, top, nil)}
}

func (d *drawing) draw() {
	d.text(plotWidth/2, topMargin/2, "middle", ` font-size="14"`, d.plot.Title)
	d.text((d.x.from+d.x.to)/2, plotHeight-12, "middle", "", d.plot.X)
	d.text(14, (d.y.from+d.y.to)/2, "middle", fmt.Sprintf(` transform="rotate(-90 14 %.1f)"`, (d.y.from+d.y.to)/2), d.plot.Y)
	for i, value := range d.x.ticks {
		at := d.x.pixel(value)
		d.line(at, d.y.from, at, d.y.to, 225)
		d.text(at, d.y.from+16, "middle", "", d.x.label(i))
	}
	for i, value := range d.y.ticks {
		at := d.y.pixel(value)
		d.line(d.x.from, at, d.x.to, at, 225)
		d.text(d.x.from-6, at+4, "end", "", d.y.label(i))
	}
	d.line(d.x.from, d.y.from, d.x.to, d.y.from, 0)
	d.line(d.x.from, d.y.from, d.x.from, d.y.to, 0)
	row, marks, levels := topMargin-8.0, 0, []*Line(nil)
	for i, l := range d.plot.Lines {
		if len(l.Points) == 0 {
			continue
		}
		shade := []int{0, 140, 80, 170}[i%4]
		if l.Style == Level {
			levels = append(levels, l)
			continue
		}
		row += legendRow
		d.text(d.x.from+34, row, "start", "", l.Name)
		if l.Style == Marks {
			d.marks(l, shade, marks, row)
			marks++
			continue
		}
		dashes := map[Style]string{Dashed: "7 4", Dotted: "2 4"}[l.Style]
		d.curve(shade, dashes, 1.6, d.x.from, row-4, d.x.from+28, row-4)
		var ends []float64
		for _, at := range l.Points {
			ends = append(ends, d.x.pixel(at.X), d.y.pixel(at.Y))
		}
		d.curve(shade, dashes, 1.6, ends...)
	}
	d.levels(levels)
}

// levels draws horizontal lines with their names and values on them. The texts are
// alternately at the left and at the right, so that the texts of neighbouring lines do
// not overlap.
func (d *drawing) levels(lines []*Line) {
	slices.SortFunc(lines, func(a, b *Line) int { return cmp.Compare(a.Points[0].Y, b.Points[0].Y) })
	for i, l := range lines {
		left, right := d.x.pixel(l.Points[0].X), d.x.pixel(l.Points[len(l.Points)-1].X)
		value := l.Points[0].Y
		d.line(left, d.y.pixel(value), right, d.y.pixel(value), 140)
		at, anchor := left+8, "start"
		if i%2 == 1 {
			at, anchor = right-8, "end"
		}
		d.text(at, d.y.pixel(value)-3, anchor, ` font-size="10" paint-order="stroke" stroke="white" stroke-width="3"`, fmt.Sprintf("%s: %.3g", l.Name, value))
	}
}

// marks draws the points of a line with their intervals. The number of the line determines
// the shape of the marks and how far they are shifted to the right. The shift keeps the
// marks of several lines apart.
func (d *drawing) marks(l *Line, shade, number int, row float64) {
	shapes := []string{ // each fits in a square of 8×8 pixels around the origin
		`<circle r="4" fill="%s"/>`, `<circle r="3.4" fill="none" stroke="%s" stroke-width="1.4"/>`, `<path d="M0-4.5 4.2 3.5-4.2 3.5z" fill="%s"/>`,
		`<path d="M-3.5-3.5h7v7h-7z" fill="%s"/>`, `<path d="M-4-4 4 4M-4 4 4-4" stroke="%s" stroke-width="1.6"/>`,
	}
	mark := func(x, y float64) {
		fmt.Fprintf(d.out, `<g transform="translate(%.1f %.1f)">`+shapes[number%len(shapes)]+"</g>\n", x, y, grey(shade))
	}
	mark(d.x.from+14, row-4)
	for _, at := range l.Points {
		x := d.x.pixel(at.X) + float64(6*number)
		if low, high := at.interval(); low < high {
			d.line(x, d.y.pixel(low), x, d.y.pixel(high), shade)
		}
		mark(x, d.y.pixel(at.Y))
	}
}

func (d *drawing) line(x1, y1, x2, y2 float64, shade int) { d.curve(shade, "", 1, x1, y1, x2, y2) }

// curve draws a line through points, which are given as x and y alternately.
func (d *drawing) curve(shade int, dashes string, width float64, points ...float64) {
	fmt.Fprintf(d.out, `<polyline fill="none" stroke="%s" stroke-dasharray="%s" stroke-width="%g" points="`, grey(shade), cmp.Or(dashes, "none"), width)
	for _, at := range points {
		fmt.Fprintf(d.out, "%.1f ", at)
	}
	d.out.WriteString("\"/>\n")
}

func (d *drawing) text(x, y float64, anchor, more, text string) {
	fmt.Fprintf(d.out, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, more, html.EscapeString(text))
}

func grey(shade int) string { return fmt.Sprintf("#%02[1]x%02[1]x%02[1]x", shade) }

// axis maps values to pixels.
type axis struct {
	from, to    float64 // pixels of its ends
	least, most float64 // values at its ends
	linear      bool
	ticks       []float64
	every       int // number of ticks from one label to the next
}

// newAxis returns an axis. If fixed is not zero, it is the range of the axis. Otherwise
// the axis contains all values, and a logarithmic axis begins and ends with powers of
// ten. If ticks is nil, the ticks of a logarithmic axis are the powers of ten.
func newAxis(fixed [2]float64, values []float64, linear bool, from, to float64, ticks []float64) axis {
	a := axis{from: from, to: to, least: math.Inf(1), linear: linear, ticks: ticks, every: 1}
	for _, value := range values {
		a.least, a.most = min(a.least, value), max(a.most, value)
	}
	switch {
	case fixed[1] > 0:
		a.least, a.most = fixed[0], fixed[1]
	case linear:
		pad := 0.05 * max(a.most-a.least, a.most/10)
		a.least, a.most = a.least-pad, a.most+pad
	default:
		a.least = math.Pow(10, math.Floor(math.Log10(a.least)+1e-9))
		a.most = max(math.Pow(10, math.Ceil(math.Log10(a.most)-1e-9)), 10*a.least)
	}
	switch {
	case ticks != nil:
	case linear:
		step := math.Pow(10, math.Floor(math.Log10(a.most-a.least)))
		for (a.most-a.least)/step < 4 {
			step /= 2
		}
		for n := math.Ceil(a.least / step); n*step <= a.most; n++ {
			a.ticks = append(a.ticks, n*step)
		}
	default:
		for exponent := math.Ceil(math.Log10(a.least) - 1e-9); exponent <= math.Log10(a.most)+1e-9; exponent++ {
			a.ticks = append(a.ticks, math.Pow(10, exponent))
		}
		a.every = 1 + (len(a.ticks)-1)/8
	}
	return a
}

// pixel returns the pixel of a value.
func (a axis) pixel(value float64) float64 {
	share := (value - a.least) / (a.most - a.least)
	if !a.linear {
		share = math.Log(value/a.least) / math.Log(a.most/a.least)
	}
	return a.from + share*(a.to-a.from)
}

func (a axis) label(tick int) string {
	value := a.ticks[tick]
	switch {
	case tick%a.every > 0:
		return ""
	case a.linear, value > 0.009 && value < 1e5:
		return fmt.Sprintf("%.5g", value)
	default:
		return fmt.Sprintf("%.0e", value)
	}
}
