package table

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"
)

// textRows writes aligned columns with a header. The first rows decide how wide the columns are.
type textRows struct {
	out     *bufio.Writer
	waiting [][]string // the header and the first rows, before the widths are known
	widths  []int      // nil until then
}

const (
	alignedRows  = 1000 // rows that decide about the widths
	maxTextWidth = 100  // of a column; longer cells move the rest of their row
)

func newText(w io.Writer, columns []Column) *textRows {
	t := &textRows{out: newBuffer(w)}
	var header []string
	for _, c := range columns {
		header = append(header, c.Name)
	}
	t.waiting = append(t.waiting, header)
	return t
}

// oneLine replaces the separators of lines and cells in a text.
var oneLine = strings.NewReplacer("\n", " ", "\r", " ", "\t", " ")

func (t *textRows) write(row []any) error {
	cells := make([]string, len(row))
	for i, cell := range row {
		if cell != nil {
			cells[i] = oneLine.Replace(textCell(cell))
		}
	}
	if t.widths != nil {
		return t.writeRow(cells)
	}
	if t.waiting = append(t.waiting, cells); len(t.waiting) <= alignedRows {
		return nil
	}
	return t.align()
}

// textCell returns a cell as people read it.
func textCell(cell any) string {
	if text, is := cell.(string); is {
		return text
	}
	return csvCell(cell)
}

// align decides about the widths, and writes the rows that wait for them.
func (t *textRows) align() error {
	t.widths = make([]int, len(t.waiting[0]))
	for _, cells := range t.waiting {
		for i, cell := range cells {
			t.widths[i] = min(max(t.widths[i], utf8.RuneCountInString(cell)), maxTextWidth)
		}
	}
	for _, cells := range t.waiting {
		if err := t.writeRow(cells); err != nil {
			return err
		}
	}
	t.waiting = nil
	return nil
}

func (t *textRows) writeRow(cells []string) error {
	var line strings.Builder
	for i, cell := range cells {
		line.WriteString(cell)
		line.WriteString(strings.Repeat(" ", max(t.widths[i]-utf8.RuneCountInString(cell), 0)+2))
	}
	_, err := t.out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	return err
}

func (t *textRows) close() error {
	if t.widths == nil {
		if err := t.align(); err != nil {
			return err
		}
	}
	return t.out.Flush()
}
