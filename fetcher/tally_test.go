package fetcher

import (
	"testing"

	"github.com/bloomfrontier/crawler/internal/topk"
)

// TestMergeHostCounts: the counts of several runs can be merged, even if the stored counts
// of a run lack some of the sketches.
func TestMergeHostCounts(t *testing.T) {
	all, run := NewHostCounts(), NewHostCounts()
	run.Pages.Add("a.test", 2)
	run.Examples.Add(Examples{"reset": {{URL: "http://a.test/1"}, {URL: "http://a.test/1"}, {URL: "http://a.test/2"}}})
	all.Merge(run)
	all.Merge(HostCounts{Pages: topk.New(1)})
	all.Merge(run)
	if all.Pages.Count("a.test") != 4 || all.Errors.Total() != 0 || run.Pages.Count("a.test") != 2 {
		t.Errorf("%+v merged twice gives %+v, want twice its counts", run, all)
	}
	all.Examples.Add(Examples{"reset": {{URL: "http://a.test/3"}, {URL: "http://a.test/4"}}})
	if got := all.Examples["reset"]; len(got) != 3 || got[2].URL != "http://a.test/3" || len(run.Examples["reset"]) != 2 {
		t.Errorf("examples %+v, want those of three URLs", got)
	}
}
