package metrics

import (
	"os"
	"regexp"
	"slices"
	"testing"
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
