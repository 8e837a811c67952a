package table

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// csvRows writes comma-separated values with a header.
type csvRows struct {
	out   *csv.Writer
	w     *bufio.Writer // out writes to it
	cells []string
	ids   []bool // which columns are ids
}

// idPrefix begins the ids in CSV. Without it, readers that look for numbers take 52e1 for one: DuckDB 1.5.6 reads a column
// of such ids as infinity, and a spreadsheet shows 520.
const idPrefix = "hex:"

// isID reports whether a column of records has ids of hexadecimal digits.
func isID(column string) bool {
	return column == "id" || column == "referrer_id" || column == "fingerprint"
}

func newCSV(w io.Writer, columns []Column) (*csvRows, error) {
	c := &csvRows{w: newBuffer(w)}
	// The struct hides that c.w is a bufio.Writer. Otherwise c.out would use c.w as its own
	// buffer, and each Flush of writeEmpty would write to w.
	c.out = csv.NewWriter(struct{ io.Writer }{c.w})
	for _, column := range columns {
		c.cells = append(c.cells, EscapeFormulas(column.Name))
		c.ids = append(c.ids, isID(column.Name))
	}
	return c, c.out.Write(c.cells)
}

func (c *csvRows) write(row []any) error {
	for i, cell := range row {
		c.cells[i] = csvCell(cell)
		if c.ids[i] && c.cells[i] != "" {
			c.cells[i] = idPrefix + c.cells[i]
		}
	}
	if len(c.cells) == 1 && c.cells[0] == "" {
		return c.writeEmpty()
	}
	return c.out.Write(c.cells)
}

// writeEmpty writes a row of one empty cell. The cell has quotes, because most readers of
// CSV skip an empty line.
func (c *csvRows) writeEmpty() error {
	c.out.Flush()                       // so that the rows stay in order
	_, err := c.w.WriteString("\"\"\n") // returns the error of Flush too
	return err
}

func csvCell(cell any) string {
	switch cell := cell.(type) {
	case nil:
		return ""
	case string:
		return EscapeFormulas(cell)
	case json.RawMessage:
		if _, err := strconv.ParseFloat(string(cell), 64); err == nil {
			return string(cell) // a number such as -5 is not a formula
		}
		return EscapeFormulas(string(cell))
	case time.Time:
		return cell.Format(time.RFC3339Nano)
	case float64:
		return strconv.FormatFloat(cell, 'g', -1, 64)
	}
	return fmt.Sprint(cell) // a whole number or a bool
}

// EscapeFormulas changes text so that no spreadsheet takes a part of it for a formula. It
// puts an apostrophe before the first character of a cell if this character is = + - @, or the
// full-width form of one of them. Some spreadsheets end a cell at a semicolon, a tab, a
// bar or a line break, even within quotes, so the character after such a separator also
// begins a cell. Spaces, control characters and quotes before the character are
// ignored.
func EscapeFormulas(text string) string {
	if !strings.ContainsAny(text, "=+-@＝＋－＠") {
		return text
	}
	var safe strings.Builder
	begins := true
	for _, r := range text {
		switch {
		case strings.ContainsRune(";\t|\n\r\v\f\u0085\u2028\u2029", r):
			begins = true
		case begins && strings.ContainsRune("=+-@＝＋－＠", r):
			safe.WriteByte('\'')
			begins = false
		case !unicode.IsSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf) && r != '"':
			begins = false
		}
		safe.WriteRune(r)
	}
	return safe.String()
}

func (c *csvRows) close() error {
	c.out.Flush()
	return c.w.Flush() // returns the error of the other Flush too
}
