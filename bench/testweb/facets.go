package testweb

import (
	"fmt"
	"strings"
)

// facets is a hardship: a shop whose pages add more and more filters to the
// query. Each page with n filters links to two pages with n+8, so that a crawl
// reaches the limit after few pages.
var facets = hardship{
	bit: Facets, name: "facets",
	doc: "a shop whose pages add parameters to the query without end",
	corner: func(c *corners) {
		const step = 8
		s := c.site("facets.corner.test")
		further := func(query string, side int) string {
			filters := strings.Split(query, "&")
			if query == "" {
				filters = nil
			}
			for range step {
				filters = append(filters, fmt.Sprintf("f%d=%c", len(filters), 'a'+side))
			}
			return strings.Join(filters, "&")
		}
		links := func(query string) (links []string) {
			return []string{"?" + further(query, 0), "?" + further(query, 1)}
		}
		s.enter("/shop", links("")...)
		var fill func(query string, filters int)
		fill = func(query string, filters int) {
			for side := range 2 {
				next := further(query, side)
				p := s.page("/shop?"+next, links(next)...)
				if filters+step < maxParameters {
					fill(next, filters+step)
				} else {
					p.refuses("parameters", 2)
				}
			}
		}
		fill("", 0)
		s.beyond = func(path string) *resource {
			query, is := strings.CutPrefix(path, "/shop?f0=")
			if !is {
				return nil
			}
			return newResource().html(links("f0=" + query)...)
		}
	},
}

// maxParameters is the largest number of parameters of a query that a correct
// crawl follows.
const maxParameters = 32
