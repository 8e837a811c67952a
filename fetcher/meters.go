package fetcher

import (
	"math"
	"slices"
	"sync/atomic"

	"github.com/bloomfrontier/crawler/fetcher/get"
)

// Meters are counts of a worker's requests for pages, for monitoring.
type Meters struct {
	// Answers counts the answers by the first digit of their status, from 1 to 5, and at 0 the requests without an answer.
	// Other statuses count as 5.
	Answers [6]uint64
	Latency Histogram // seconds from the request to the header of its answer
	Bytes   Histogram // of bodies, decompressed
}

// Histogram is a distribution of values.
type Histogram struct {
	Bounds []float64 // upper bounds of the buckets, inclusive, increasing
	Counts []uint64  // values up to each bound, cumulative; and last, all values
	Sum    float64
}

// latencyBounds are in seconds, byteBounds in bytes.
var (
	latencyBounds = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20}
	byteBounds    = []float64{1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 10 << 20}
)

// meters counts for Meters. It is safe for concurrent use.
type meters struct {
	answers [6]atomic.Uint64
	latency histogram
	bytes   histogram
}

// histogram counts values in at most mostBounds buckets, and one for larger values.
type histogram struct {
	counts [mostBounds + 1]atomic.Uint64 // not cumulative
	sum    atomic.Uint64                 // the bits of a float64
}

const mostBounds = 12

func (h *histogram) add(bounds []float64, value float64) {
	n, _ := slices.BinarySearch(bounds, value)
	h.counts[n].Add(1)
	for {
		sum := h.sum.Load()
		if h.sum.CompareAndSwap(sum, math.Float64bits(math.Float64frombits(sum)+value)) {
			return
		}
	}
}

func (h *histogram) read(bounds []float64) Histogram {
	all := Histogram{Bounds: bounds, Sum: math.Float64frombits(h.sum.Load())}
	total := uint64(0)
	for n := range len(bounds) + 1 {
		total += h.counts[n].Load()
		all.Counts = append(all.Counts, total)
	}
	return all
}

// note counts a request for a page.
func (m *meters) note(answer *get.Response, err error) {
	switch {
	case err == nil:
		class := answer.Status / 100
		if class < 1 || class > 5 {
			class = 5
		}
		m.answers[class].Add(1)
		m.latency.add(latencyBounds, answer.Latency.Seconds())
		m.bytes.add(byteBounds, float64(len(answer.Body)))
	case !get.Classify(err).Aborted:
		m.answers[0].Add(1)
	}
}

// Meters returns the present counts. They are read one after the other, so they may differ by a few requests.
func (c *Crawl) Meters() Meters {
	t := &c.tally.meters
	m := Meters{
		Latency: t.latency.read(latencyBounds),
		Bytes:   t.bytes.read(byteBounds),
	}
	for class := range t.answers {
		m.Answers[class] = t.answers[class].Load()
	}
	return m
}
