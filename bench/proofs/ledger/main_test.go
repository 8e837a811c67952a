package main

import (
	"maps"
	"testing"
)

// TestDocument: what is taken apart is put together again.
func TestDocument(t *testing.T) {
	want := map[string]string{
		proofs[0].title: "A claim.\n\nRun on a day.\n\n```\ngo test\n```\n\n* Test: **pass**\n",
		proofs[2].title: "Another.\n",
	}
	got := sectionsOf(document(want))
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if document(got) != document(want) {
		t.Error("the order is another")
	}
}
