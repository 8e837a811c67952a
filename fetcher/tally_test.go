package fetcher

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/internal/topk"
)

// TestKindOf: errors with different hosts and addresses have the same kind.
func TestKindOf(t *testing.T) {
	for cause, want := range map[string]string{
		"connect: dial tcp 203.0.113.7:443: connect: connection refused":                        "connection refused",
		"connect: lookup nosuch.invalid: no such host":                                          "no such host",
		"tls: tls: failed to verify certificate: x509: certificate signed by unknown authority": "certificate signed by unknown authority",
		"status 503 Service Unavailable":                                                        "status 503 Service Unavailable",
		"":                                                                                      "",
		"header: ":                                                                              "",
		"x: " + strings.Repeat("ä", 60):                                                         strings.Repeat("ä", 49) + "?",
	} {
		if got := kindOf(cause); got != want {
			t.Errorf("kindOf(%q) = %q, want %q", cause, got, want)
		}
	}
}

// TestMergeHostCounts: the counts of several runs can be merged, even if the stored counts
// of a run lack some of the sketches.
func TestMergeHostCounts(t *testing.T) {
	all, run := NewHostCounts(), NewHostCounts()
	run.Pages.Add("a.test", 2)
	run.ByCause.Add("EOF", 1)
	all.Merge(run)
	all.Merge(HostCounts{Pages: topk.New(1)})
	all.Merge(run)
	if all.Pages.Count("a.test") != 4 || all.ByCause.Count("EOF") != 2 || all.Errors.Total() != 0 || run.Pages.Count("a.test") != 2 {
		t.Errorf("%+v merged twice gives %+v, want twice its counts", run, all)
	}
}
