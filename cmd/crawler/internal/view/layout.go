package view

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/human"
)

// style is the SGR parameter that highlights a cell if colours are on.
type style string

const (
	plain  style = ""
	strong style = "1"
	good   style = "32"
	bad    style = "31"
	notice style = "33"
)

// cell is a piece of text that stays on one line. It is ASCII, so each byte takes one
// column.
type cell struct {
	text  string
	style style
}

// line is one row of a terminal.
type line []cell

// gap separates the cells of a line.
const gap = "  "

// width is the number of columns that l takes.
func (l line) width() int {
	sum := len(gap) * max(len(l)-1, 0)
	for _, c := range l {
		sum += len(c.text)
	}
	return sum
}

// write appends l to b, with colours if color is true.
func (l line) write(b *strings.Builder, color bool) {
	for i, c := range l {
		if i > 0 {
			b.WriteString(gap)
		}
		text := sanitize.String(c.text)
		if !color || c.style == plain {
			b.WriteString(text)
			continue
		}
		fmt.Fprintf(b, "\x1b[%sm%s\x1b[0m", c.style, text)
	}
}

// layout arranges a reading in at most height lines of at most width columns. The most
// important lines are first. The arguments height and width must be 1 or more.
func layout(r report.Reading, width, height int) []line {
	lines := flow(figures(r), width)
	lines = append(lines, wrap(limitCell(r.Limit), width)...)
	if r.Visits != nil {
		lines = append(lines, wrap(cell{r.Visits.InLine(), plain}, width)...)
	}
	if len(r.FullHosts) > 0 {
		lines = append(lines, wrap(cell{"--max-per-host is reached: " + ascii(r.FullHosts.String()), notice}, width)...)
	}
	if len(r.Pauses) > 0 {
		lines = append(lines, wrap(cell{"paused: " + ascii(strings.Join(r.Pauses, "; ")), notice}, width)...)
	}
	for i := range r.Relays {
		lines = append(lines, relayLines(&r.Relays[i], width)...)
	}
	if failing(r) {
		lines = append(lines, wrap(cell{"last error: " + ascii(r.LastError.String()), bad}, width)...)
	}
	if len(r.Causes) > 0 {
		lines = append(lines, wrap(cell{"errors by cause: " + ascii(r.Causes.String()), plain}, width)...)
	}
	if r.End != (report.End{}) {
		lines = append(lines, bar(r, width))
	}
	return lines[:min(height, len(lines))]
}

// figures returns the numbers of a reading, the most important ones first.
func figures(r report.Reading) []cell {
	cells := []cell{{human.Commas(r.Pages) + " pages", strong}}
	if r.Over > 0 {
		cells = append(cells,
			cell{human.PerSecond(r.PagesPerSecond) + " pages/s", plain},
			cell{humanize.Bytes(uint64(r.BytesPerSecond)) + "/s", plain})
	}
	queued := human.Commas(r.Queued) + " queued"
	if r.Delayed > 0 {
		queued += fmt.Sprintf(" (%s delayed)", human.Commas(r.Delayed))
	}
	errors := cell{human.Plural(r.Errors, "error"), plain}
	if r.Errors > 0 {
		errors.style = bad
	}
	return append(cells,
		cell{queued, plain},
		cell{fmt.Sprintf("%s of %s active", human.Commas(uint64(max(r.Gauges.Worker.Held, 0))), human.Plural(r.Hosts, "host")), plain},
		cell{"seen " + human.Percent(r.SeenShare()), plain},
		errors,
		cell{human.Span(r.Time.Sub(r.Started)), plain})
}

// relayLines returns lines about a relay, which delivers the events of the crawl to another
// program. It returns none if the relay has delivered all events and has no fault.
func relayLines(r *report.RelayStatus, width int) []line {
	if r.Events == 0 && r.Away == "" && r.Fault == "" {
		return nil
	}
	c := cell{"relay " + ascii(r.Title()+": "+r.Words()), plain}
	if r.Away != "" || r.Fault != "" {
		c.style = bad
	}
	return wrap(c, width)
}

// freshError is how long the last error is shown after failures have stopped.
const freshError = time.Minute

// failing reports whether the last error of r is recent.
func failing(r report.Reading) bool {
	return r.LastError != nil && (r.Gauges.Worker.BackingOff > 0 || r.Time.Sub(r.LastError.Time) < freshError)
}

// ascii replaces characters other than ASCII by question marks, because their width might
// not be one column.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		return '?'
	}, s)
}

func limitCell(f report.Factor) cell {
	return cell{ascii(f.Line()), notice}
}

// flow distributes cells over lines. It breaks no cell, and cuts off the end of a cell
// that is wider than a line.
func flow(cells []cell, width int) []line {
	var lines []line
	for _, c := range cells {
		c.text = sanitize.String(c.text) // before measuring, because escapes take more columns
		c = cut(c, width)
		if n := len(lines); n > 0 && lines[n-1].width()+len(gap)+len(c.text) <= width {
			lines[n-1] = append(lines[n-1], c)
			continue
		}
		lines = append(lines, line{c})
	}
	return lines
}

// wrap breaks c at its spaces into lines of at most width columns. It cuts off the end of
// a word that is wider than that.
func wrap(c cell, width int) []line {
	var lines []line
	for _, word := range strings.Split(sanitize.String(c.text), " ") {
		if n := len(lines); n > 0 && len(lines[n-1][0].text)+1+len(word) <= width {
			lines[n-1][0].text += " " + word
			continue
		}
		lines = append(lines, line{cut(cell{word, c.style}, width)})
	}
	return lines
}

// cut shortens c to at most width columns.
func cut(c cell, width int) cell {
	const more = "..."
	switch {
	case len(c.text) <= width:
	case width <= len(more):
		c.text = c.text[:width]
	default:
		c.text = c.text[:width-len(more)] + more
	}
	return c
}

// bar returns a line with three parts: a bar that shows how close the end of the crawl is,
// the time that is left, and the limit that ends the crawl. If these do not fit into width,
// the limit is left out. If the rest still does not fit, the bar is left out too.
func bar(r report.Reading, width int) line {
	const narrowest, widest = 12, 50
	left := "time left not known"
	if r.End.Left >= 0 {
		left = human.Span(r.End.Left) + " left"
	}
	left = human.Percent(r.End.Share) + gap + left
	by := string(r.End.By)
	if r.End.By == report.ByPages {
		by += " " + human.Commas(r.MaxPages)
	}
	for _, text := range []string{left + " (" + by + ")", left} {
		if room := width - len(gap) - len(text); room >= narrowest {
			return line{{meter(r.End.Share, min(room, widest)), good}, {text, plain}}
		}
	}
	return line{cut(cell{left, plain}, width)}
}

// meter draws a share, which is from 0 to 1, as a bar of the given width: [=====>    ].
func meter(share float64, width int) string {
	inner := width - len("[]")
	done := int(share * float64(inner))
	drawn := strings.Repeat("=", done)
	if done < inner {
		drawn += ">"
	}
	return fmt.Sprintf("[%-*s]", inner, drawn)
}
