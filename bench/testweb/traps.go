package testweb

import (
	"fmt"
	"strings"
)

// The limits that a correct crawl has: docs/web-policy.md.
const (
	maxURLBytes   = 2048
	maxRepeats    = 4
	maxParameters = 32
	maxYearsAhead = 5
)

// calendar: each month links to the next one, for ever, in the path and in the
// query. It begins near the last month that is followed, for to crawl years of
// months takes long. One link leads to before 1900.
var calendar = hardship{
	bit: Calendar, name: "calendar",
	doc: "calendars whose next month never ends, in path and query",
	corner: func(c *corners) {
		s := c.site("calendar.corner.test")
		last := c.year + maxYearsAhead
		s.enter("/", fmt.Sprintf("/cal/%d/09/", last), fmt.Sprintf("/cal?year=%d&month=9", last), "/cal/1899/12/", "/cal/1900/01").
			refuses("calendar", 1)
		s.pages("/cal/1900/01")
		for month := 9; month <= 12; month++ {
			year, next := last, month+1
			if month == 12 {
				year, next = last+1, 1
			}
			byPath := s.page(fmt.Sprintf("/cal/%d/%02d/", last, month), fmt.Sprintf("/cal/%d/%02d/", year, next))
			byQuery := s.page(fmt.Sprintf("/cal?year=%d&month=%d", last, month), fmt.Sprintf("?year=%d&month=%d", year, next))
			if month == 12 {
				byPath.refuses("calendar", 1)
				byQuery.refuses("calendar", 1)
			}
		}
		s.beyond = func(path string) *spot {
			var year, month int
			for _, format := range []string{"/cal/%d/%d/", "/cal?year=%d&month=%d"} {
				if n, _ := fmt.Sscanf(path, format, &year, &month); n == 2 {
					year, month = year+month/12, month%12+1
					return newSpot().html(fmt.Sprintf("/cal/%d/%02d/", year, month), fmt.Sprintf("/cal?year=%d&month=%d", year, month))
				}
			}
			return nil
		}
	},
}

// facets: a shop adds one filter after the other to the query. Each page of n
// filters links to two of n+8, so that few pages come to the limit.
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
		s.beyond = func(path string) *spot {
			query, is := strings.CutPrefix(path, "/shop?f0=")
			if !is {
				return nil
			}
			return newSpot().html(links("f0=" + query)...)
		}
	},
}

// repeatedPaths: a link that lacks its leading slash leads one folder deeper
// each time.
var repeatedPaths = hardship{
	bit: RepeatedPaths, name: "repeated-paths",
	doc: "relative links that lead ever deeper: /a/b/a/b/",
	corner: func(c *corners) {
		s := c.site("repeats.corner.test")
		s.enter("/", "a/b/")
		for n := 1; n <= maxRepeats; n++ {
			p := s.page("/"+strings.Repeat("a/b/", n), "a/b/")
			if n == maxRepeats {
				p.refuses("repeated_path", 1)
			}
		}
		s.beyond = func(path string) *spot {
			if strings.Count(path, "a/b/") <= maxRepeats {
				return nil
			}
			return newSpot().html("a/b/")
		}
	},
}

// longURLs: a link that grows each time, and links at and beyond the limit.
var longURLs = hardship{
	bit: LongURLs, name: "long-urls",
	doc: "URLs that grow without end, or are too long at once",
	corner: func(c *corners) {
		const host = "long.corner.test"
		s := c.site(host)
		longest := "/at/" + strings.Repeat("x", maxURLBytes-len("http://"+host+"/at/"))
		s.enter("/", "/grows/", longest, longest+"x", "/much/"+strings.Repeat("x", 100_000)).refuses("too_long", 2)
		s.pages(longest)
		const piece = "0123456789/0123456789/" // each time with another number: no segment repeats
		path := "/grows/"
		for n := 0; ; n++ {
			next := strings.ReplaceAll(strings.Repeat(piece, 20), "/", fmt.Sprintf("-%d", n)) + "/"
			p := s.page(path, next)
			if len("http://"+host+path+next) > maxURLBytes {
				p.refuses("too_long", 1)
				break
			}
			path += next
		}
		s.beyond = func(path string) *spot {
			if len("http://"+host+path) <= maxURLBytes {
				return nil
			}
			return newSpot().html("and-on/")
		}
	},
}
