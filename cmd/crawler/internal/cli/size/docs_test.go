package size

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

const docs = "../../../../../docs/"

// TestDocumentedTables: the tables in the guide and in the design contain the numbers that
// the command prints.
func TestDocumentedTables(t *testing.T) {
	for page, rows := range map[string][]string{
		"guide/sizing.md":  append(rateRows(t), fillRows(t)...),
		"design/sizing.md": blockRows(),
	} {
		text, err := os.ReadFile(docs + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if !strings.Contains(string(text), row+"\n") {
				t.Errorf("docs/%s has no line\n%s", page, row)
			}
		}
	}
}

func rateRows(t *testing.T) (rows []string) {
	for _, p := range []string{"5%", "1%", "0.1%", "1e-4", "1e-6", "1e-9"} {
		r := reportOf(t, "--urls", "100M", "--fpr", p)
		rows = append(rows, fmt.Sprintf("| %s | %d | %.2f | %s | %s | %s | %.1f |", p, r.Filter.Hashes, r.Filter.BitsPerURL,
			human.IBytes(r.Filter.Bytes), human.Few(r.Filter.LostKeys), human.OneIn(r.Filter.LostShare), r.Redis.BitsPerURL))
	}
	return rows
}

func fillRows(t *testing.T) (rows []string) {
	r := reportOf(t, "--urls", "100M", "--fpr", "1%")
	for _, f := range r.Fills {
		rows = append(rows, fmt.Sprintf("| %gn | %s | %s | %s | %s | %s |", f.Of, human.OneIn(f.Fixed.FPR), human.Few(f.Fixed.LostKeys),
			human.OneIn(f.Growing.FPR), human.Few(f.Growing.LostKeys), human.IBytes(f.Growing.Bits/8)))
	}
	return rows
}

func blockRows() (rows []string) {
	for _, block := range []int{512, 1024, 2048, 4096} {
		row := fmt.Sprintf("| %d |", block)
		for _, p := range []float64{0.01, 1e-3, 1e-4, 1e-6} {
			bits, _ := sizing.ExactBlockedBits(p, block)
			row += fmt.Sprintf(" %.2f |", bits)
		}
		rows = append(rows, row+fmt.Sprintf(" %.0f |", sizing.AOFPerURL(block)))
	}
	return rows
}
