package fetcher

import (
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// TestRecordsHaveTheirClass: the record of an exact URL names its class, and
// the record of a bulk URL has none.
func TestRecordsHaveTheirClass(t *testing.T) {
	for class, want := range map[frontier.Class]string{
		frontier.Bulk: "", frontier.Exact: "exact", frontier.Sitemap: "sitemap", frontier.Listed: "listed",
	} {
		var h holding
		if got := h.newRecord(frontier.Item{Class: class}, h.deadline).Class; got != want {
			t.Errorf("the record of an item of class %v has class %q, want %q", class, got, want)
		}
	}
}
