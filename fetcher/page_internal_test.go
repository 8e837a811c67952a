package fetcher

import "testing"

// TestDocumentOfNoHTML: the document of a page that is not HTML is empty.
func TestDocumentOfNoHTML(t *testing.T) {
	document := new(Page).Document()
	if document == nil || document.Find("h1").First().Text() != "" {
		t.Errorf("the document is %v, want an empty one", document)
	}
}
