package crawl_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// TestSampledHosts: a list of a sample has no more hosts than it was asked for, and says whether there are more. In the order
// of the oldest, each host has its oldest URL.
func TestSampledHosts(t *testing.T) {
	c, err := crawl.Open(t.Context(), crawl.Config{Dir: filepath.Join(t.TempDir(), "c.crawl")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	var seeds []string
	for i := range 40 {
		seeds = append(seeds, fmt.Sprintf("http://h%d.test/", i))
	}
	if _, err := c.Seed(t.Context(), seeds); err != nil {
		t.Fatal(err)
	}
	for sample, want := range map[int]int{5: 5, 40: 40, 100: 40} {
		for _, sort := range []string{"queued", "oldest"} {
			list, err := c.Hosts(t.Context(), crawl.HostQuery{Sort: sort, Sample: sample, Most: 100})
			if err != nil {
				t.Fatal(err)
			}
			if len(list.Hosts) != want || list.Sampled != (want < 40) {
				t.Errorf("sample %d by %s: %d hosts, sampled is %t, want %d and %t", sample, sort, len(list.Hosts), list.Sampled, want, want < 40)
			}
			if slices.ContainsFunc(list.Hosts, func(h report.Host) bool { return h.OldestURL != "http://"+h.Host+"/" }) {
				t.Errorf("sample %d by %s: a host without its oldest URL: %+v", sample, sort, list.Hosts)
			}
		}
	}
	b, err := c.Board(t.Context())
	if err != nil || b.Status.Stats.Queued != 40 || b.Status.Exact != nil || b.Report == nil {
		t.Errorf("the board is %+v (%v), want 40 queued URLs", b, err)
	}
}
