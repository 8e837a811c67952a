package human

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Columns returns a line for each row, with two blanks between columns and none at the end. Cells
// are aligned on the right, and on the left in the columns whose numbers are in left. The first
// column is 0. All rows must have the same number of cells.
func Columns(rows [][]string, left ...int) []string {
	lines := make([]string, len(rows))
	for column := range rows[0] {
		width := 0
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row[column]))
		}
		for i, row := range rows {
			pad := strings.Repeat(" ", width-utf8.RuneCountInString(row[column]))
			if column > 0 {
				lines[i] += "  "
			}
			if slices.Contains(left, column) {
				lines[i] += row[column] + pad
			} else {
				lines[i] += pad + row[column]
			}
		}
	}
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return lines
}
