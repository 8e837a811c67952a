package testweb

import "fmt"

// calendar is a hardship: each month links to the next one without end, in the
// path and in the query. The calendar begins near the last month that a correct
// crawl follows, because a crawl of many months takes long. One link leads to a
// month before 1900.
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
		s.beyond = func(path string) *resource {
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

// maxYearsAhead is how many years ahead the date in a URL may be. This limit and
// those of the other traps are in docs/reference/web-policy.md.
const maxYearsAhead = 5
