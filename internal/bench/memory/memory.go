// Package memory measures the memory or disk that a remembered or queued URL takes. It
// compares the result with `crawler size`, with the least size that is possible in theory
// (the information bound), and with common alternatives.
//
// It owns the compared stores and the method of each measurement: the allocated bytes of
// Go's heap or of Redis, the size of a relation in Postgres, or the size of a directory.
// Package sizing predicts the results.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/sizing"
)

// Subject is one way to store URLs.
type Subject struct {
	Name string
	Ours bool    // a store of this module, whose size must be within tolerance of Predict
	FPR  float64 // false-positive rate; 0 means an exact store
	Most uint64  // the maximum number of items that are measured; 0 means no limit
	// Weigh stores n items, returns the bytes that all of them take, and removes them.
	Weigh weigh
	By    string // the method of measurement
	// Predict returns the least and the most bytes of n items according to package
	// sizing. It is nil if package sizing makes no prediction.
	Predict func(n uint64) (least, most uint64)
}

type weigh func(ctx context.Context, n uint64) (bytes float64, err error)

// exactly returns a Predict function whose interval is a single value.
func exactly(bytes func(n uint64) uint64) func(n uint64) (least, most uint64) {
	return func(n uint64) (uint64, uint64) { return bytes(n), bytes(n) }
}

// tolerance is the allowed relative difference between the size of our stores and the
// prediction of `crawler size`.
const tolerance = 0.10

// urlHosts is the default number of hosts.
const urlHosts = 1000

// urls returns n URLs of the given number of hosts.
func urls(n, hosts uint64) sets.Range { return sets.Range{N: n, Hosts: hosts, Run: 1} }

// maxItems is the maximum number of items in a store that takes a few hundred bytes for
// each.
const maxItems = 10_000_000

// smallest is the number of items of the first measurement.
const smallest = 100_000

// Section returns the section of the measurement, with its steps: small sizes first. The
// argument keys is the number of keys in the largest measurement; 0 means a million.
func Section(keys uint64, subjects []Subject) *report.Section {
	section := &report.Section{Name: "memory", Title: "Memory for each URL", About: fmt.Sprintf(
		`Each store gets as many URLs as it is made for, all different, of %d bytes. The column "by" says how its size is
measured:

* heap: growth of Go's heap. Many copies of a small set are made, so that the other allocations of the program do not
  matter
* used_memory: of Redis, without the buffers of clients
* pg_total_relation_size: of the tables in Postgres
* files: bytes of a directory

The bound is the least size of a set with that rate of errors, log2(1/p) bits. An exact set has no bound, because it
stores the keys themselves. The memory that a Redis needs once for all crawls (scripts) is not counted, and neither is
its slow log. The crawler's own stores must be within %.0f %% of what crawler size calculates.`, sets.URLBytes, 100*tolerance)}
	promise := section.Promise(fmt.Sprintf("memory is within %.0f %% of what `crawler size` says", 100*tolerance))
	for _, n := range report.Sizes(smallest, cmp.Or(keys, 1_000_000)) {
		items := report.Count(n).Text + " items"
		table := section.Table(items, "store", "p", "bytes each", "by", "crawler size", "measured / predicted", "bound", "times the bound")
		for _, s := range subjects {
			name := s.Name + ", " + items
			if s.Most > 0 && n > s.Most {
				section.Miss(name, "too large to be weighed: up to "+report.Count(s.Most).Text)
				continue
			}
			section.Step(name, func(ctx context.Context, turn *report.Turn) error {
				bytes, err := s.Weigh(ctx, n)
				if err == nil {
					s.report(turn, table, promise, n, bytes)
				}
				return err
			})
		}
	}
	return section
}

// report adds the row of a store, and checks the promise.
func (s *Subject) report(turn *report.Turn, table *report.Table, promise *report.Promise, n uint64, bytes float64) {
	each := bytes / float64(n)
	turn.Found("%.4g bytes each by %s", each, s.By)
	rate, bound, times := report.Words("exact"), report.Words("–"), report.Words("–")
	if s.FPR > 0 {
		least := sizing.InformationBound(s.FPR) / 8
		rate, bound, times = report.Number(s.FPR, 3), report.Number(least, 3), report.Fixed(each/least, 2)
	}
	predicted, share := report.Words("–"), report.Words("–")
	if s.Predict != nil {
		least, most := s.Predict(n)
		low, high := float64(least), float64(most)
		predicted = report.Number(low/float64(n), 4)
		if low < high {
			predicted = report.Words(fmt.Sprintf("%.4g to %.4g", low/float64(n), high/float64(n)))
		}
		turn.Found("%.4g bytes each by %s, predicted %s", each, s.By, predicted.Text)
		of := min(max(bytes, low), high) // the nearest value of the predicted interval
		share = report.Fixed(bytes/of, 3)
		if s.Ours {
			off := bytes/of - 1
			promise.Hold(math.Abs(off) <= tolerance, "%s: %d items take %.4g bytes each, %+.1f %% of the %.4g that crawler size says",
				s.Name, n, each, 100*off, of/float64(n))
		}
	}
	table.Row(report.Words(s.Name), rate, report.Number(each, 4), report.Words(s.By), predicted, share, bound, times)
}
