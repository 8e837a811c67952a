package table

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// textRows writes aligned columns with a header. The first rows decide how wide the columns are.
type textRows struct {
	out     *bufio.Writer
	most    int        // width of a line; 0 means no limit
	waiting [][]string // the header and the first rows, before the widths are known
	widths  []int      // nil until then
	numbers []bool     // the columns of numbers, which are aligned at the right
	total   string     // the last line; empty means none
}

const (
	alignedRows  = 1000 // rows that decide about the widths
	maxTextWidth = 100  // of a column; longer cells move the rest of their row, unless lines have a limit
	minTextWidth = 8    // of a column that is cut
	columnGap    = 2
)

func newText(w io.Writer, columns []Column, most int) *textRows {
	t := &textRows{out: newBuffer(w), most: most}
	var header []string
	for _, c := range columns {
		header, t.numbers = append(header, c.Name), append(t.numbers, c.Kind == Int || c.Kind == Float)
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

// textCell returns a cell as people read it. The texts of a list have spaces between them.
func textCell(cell any) string {
	switch cell := cell.(type) {
	case string:
		return cell
	case json.RawMessage:
		var list []string
		if json.Unmarshal(cell, &list) == nil {
			return strings.Join(list, " ")
		}
	}
	return csvCell(cell)
}

// align decides about the widths, and writes the rows that wait for them.
func (t *textRows) align() error {
	t.widths = make([]int, len(t.waiting[0]))
	widest := maxTextWidth
	if t.most > 0 {
		widest = t.most
	}
	for _, cells := range t.waiting {
		for i, cell := range cells {
			t.widths[i] = min(max(t.widths[i], widthOf(cell)), widest)
		}
	}
	t.narrow()
	for _, cells := range t.waiting {
		if err := t.writeRow(cells); err != nil {
			return err
		}
	}
	t.waiting = nil
	return nil
}

// narrow makes the widest columns narrower until a line is not wider than its limit. It makes no column
// narrower than minTextWidth.
func (t *textRows) narrow() {
	if t.most == 0 {
		return
	}
	whole := columnGap * (len(t.widths) - 1)
	for _, w := range t.widths {
		whole += w
	}
	for ; whole > t.most; whole-- {
		widest := slices.Index(t.widths, slices.Max(t.widths))
		if t.widths[widest] <= minTextWidth {
			return
		}
		t.widths[widest]--
	}
}

func (t *textRows) writeRow(cells []string) error {
	var line strings.Builder
	for i, cell := range cells {
		if t.most > 0 {
			cell = cut(cell, t.widths[i])
		}
		space := strings.Repeat(" ", max(t.widths[i]-widthOf(cell), 0))
		if t.numbers[i] {
			cell, space = space+cell, ""
		}
		line.WriteString(cell + space + strings.Repeat(" ", columnGap))
	}
	_, err := t.out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	return err
}

func (t *textRows) close() error {
	if t.widths == nil {
		if len(t.waiting) == 1 && t.total != "" {
			t.waiting = nil // no rows: the total says so
		} else if err := t.align(); err != nil {
			return err
		}
	}
	if t.total != "" {
		_, _ = t.out.WriteString(t.total + "\n") // returns the error of Flush too
	}
	return t.out.Flush()
}

// cut returns a text that is at most a number of columns of a terminal wide. It puts an ellipsis in the place of
// what it removes: of a single URL the middle, because its ends say most, and of another text the end.
func cut(text string, columns int) string {
	if widthOf(text) <= columns {
		return text
	}
	runes, tail := []rune(text), 0
	if strings.Contains(text, "://") && !strings.Contains(text, " ") {
		tail = columns / 2
	}
	head := columns - 1 - tail
	from, to := 0, len(runes)
	for w := runeWidth(runes[from]); w <= head; w += runeWidth(runes[from]) {
		from++
	}
	for w := runeWidth(runes[to-1]); w <= tail; w += runeWidth(runes[to-1]) {
		to--
	}
	return string(runes[:from]) + "…" + string(runes[to:])
}

// widthOf returns the number of columns of a terminal that a text takes.
func widthOf(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// escapedWidth is the width of a character that a terminal gets as an escape such as \u001b.
const escapedWidth = 6

func runeWidth(r rune) int {
	switch {
	case r >= ' ' && r <= '~':
		return 1
	case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
		return escapedWidth
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
