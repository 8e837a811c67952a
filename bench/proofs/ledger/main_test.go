package main

import (
	"maps"
	"os"
	"strings"
	"testing"
)

// TestDocumentIsComplete checks that resultsOf returns the results from which a document was
// made, that the document has the claims of all proofs, and that no line is too long.
func TestDocumentIsComplete(t *testing.T) {
	first, third := proofs[0], proofs[2]
	want := map[string]result{
		first.title: {"abc-dirty", "go1.26.8, 2 cores", outcome{count: 3, seconds: 12}.String()},
		third.title: {"def", "another", outcome{failed: []string{"TestA", "TestB/x"}}.String()},
	}
	page := document(want)
	if got := resultsOf(page); !maps.Equal(got, want) {
		t.Errorf("got %q\nwant %q\nfrom\n%s", got, want, page)
	}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "|") && len([]rune(line)) > 120 {
			t.Errorf("a line is too long: %s", line)
		}
	}
	for _, line := range []string{
		"| " + first.title + " | " + first.size + " | abc-dirty | A | pass, 3 tests in 12 s |\n",
		"| " + third.title + " | " + third.size + " | def | B | **FAIL**: TestA, TestB/x |\n",
		"\n* Machine B: another\n",
		"\n## " + proofs[1].title + "\n\nThe crawl of proof 1 ",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("%q is missing in\n%s", line, page)
		}
	}
}

// TestPageIsCurrent checks that docs/proofs.md has the proofs of proofs.go and their claims.
func TestPageIsCurrent(t *testing.T) {
	page, err := os.ReadFile("../../../docs/proofs.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != document(resultsOf(string(page))) {
		t.Error("docs/proofs.md differs from proofs.go; make proof ONLY=NONE writes it again")
	}
}
