package fetcher

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/extract"
)

// These limits bound the memory of links that wait for Config.Edges. An ordinary page has 40,000 links when
// it reaches its limit. All 50,000 URLs of a sitemap take 16 MiB if each has 270 bytes.
const (
	maxEdgeBytes    = 8 << 20  // of a page
	maxSitemapBytes = 16 << 20 // of a sitemap
)

// addEdges adds the links of a page, or of a piece of it, to those that Config.Edges stores. It
// leaves out links for which there is no memory. The argument nofollow reports whether a header of the answer asks to
// follow none.
func (v *visited) addEdges(page *extract.Page, nofollow bool) {
	more := int64(0)
	for i, text := range page.LinkTexts {
		more += edgeSize + int64(len(page.Links[i].URL.String())+len(text.Text)+len(text.Rel))
	}
	if !v.holdEdges(more, maxEdgeBytes) {
		return
	}
	for i, text := range page.LinkTexts {
		link := &page.Links[i]
		v.edges = append(v.edges, record.Edge{Target: link.URL.String(), Text: text.Text, Rel: text.Rel, Kind: link.Kind.String(), Nofollow: nofollow || page.Nofollow || link.Nofollow})
	}
}

// addListed adds a URL of a sitemap to the links that Config.Edges stores, if there is memory for it.
func (v *visited) addListed(url canon.URL) {
	if v.cfg.Edges == nil {
		return
	}
	if target := url.String(); v.holdEdges(edgeSize+int64(len(target)), maxSitemapBytes) {
		v.edges = append(v.edges, record.Edge{Target: target, Kind: record.KindSitemap})
	}
}

// sortEdges sorts the URLs of a sitemap and removes those that it lists again.
func (v *visited) sortEdges() {
	slices.SortFunc(v.edges, func(a, b record.Edge) int { return cmp.Compare(a.Target, b.Target) })
	v.edges = slices.Compact(v.edges)
}

// edgeSize is the memory of an Edge, apart from its texts.
const edgeSize = int64(unsafe.Sizeof(record.Edge{}))

// holdEdges reserves memory for links, and as much for the lines that Config.Edges makes of them. It returns false if there is none, or if all links would take more
// than the argument most; then v.edgesCut is set, and later links get no memory either.
func (v *visited) holdEdges(more, most int64) bool {
	v.edgesCut = v.edgesCut || v.edgeBytes+more > most || more > 0 && !v.growShare(2*more)
	if !v.edgesCut {
		v.edgeBytes += more
	}
	return !v.edgesCut
}
