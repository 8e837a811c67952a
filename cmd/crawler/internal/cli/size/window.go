package size

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// windowReport describes filters that forget: see sizing.Window.
type windowReport struct {
	Window      human.Seconds `json:"window_seconds"`
	Recommended int           `json:"recommended_generations"`
	Layouts     []windowRow   `json:"layouts"`
}

// windowRow is a windowReport for one number of generations.
type windowRow struct {
	sizing.WindowLayout
	Kept human.Seconds `json:"kept_seconds"` // the longest time for which a key is remembered
}

// newWindowReport returns the report of a window for the keys and the rate of plan.
func newWindowReport(plan sizing.Plan, window time.Duration) *windowReport {
	r := &windowReport{Window: human.Seconds(window), Recommended: sizing.RecommendedGenerations(plan.FPR)}
	numbers := []int{1, 2, 3, 6, 12, r.Recommended}
	slices.Sort(numbers)
	for _, g := range slices.Compact(numbers) {
		w := sizing.Window{Keys: plan.Filter.Keys, FPR: plan.FPR, Generations: g}
		r.Layouts = append(r.Layouts, windowRow{sizing.SizeWindow(w, sizing.DefaultShards), human.Seconds(w.Kept(window))})
	}
	return r
}

func (r report) writeWindow(b *strings.Builder) {
	if r.Window == nil {
		return
	}
	window := human.Period(r.Window.Window)
	fmt.Fprintf(b, "In memory, with a window of %s for %s\n", &window, human.Plural(r.plan.Filter.Keys, "new URL"))
	t := newTable("generations", "forgotten after", "bits per URL", "memory", "p when all are full")
	for _, row := range r.Window.Layouts {
		kept := human.Period(time.Duration(row.Kept).Round(time.Second))
		number := fmt.Sprint(row.Generations)
		if row.Generations == r.Window.Recommended {
			number += " (recommended)"
		}
		t.row(number, fmt.Sprintf("%s to %s", &window, &kept), fmt.Sprintf("%.2f", row.BitsPerKey), human.IBytes(row.Bytes), human.OneIn(row.FPR))
	}
	t.writeTo(b, 0)
}
