package main

import (
	"maps"
	"strings"
	"testing"
)

// TestDocumentIsComplete checks that sectionsOf returns the sections from which a document
// was made, with the paragraphs that people added, and that no line is too long.
func TestDocumentIsComplete(t *testing.T) {
	long := strings.Repeat("words that fill a line ", 20)
	first, third := proofs[0], proofs[2]
	want := map[string]string{
		first.title: first.section(outcome{
			date: "2026-11-23", commit: "abc-dirty", machine: "go1.26.8, 2 cores", tests: 3, seconds: 12,
			figures: []string{"`TestA`: records: 7, " + strings.TrimSpace(long), "`TestB/x`: claimed 7 of 9"},
		}) + "\nanother\n",
		third.title: third.section(outcome{date: "2026-11-22", commit: "def", machine: "another", failed: []string{"TestA", "TestB/x"}}),
	}
	page := document(want)
	if got := sectionsOf(page); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q\nfrom\n%s", got, want, page)
	}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") && len([]rune(line)) > 120 {
			t.Errorf("a line is too long: %s", line)
		}
	}
	for _, line := range []string{
		"\n* `TestB/x`: claimed 7 of 9\n\nanother\n",
		"| " + proofs[0].title + " | " + proofs[0].size + " | abc-dirty | A | pass, 3 tests in 12 s |\n",
		"| " + proofs[2].title + " | " + proofs[2].size + " | def | B | **FAIL** |\n",
		"\nResult: **FAIL**: TestA, TestB/x.\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("%q is missing in\n%s", line, page)
		}
	}
}
