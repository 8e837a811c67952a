package metrics

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
)

// TestMetricsAreDocumented: docs/reference/metrics.md lists the metrics in the order of
// families, and no others.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	name := regexp.MustCompile(`fqName: "([^"]+)"`)
	for _, f := range families {
		want = append(want, name.FindStringSubmatch(f.Desc.String())[1])
	}
	for _, row := range regexp.MustCompile("(?m)^\\* `(crawler_[a-z_]+)").FindAllStringSubmatch(string(page), -1) {
		got = append(got, row[1])
	}
	if !slices.Equal(got, want) {
		t.Errorf("docs/reference/metrics.md has\n%q\nwant\n%q", got, want)
	}
}

// TestExactGauges: the rows of exact URLs that are due are gauges: those of the store, or those in Postgres if they were counted.
func TestExactGauges(t *testing.T) {
	for _, c := range []struct {
		keys *report.ExactKeys
		want map[string]float64
	}{
		{nil, map[string]float64{exactDue.String(): 2, exactLag.String(): 60}},
		{&report.ExactKeys{Fault: "away"}, map[string]float64{}},
		{&report.ExactKeys{Due: 3, Lag: 90}, map[string]float64{exactDue.String(): 3, exactLag.String(): 90}},
	} {
		got := make(map[string]float64)
		sendExact(func(f family, value float64, _ ...string) { got[f.String()] = value }, frontier.Expired{Due: 2, Lag: time.Minute}, c.keys)
		if !maps.Equal(got, c.want) {
			t.Errorf("gauges %v, want %v", got, c.want)
		}
	}
}
