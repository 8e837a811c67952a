package testweb

import (
	"fmt"
	"strings"
)

// calendar is a hardship: each month links to the next one without end. There is a
// calendar with the month in the path, and one with the month in the query. They begin
// near the last month that a correct crawl follows, because a crawl of many months
// takes long. One link leads to a month before 1900.
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
		s.trap = func(path string) *resource {
			var year, month int
			for _, format := range []string{"/cal/%d/%d/", "/cal?year=%d&month=%d"} {
				if n, _ := fmt.Sscanf(path, format, &year, &month); n == 2 {
					year, month = year+month/12, month%12+1
					return newResource().html(fmt.Sprintf("/cal/%d/%02d/", year, month), fmt.Sprintf("/cal?year=%d&month=%d", year, month))
				}
			}
			return nil
		}
	},
}

// maxYearsAhead is the maximum number of years from now to the date in a URL that a
// correct crawl follows. docs/reference/web-policy.md describes this limit and those of
// the other traps.
const maxYearsAhead = 5

// sessions is a hardship: each page has links with new session ids, in their paths or
// queries. Without session ids, there are only five pages.
var sessions = hardship{
	bit: Sessions, name: "sessions",
	doc: "session ids in paths and queries",
	corner: func(c *corners) {
		s := c.site("sessions.corner.test")
		paths := []string{"/", "/list", "/list/item?id=7", "/cart?step=1&all=yes", "/deep/er/"}
		for from, path := range paths {
			var links []string
			for to, target := range paths {
				id := strings.ToUpper(fmt.Sprintf("%016x", mix(uint64(from*len(paths)+to+1))))
				links = append(links, withSessions(target, id)...)
			}
			if s.page(path, links...); from == 0 {
				c.entry("http://sessions.corner.test/?PHPSESSID=0")
			}
		}
	},
}

// withSessions returns spellings of a path that contain a session id.
func withSessions(path, id string) (all []string) {
	file, query, hasQuery := strings.Cut(path, "?")
	begin, end := "?", ""
	if hasQuery {
		begin, end = "?"+query+"&", "&"+query
	}
	if !strings.HasSuffix(file, "/") {
		all = append(all, strings.TrimSuffix(file+";jsessionid="+id+"?"+query, "?"))
	}
	return append(all, file+begin+"PHPSESSID="+id, file+"?sid="+id+end, file+"?ASPSESSIONIDQX="+id+end, file+begin+"CFID=7&cftoken="+id)
}

// tracking is a hardship: links to one page in many spellings. They differ in campaign
// parameters, fragment, case, port, user, dots or escapes.
var tracking = hardship{
	bit: Tracking, name: "tracking",
	doc: "one page under forty spellings: tracking parameters, fragments, escapes",
	corner: func(c *corners) {
		const host = "tracking.corner.test"
		s := c.site(host)
		var links []string
		for i, mark := range strings.Fields("utm_source utm_medium utm_campaign utm_term utm_content utm_id UTM_Source gclid fbclid msclkid yclid mc_cid mc_eid") {
			links = append(links, fmt.Sprintf("/one/page?a=1&b=2&%s=%d", mark, i), fmt.Sprintf("/one/page?%s=x%d&a=1&b=2", mark, i))
		}
		links = append(links,
			"/one/page?a=1&b=2", "/one/page?a=1&b=2#top", "/one/page?a=1&b=2#!/x", "one/./page?a=1&b=2", "/one/two/../page?a=1&b=2",
			"//TRACKING.Corner.test/one/page?a=1&b=2", "HTTP://"+host+":80/one/page?a=1&b=2", "http://me:secret@"+host+"/one/page?a=1&b=2",
			"/%6Fne/p%61ge?%61=1&b=2", "/one\\page?a=1&b=2", "  /one/pa\tge?a=1&b=2\n", "/one/%2e/page?a=1&b=2", "/one/x/%2E%2e/page?a=1&b=2",
			"http:/one/page?a=1&b=2", "http:one/page?a=1&b=2",
		)
		s.enter("/", links...)
		s.pages("/one/page?a=1&b=2")
	},
}

// facets is a hardship: a shop whose pages add more and more filters to the query. Each
// page with n filters links to two pages with n+8 filters, so that a crawl reaches the
// limit after a few pages.
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
		s.trap = func(path string) *resource {
			query, is := strings.CutPrefix(path, "/shop?f0=")
			if !is {
				return nil
			}
			return newResource().html(links("f0=" + query)...)
		}
	},
}

// maxParameters is the maximum number of parameters in the query of a URL that a
// correct crawl follows.
const maxParameters = 32

// repeatedPaths is a hardship: the leading slash of a link is missing, so that the link
// leads deeper on each page.
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
		s.trap = func(path string) *resource {
			if strings.Count(path, "a/b/") <= maxRepeats {
				return nil
			}
			return newResource().html("a/b/")
		}
	},
}

// maxRepeats is the maximum number of times that a path can contain the same segment.
const maxRepeats = 4

// longURLs is a hardship: pages with a link that is longer than the page's own URL, and
// links whose length is at the limit or beyond it.
var longURLs = hardship{
	bit: LongURLs, name: "long-urls",
	doc: "URLs that grow without end, or are too long at once",
	corner: func(c *corners) {
		const host = "long.corner.test"
		s := c.site(host)
		longest := "/at/" + strings.Repeat("x", maxURLBytes-len("http://"+host+"/at/"))
		s.enter("/", "/grows/", longest, longest+"x", "/much/"+strings.Repeat("x", 100_000)).refuses("too_long", 2)
		s.pages(longest)
		const piece = "0123456789/0123456789/" // changed for each page, so that no segment repeats
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
		s.trap = func(path string) *resource {
			if len("http://"+host+path) <= maxURLBytes {
				return nil
			}
			return newResource().html("and-on/")
		}
	},
}

// maxURLBytes is the length of the longest URL that a correct crawl follows.
const maxURLBytes = 2048
