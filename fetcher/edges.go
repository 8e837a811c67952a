package fetcher

import (
	"unsafe"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// maxEdgeBytes bounds the memory of the links of one page that wait for Config.Edges. An ordinary
// page has 40,000 links when it reaches this limit.
const maxEdgeBytes = 8 << 20

// addEdges adds the links of a page, or of a piece of it, to those that Config.Edges stores. It
// leaves out links for which there is no memory.
func (v *visited) addEdges(page *extract.Page) {
	more := int64(0)
	for i, text := range page.LinkTexts {
		more += int64(unsafe.Sizeof(record.Edge{})) + int64(len(page.Links[i].URL.String())+len(text.Text)+len(text.Rel))
	}
	v.edgesCut = v.edgesCut || v.edgeBytes+more > maxEdgeBytes || more > 0 && !v.hold(more)
	if v.edgesCut {
		return
	}
	v.edgeBytes += more
	for i, text := range page.LinkTexts {
		link := &page.Links[i]
		v.edges = append(v.edges, record.Edge{Target: link.URL.String(), Text: text.Text, Rel: text.Rel, Kind: link.Kind.String()})
	}
}
