package main

import (
	"reflect"
	"strings"
	"testing"
)

// TestDocumentIsComplete checks that outcomesOf returns the outcomes from which a document
// was made, and that no line is too long.
func TestDocumentIsComplete(t *testing.T) {
	long := strings.Repeat("words that fill a line ", 20)
	want := map[string]outcome{
		proofs[0].title: {
			date: "2026-11-23", commit: "abc-dirty", machine: "go1.26.8, 2 cores", tests: 3, seconds: 12,
			figures: []string{"`TestA`: records: 7, " + strings.TrimSpace(long), "`TestB/x`: claimed 7 of 9"},
			notes:   []string{strings.TrimSpace(long), "another"},
		},
		proofs[2].title: {date: "2026-11-22", commit: "def", machine: "another", failed: []string{"TestA", "TestB/x"}},
	}
	page := document(want)
	if got := outcomesOf(page); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v\nfrom\n%s", got, want, page)
	}
	if again := document(outcomesOf(page)); again != page {
		t.Errorf("written again the page is\n%s\nwant\n%s", again, page)
	}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") && len([]rune(line)) > 120 {
			t.Errorf("a line is too long: %s", line)
		}
	}
	for _, line := range []string{
		"| " + proofs[0].title + " | " + proofs[0].size + " | abc-dirty | A | pass, 3 tests in 12 s |\n",
		"| " + proofs[2].title + " | " + proofs[2].size + " | def | B | **FAIL** |\n",
		"\nResult: **FAIL**: TestA, TestB/x.\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("%q is missing in\n%s", line, page)
		}
	}
}
