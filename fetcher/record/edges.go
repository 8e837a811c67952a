package record

import "bytes"

// Edge is a link from a page to another URL. docs/reference/links.md describes
// its fields.
type Edge struct {
	Target string `json:"target"`         // canonical URL
	Text   string `json:"text,omitempty"` // of the anchor
	Rel    string `json:"rel,omitempty"`
	Kind   string `json:"kind"` // extract.Kind: the element that has the link; or KindSitemap
	// Nofollow says that the page asks not to follow the link: all elements with the link, a robots meta tag or a header.
	Nofollow bool `json:"nofollow,omitempty"`
}

// KindSitemap is the Edge.Kind of a URL that a sitemap lists. The sitemap is the source of the Edge.
const KindSitemap = "sitemap"

// PageLinks is one line of the series Links: links of one page, found in one round. A page
// with many links has several lines, parts 0, 1 and so on.
type PageLinks struct {
	Source string `json:"source"` // canonical URL of the page
	ID     string `json:"id"`     // of the page's record
	Round  int    `json:"round"`  // as in the record
	Part   int    `json:"part"`
	Links  []Edge `json:"links"`
}

// EdgeSink receives the links of pages. The links of a page are appended before its record.
type EdgeSink interface {
	AppendEdges(r *Record, edges []Edge) error
}

var (
	_ EdgeSink = (*Files)(nil)
	_ EdgeSink = (*Journal)(nil)
)

// These limits bound the length of a line, because readers hold a whole line in memory.
const (
	edgesPerLine = 1000
	edgeBytes    = 1 << 20
)

// appendEdges appends the lines of a page's links. If leased is true, each line
// contains the lease under which it was written.
func (r *Record) appendEdges(b []byte, edges []Edge, leased bool) ([]byte, error) {
	for part := 0; len(edges) > 0; part++ {
		n, size := 0, 0
		for n < len(edges) && n < edgesPerLine && size < edgeBytes {
			size += len(edges[n].Target) + len(edges[n].Text)
			n++
		}
		var err error
		if b, err = appendOpen(b, PageLinks{r.URL, r.ID, r.Round, part, edges[:n]}); err != nil {
			return b, err
		}
		edges = edges[n:]
		if leased {
			b = r.appendLease(b)
		} else {
			b = append(b, "}\n"...)
		}
	}
	return b, nil
}

// EdgeLines returns the lines of a page's links, without line feeds.
func (r *Record) EdgeLines(edges []Edge) ([][]byte, error) {
	text, err := r.appendEdges(nil, edges, false)
	lines := bytes.Split(text, []byte("\n"))
	return lines[:len(lines)-1], err // the text ends with a line feed
}

// AppendEdges implements EdgeSink for an output of the series Links.
func (f *Files) AppendEdges(r *Record, edges []Edge) error {
	return f.append(func(b []byte) ([]byte, error) { return r.appendEdges(b, edges, false) })
}

// AppendEdges implements EdgeSink for a journal of the series Links. If a void line
// cancels a record, the links of the record do not count either.
func (j *Journal) AppendEdges(r *Record, edges []Edge) (err error) {
	j.files.buffer, err = r.appendEdges(j.files.buffer, edges, true)
	return err
}

// edgesPrefix begins a line of the series Links.
const edgesPrefix = `{"source":`
