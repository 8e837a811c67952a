package report_test

import (
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// TestTimeline: a timeline of any length is bounded, keeps its first and its last moments, and its rates are those of the
// counters. A time in which the crawl did not run is a gap.
func TestTimeline(t *testing.T) {
	var line report.Timeline
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := begun
	for second := range 100_000 {
		at = begun.Add(time.Duration(second) * time.Second)
		line.Add(report.Moment{Time: at, Pages: uint64(10 * second), Bytes: uint64(1000 * second)})
	}
	n := len(line.Moments)
	if n > report.MaxMoments || n < report.MaxMoments/2 {
		t.Errorf("%d moments, want %d to %d", n, report.MaxMoments/2, report.MaxMoments)
	}
	if first, last := line.Moments[0].Time, line.Moments[n-1].Time; first != begun || at.Sub(last) > time.Duration(line.Every) {
		t.Errorf("moments from %v to %v, want from %v to %v", first, last, begun, at)
	}
	for _, r := range line.Rates() {
		if r.Gap || r.PagesPerSecond != 10 || r.BytesPerSecond != 1000 {
			t.Fatalf("rates are %+v, want 10 pages/s and 1000 bytes/s", r)
		}
	}
	later := at.Add(10 * time.Duration(line.Every))
	line.Add(report.Moment{Time: later, Pages: 1_000_000})
	rates := line.Rates()
	if !rates[len(rates)-1].Gap {
		t.Errorf("after a pause of ten intervals: %+v, want a gap", rates[len(rates)-1])
	}
}
