package fetcher

import (
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
)

// TestRecordsHaveTheirClass: the record of a bulk URL has no class. All other records name
// the class of their URL. The classes after frontier.Listed belong to rules, and have the
// names of these rules.
func TestRecordsHaveTheirClass(t *testing.T) {
	rules, err := exact.NewRules(exact.Rule{Text: "seeds"}, exact.Rule{Text: "host=*.test"}, exact.Rule{Name: "prices", Text: "re=price"})
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[frontier.Class]string{
		frontier.Bulk: "", frontier.Exact: "exact", frontier.Sitemap: "sitemap", frontier.Listed: "listed",
		frontier.Listed + 1: "host=*.test", frontier.Listed + 2: "prices",
	} {
		h := holding{Crawl: &Crawl{cfg: Config{Exact: rules}}}
		if got := h.newRecord(frontier.Item{Class: class}, h.deadline).Class; got != want {
			t.Errorf("the record of an item of class %v has class %q, want %q", class, got, want)
		}
	}
}
