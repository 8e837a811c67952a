package links

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/bloomfrontier/crawler/crawl/table"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// pageLinks yields the links of pages, without the URLs of sitemaps.
func (s Source) pageLinks() iter.Seq2[Link, error] {
	return func(yield func(Link, error) bool) {
		for link, err := range s.Links() {
			if link.Kind != record.KindSitemap && !yield(link, err) || err != nil {
				return
			}
		}
	}
}

// WriteCSV writes the graph as a table of edges with the columns Source and Target, in
// the form that Gephi and networkx read. As in every CSV file of the crawler, no spreadsheet
// takes a part of a URL for a formula: see table.EscapeFormulas.
func (s Source) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	err := out.Write([]string{"Source", "Target"})
	for link, linkErr := range s.pageLinks() {
		if linkErr != nil {
			return linkErr
		}
		if err != nil {
			return err
		}
		err = out.Write([]string{table.EscapeFormulas(link.Source), table.EscapeFormulas(link.Target)})
	}
	out.Flush()
	return out.Error()
}

// WriteGEXF writes the graph as GEXF 1.2, the newest version that networkx reads (2.8.8 and 3.6.1). It has a node for each URL that has a record
// or is the target of a link, and an edge for each link. WriteGEXF reads the records
// once and the links twice. For each URL it keeps a hash of 16 bytes, which takes about
// 40 bytes of memory.
func (s Source) WriteGEXF(w io.Writer) error {
	g := gexf{out: bufio.NewWriterSize(w, 256<<10), seen: make(map[[16]byte]struct{})}
	g.print(`<?xml version="1.0" encoding="UTF-8"?>
<gexf xmlns="http://www.gexf.net/1.2draft" version="1.2">
<graph defaultedgetype="directed" idtype="string">
<attributes class="node"><attribute id="status" title="status" type="integer"/><attribute id="outcome" title="outcome" type="string"/></attributes>
<nodes>
`)
	for r, err := range s.Records() {
		if err != nil {
			return err
		}
		g.node(r.URL, r.Title, r.Status, r.Outcome)
	}
	for link, err := range s.pageLinks() {
		if err != nil {
			return err
		}
		g.node(link.Target, "", 0, "")
	}
	g.print("</nodes>\n<edges>\n")
	id := 0
	for link, err := range s.pageLinks() {
		if err != nil {
			return err
		}
		if !g.has(link.Source) || !g.has(link.Target) {
			continue // a running crawl added this link after the nodes were written
		}
		id++
		g.print(fmt.Sprintf(`<edge id="%d" source="%s" target="%s" label="%s"/>`+"\n", id, escaped(link.Source), escaped(link.Target), escaped(link.Text)))
	}
	g.print("</edges>\n</graph>\n</gexf>\n")
	return g.out.Flush()
}

type gexf struct {
	out  *bufio.Writer // Flush returns the first error
	seen map[[16]byte]struct{}
}

func (g *gexf) print(text string) { _, _ = g.out.WriteString(text) }

func keyOf(url string) [16]byte {
	sum := sha256.Sum256([]byte(url))
	return [16]byte(sum[:16])
}

// has reports whether the node of a URL has been written.
func (g *gexf) has(url string) bool {
	_, there := g.seen[keyOf(url)]
	return there
}

// node writes the node of a URL, unless it has been written before.
func (g *gexf) node(url, title string, status int, outcome string) {
	if g.has(url) {
		return
	}
	g.seen[keyOf(url)] = struct{}{}
	if title == "" {
		title = url
	}
	g.print(fmt.Sprintf(`<node id="%s" label="%s"`, escaped(url), escaped(title)))
	if outcome == "" {
		g.print("/>\n")
		return
	}
	g.print("><attvalues>")
	if status > 0 {
		g.print(fmt.Sprintf(`<attvalue for="status" value="%d"/>`, status))
	}
	g.print(fmt.Sprintf(`<attvalue for="outcome" value="%s"/></attvalues></node>`+"\n", escaped(outcome)))
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder returns no error
	return b.String()
}
