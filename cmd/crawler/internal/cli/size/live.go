package size

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/human"
	"github.com/bloomfrontier/crawler/sizing"
)

// LiveFunc returns the filter of the crawl in dir.
type LiveFunc func(ctx context.Context, dir string) (crawl.FilterState, error)

// liveReport is the report of `crawler size --dir`.
type liveReport struct {
	Dir      string                 `json:"dir"`
	Keys     uint64                 `json:"keys"`     // as the filter has counted them
	Estimate float64                `json:"estimate"` // number of keys, estimated from the fill
	StdErr   float64                `json:"stderr"`   // standard error of Estimate
	Capacity uint64                 `json:"capacity"` // of all current layers
	Bytes    uint64                 `json:"bytes"`
	FPR      float64                `json:"fpr"`                       // current probability that a new URL counts as known
	Rate     float64                `json:"rate,omitempty"`            // new URLs per second
	FullIn   float64                `json:"full_in_seconds,omitempty"` // seconds until Capacity is reached, at Rate
	Layers   []frontier.FilterLayer `json:"layers"`
}

func newLiveReport(dir string, live crawl.FilterState) liveReport {
	r := liveReport{Dir: dir, Layers: live.Layers}
	variance, absent := 0.0, 0.0 // absent is the log of the probability that no layer claims a new key
	for _, l := range live.Layers {
		// The sub-filters of a layer have unequal loads. This code ignores the
		// difference, so the estimate is too low by up to a third of a key for each of the
		// 64 sub-filters. In a filter for less than 20,000 keys this can be more than the
		// standard error.
		n, stderr := sizing.Cardinality(uint64(math.Round(l.Fill*float64(l.Bits))), l.Bits, l.Hashes)
		r.Keys += l.Keys
		r.Capacity += l.Capacity
		r.Bytes += l.Bits / 8
		r.Estimate += n
		variance += stderr * stderr
		absent += math.Log1p(-l.FPR)
	}
	r.StdErr, r.FPR = math.Sqrt(variance), -math.Expm1(absent)
	if live.Ran > 0 && live.Added > 0 {
		r.Rate = float64(live.Added) / live.Ran.Seconds()
		r.FullIn = float64(r.Capacity-min(r.Capacity, r.Keys)) / r.Rate
	}
	return r
}

// checkLive returns an error for each given flag that contradicts --dir.
func checkLive(flags *pflag.FlagSet) error {
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		if f.Name != "dir" && f.Name != "json" && f.Name != "out" {
			errs = append(errs, fmt.Errorf("--dir looks at a filter that has its size: leave out --%s", f.Name))
		}
	})
	return errors.Join(errs...)
}

// runLive prints the report of a crawl's filter.
func runLive(cmd *cobra.Command, o *options, look LiveFunc) error {
	live, err := look(cmd.Context(), o.dir)
	if err != nil {
		return err
	}
	r := newLiveReport(o.dir, live)
	return o.print(cmd.OutOrStdout(), r, r.text(live.Ran))
}

// text returns the report for people.
func (r liveReport) text(ran time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The filter of %s\n", r.Dir)
	full := "no worker runs the crawl"
	switch {
	case r.Rate > 0:
		full = fmt.Sprintf("in %s, at %.3g new URLs a second since this run began", days(r.FullIn), r.Rate)
	case ran > 0:
		full = "no new URL since this run began"
	}
	facts(&b, [][2]string{
		{"counted", fmt.Sprintf("%s of %s", human.Plural(r.Keys, "URL"), human.Commas(r.Capacity))},
		{"estimated from fill", fmt.Sprintf("%s ± %s", human.Few(r.Estimate), human.Few(r.StdErr))},
		{"p now", fmt.Sprintf("%.3g", r.FPR)},
		{"memory", human.IBytes(r.Bytes)},
		{"full", full},
	})
	t := newTable("layer", "keys", "capacity", "fill", "bits", "k", "p now", "p when full")
	for i, l := range r.Layers {
		t.row(i, human.Commas(l.Keys), human.Commas(l.Capacity), fmt.Sprintf("%.2f%%", 100*l.Fill),
			human.IBytes(l.Bits/8), l.Hashes, fmt.Sprintf("%.3g", l.FPR), fmt.Sprintf("%.3g", l.Target))
	}
	t.writeTo(&b)
	return b.String()
}
