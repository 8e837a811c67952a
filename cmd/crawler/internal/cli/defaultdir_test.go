package cli

import (
	"slices"
	"strings"
	"testing"
)

// TestSeedsText: the result of seedsText has the canonical URLs of the seeds, and is short
// even for many seeds. If the seeds differ, so do the results.
func TestSeedsText(t *testing.T) {
	t.Parallel()
	if got, want := seedsText([]string{"HTTP://a.test", "no url:", "b.test/x"}, "a b"), "http://a.test/ https://b.test/x --seeds 'a b'"; got != want {
		t.Errorf("seedsText = %s, want %s", got, want)
	}
	many := slices.Repeat([]string{"http://a.test/a/long/path"}, 1000)
	one, other := seedsText(many, ""), seedsText(append(many, "http://a.test/b"), "")
	if one == other || len(one) > maxSeedsText || !strings.HasPrefix(one, "http://a.test/a/long/path http") {
		t.Errorf("seedsText of 1,000 seeds = %q, and with one more seed %q; want two texts of at most %d bytes", one, other, maxSeedsText)
	}
}
