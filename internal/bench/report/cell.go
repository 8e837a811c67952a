package report

import (
	"fmt"
	"math"

	"github.com/dustin/go-humanize"
)

// Cell is one cell of a table: a text and, for programs, its value.
type Cell struct {
	Text  string   `json:"text"`
	Value *float64 `json:"value,omitempty"` // nil if the cell has only words
}

// Words returns a cell with a text and without a value.
func Words(text string) Cell { return Cell{Text: text} }

// Number returns a cell with a number as its value. The text shows the given number of
// significant digits.
func Number(value float64, digits int) Cell {
	return Cell{fmt.Sprintf("%.*g", digits, value), finite(value)}
}

// Fixed returns a cell with a number as its value. The text shows at most the given
// number of decimals.
func Fixed(value float64, decimals int) Cell {
	scale := math.Pow10(decimals)
	return Cell{humanize.CommafWithDigits(math.Round(value*scale)/scale, decimals), finite(value)} // humanize does not round
}

// Count returns a cell with a whole number.
func Count(n uint64) Cell {
	value := float64(n)
	return Cell{humanize.Comma(int64(min(n, math.MaxInt64))), &value}
}

// Between returns a cell that prints the ends of an interval. The cell has no value.
func Between(lo, hi float64) Cell {
	return Words(fmt.Sprintf("%.3g … %.3g", lo, hi))
}

// finite returns value, or nil if JSON cannot represent it.
func finite(value float64) *float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	return &value
}
