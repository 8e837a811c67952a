package testweb

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// numbered is a hardship: sites whose URLs differ in numbers. Some have an end and are crawled whole,
// others go on without saying anything new. A correct crawl requests at most mostOfSeries pages
// of each series of the endless ones.
var numbered = hardship{
	bit: Numbered, name: "numbered",
	doc: "archives, forums and shops to crawl whole, beside calendars, shops and counters without an end",
	corner: func(c *corners) {
		for _, add := range wholeSites {
			add(c)
		}
		for _, name := range slices.Sorted(maps.Keys(endlessSites)) {
			e, s := endlessSites[name], c.site(name+".endless.test")
			s.endless = e.page
			s.enter("/", e.first)
		}
	},
}

// mostOfSeries is the largest number of pages of an endless series that a correct crawl requests.
const mostOfSeries = 100

// wholeSites add the sites that have an end.
var wholeSites = []func(c *corners){archiveSite, forumSite, shopSite, directorySite, weatherSite, diarySite, gallerySite, listedSite}

// sentence returns a sentence that is the number n for a site.
func sentence(site string, n int) string {
	d := dice{mix(uint64(n)) ^ mix(uint64(len(site))<<32|uint64(site[0]))}
	pick := func(list []string) string { return list[d.intn(len(list))] }
	return fmt.Sprintf("The %s %s %s another %s %s.", pick(adjectives), pick(nouns), pick(verbs), pick(adjectives), pick(nouns))
}

// write adds a page with the given HTML between a menu and a footer.
func (s *site) write(path, title, text string, links ...string) *resource {
	return s.add(path, sought).document(title, framed(title, text, links...))
}

// framed returns a page with a menu and a footer, which are the same on each page of a site.
func framed(title, text string, links ...string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<title>%s</title>\n<ul><li><a href=\"/\">Home</a><li>About<li>Contact</ul>\n%s\n", title, text)
	for _, link := range links {
		fmt.Fprintf(&b, "<a href=\"%s\">more</a>\n", strings.ReplaceAll(link, "&", "&amp;"))
	}
	return []byte(b.String() + "<p>All rights reserved, 2019-2026. Generated in 0.0213 s.</p>\n")
}

// archiveSite is a news archive: lists for each month say only numbers, and link to the articles of the month.
func archiveSite(c *corners) {
	s := c.site("archive.whole.test")
	s.enter("/", "/archive/2010/01/")
	for month := range 120 {
		var links []string
		if month < 119 {
			links = append(links, fmt.Sprintf("/archive/%d/%02d/", 2010+(month+1)/12, (month+1)%12+1))
		}
		for n := range 4 {
			path := fmt.Sprintf("/news/%d", 4*month+n)
			links = append(links, path)
			s.write(path, "Article", "<p>"+sentence(s.host, 4*month+n)+"</p>")
		}
		s.write(fmt.Sprintf("/archive/%d/%02d/", 2010+month/12, month%12+1), "Archive", fmt.Sprintf("<h1>Archive of %d-%02d</h1>", 2010+month/12, month%12+1), links...)
	}
}

// forumSite is a forum: topics of several pages, whose authors are soon known.
func forumSite(c *corners) {
	const topics, pages = 120, 3
	s := c.site("forum.whole.test")
	s.enter("/", "/board/1?page=1")
	for user := range 10 {
		s.write(fmt.Sprintf("/user/%d", user), "User", "<p>"+nouns[user]+"</p>")
	}
	for topic := range topics {
		for page := 1; page <= pages; page++ {
			links := []string{fmt.Sprintf("/user/%d", (topic+page)%10), fmt.Sprintf("/topic/%d", topic)}
			path := links[1]
			if page > 1 {
				path += fmt.Sprintf("?page=%d", page)
			}
			if page < pages {
				links = append(links, fmt.Sprintf("/topic/%d?page=%d", topic, page+1))
			}
			post := 100 + pages*topic + page
			s.write(path, "Topic", fmt.Sprintf("<b>Posted on Monday, 12 May 2014, 10:32</b><p>%s</p>", sentence(s.host, post)), links...)
		}
		if topic%2 == 0 { // a page of the board lists two topics, by their numbers
			links := []string{fmt.Sprintf("/topic/%d", topic), fmt.Sprintf("/topic/%d", topic+1)}
			if topic+2 < topics {
				links = append(links, fmt.Sprintf("/board/1?page=%d", topic/2+2))
			}
			s.write(fmt.Sprintf("/board/1?page=%d", topic/2+1), "Board", fmt.Sprintf("<p>Page %d</p>", topic/2+1), links...)
		}
	}
}

// shopSite has 1,000 products that are described with the same words, apart from two or three.
func shopSite(c *corners) {
	const pages, each = 200, 5
	s := c.site("shop.whole.test")
	s.enter("/", "/list?page=1")
	for page := range pages {
		var links []string
		for i := range each {
			n := page*each + i
			links = append(links, fmt.Sprintf("/product/%d", n))
			name := adjectives[n%24] + " " + nouns[n/24%24] + " " + verbs[n/576]
			s.write(links[i], "Product", "<h1>"+name+"</h1><p>This product is of the best quality. Order it today, and it is yours tomorrow.</p><b>9.99</b>",
				fmt.Sprintf("/product/%d", min(n+1, pages*each-1)))
		}
		if page+1 < pages {
			links = append(links, fmt.Sprintf("/list?page=%d", page+2))
		}
		s.write(fmt.Sprintf("/list?page=%d", page+1), "Products", fmt.Sprintf("<p>Page %d of %d</p>", page+1, pages), links...)
	}
}

// directorySite has a directory for each day, which lists files by numbers only.
func directorySite(c *corners) {
	s := c.site("files.whole.test")
	s.enter("/", "/data/2001/01/01/")
	for n := range 150 {
		day := time.Date(2001, 1, 1+n, 0, 0, 0, 0, time.UTC)
		path, file := day.Format("/data/2006/01/02/"), day.Format("20060102")+".csv"
		s.add(path+file, sought).withType("text/csv").body([]byte("1,2\n")).expects("type", 200)
		links := []string{file}
		if n < 149 {
			links = append(links, day.AddDate(0, 0, 1).Format("/data/2006/01/02/"))
		}
		s.write(path, "Index", "<h1>Index of "+path+"</h1><pre>"+file+" 2001-01-02 04:00 12K</pre>", links...)
	}
}

// weatherSite says something new in numbers only.
func weatherSite(c *corners) {
	s := c.site("weather.whole.test")
	s.enter("/", "/weather/1950/01/01")
	for n := range 150 {
		day := time.Date(1950, 1, 1+n, 0, 0, 0, 0, time.UTC)
		text := day.Format("<h1>2 January 2006</h1>") + "<table>"
		for hour := range 8 {
			text += fmt.Sprintf("<tr><td>%02d:00<td>%.1f<td>%d", 3*hour, float64(mix(uint64(8*n+hour))%400)/10, 960+mix(uint64(n+9*hour))%80)
		}
		s.write(day.Format("/weather/2006/01/02"), "Weather", text+"</table>", time.Date(1950, 1, min(n+2, 150), 0, 0, 0, 0, time.UTC).Format("/weather/2006/01/02"))
	}
}

// diarySite is a chain of pages with one short sentence each.
func diarySite(c *corners) {
	s := c.site("diary.whole.test")
	s.enter("/", "/diary/1")
	for n := 1; n <= 300; n++ {
		s.write(fmt.Sprintf("/diary/%d", n), "Diary", "<p>"+sentence(s.host, n)+"</p>", fmt.Sprintf("/diary/%d", max(n-1, 1)), fmt.Sprintf("/diary/%d", min(n+1, 300)))
	}
}

// gallerySite has a new picture on each page, and the same text.
func gallerySite(c *corners) {
	s := c.site("gallery.whole.test")
	s.enter("/", "/photo/1")
	for n := 1; n <= 150; n++ {
		s.write(fmt.Sprintf("/photo/%d", n), "Photo", fmt.Sprintf("<img src=\"/i/%d.jpg\" alt=\"%s %s\">", n, adjectives[n%24], nouns[n/24]),
			fmt.Sprintf("/photo/%d", min(n+1, 150)))
	}
}

// listedSite has 200 equal pages that one page lists.
func listedSite(c *corners) {
	s := c.site("listed.whole.test")
	var links []string
	for n := range 200 {
		links = append(links, fmt.Sprintf("/print/%d", n))
		s.write(links[n], "Print", "<p>This page is being prepared.</p>")
	}
	s.enter("/", links...)
}

// endlessSite is a site without an end.
type endlessSite struct {
	first string // the path that is linked to
	// page returns the title, text and links of the page at a path, and the name of its series. An empty series
	// means that there is no such page.
	page func(path string) (series, text string, links []string)
}

var weekdays = strings.Fields("Sunday Monday Tuesday Wednesday Thursday Friday Saturday")

// endlessSites are the endless sites by name.
var endlessSites = map[string]endlessSite{
	// months that go back without end, as a table of the days
	"past": {"/calendar/2024/05/", func(path string) (string, string, []string) {
		month, err := time.Parse("/calendar/2006/01/", path)
		if err != nil {
			return "", "", nil
		}
		return "month", month.Format("<h1>January 2006</h1>") + monthTable(month), []string{
			month.AddDate(0, -1, 0).Format("/calendar/2006/01/"), month.AddDate(0, 1, 0).Format("/calendar/2006/01/"),
		}
	}},
	// months that link to their days, with names of months in the path
	"days": {"/plan/may-2020", func(path string) (string, string, []string) {
		if month, err := time.Parse("/plan/Jan-2006", path); err == nil {
			links := []string{strings.ToLower(month.AddDate(0, 1, 0).Format("/plan/Jan-2006")), strings.ToLower(month.AddDate(0, -1, 0).Format("/plan/Jan-2006"))}
			for day := month; day.Month() == month.Month(); day = day.AddDate(0, 0, 1) {
				links = append(links, day.Format("/day?d=2006-01-02"))
			}
			return "month", month.Format("<h1>Plan for January 2006</h1>") + monthTable(month), links
		}
		day, err := time.Parse("/day?d=2006-01-02", path)
		if err != nil {
			return "", "", nil
		}
		return "day", day.Format("<h1>Monday, January 2, 2006</h1><p>There are no entries.</p>"), []string{
			day.AddDate(0, 0, -1).Format("/day?d=2006-01-02"), day.AddDate(0, 0, 1).Format("/day?d=2006-01-02"),
			strings.ToLower(day.Format("/plan/Jan-2006")),
		}
	}},
	// days, with a proverb that changes
	"proverb": {"/on/2021-03-17.html", func(path string) (string, string, []string) {
		day, err := time.Parse("/on/2006-01-02.html", path)
		if err != nil {
			return "", "", nil
		}
		return "day", day.Format("<h1>Monday, 2 Jan</h1>") + "<p>" + sentence("proverb", day.YearDay()%5) + "</p>", []string{
			day.AddDate(0, 0, 1).Format("/on/2006-01-02.html"), day.AddDate(0, 0, -1).Format("/on/2006-01-02.html"),
		}
	}},
	// a shop that lists some of 20 products for each combination of its filters
	"shop": {"/shop?color=1&size=1&page=1", func(path string) (string, string, []string) {
		var color, size, page int
		if n, _ := fmt.Sscanf(path, "/shop?color=%d&size=%d&page=%d", &color, &size, &page); n == 3 {
			text := "<h1>Shop</h1>"
			links := []string{
				fmt.Sprintf("/shop?color=%d&size=%d&page=%d", color+1, size, page), fmt.Sprintf("/shop?color=%d&size=%d&page=%d", color, size+1, page),
				fmt.Sprintf("/shop?color=%d&size=%d&page=%d", color, size, page+1),
			}
			for i := range 6 {
				n := mix(uint64(color*10007+size*101+page*7+i)) % 20
				text += fmt.Sprintf("<p>%s %s</p><b>%d.99</b>", adjectives[n], nouns[n], n)
				links = append(links, fmt.Sprintf("/product/%d", n))
			}
			return "list", text, links
		}
		if n := 0; strings.HasPrefix(path, "/product/") {
			if _, err := fmt.Sscanf(path, "/product/%d", &n); err == nil && n < 20 {
				return "product", "<h1>" + adjectives[n] + " " + nouns[n] + "</h1>", nil
			}
		}
		return "", "", nil
	}},
	// a counter of visits in each link
	"counter": {"/welcome?visit=1", func(path string) (string, string, []string) {
		n := 0
		if _, err := fmt.Sscanf(path, "/welcome?visit=%d", &n); err != nil {
			return "", "", nil
		}
		return "page", fmt.Sprintf("<p>You are visitor <b>%d</b> of this site.</p>", 40_000+n),
			[]string{fmt.Sprintf("/welcome?visit=%d", n+1), fmt.Sprintf("/welcome?visit=%d", 2*n+1)}
	}},
	// a next page, and a bar with ten others, after the last result
	"next": {"/results?q=fox&start=0", func(path string) (string, string, []string) {
		n := 0
		if _, err := fmt.Sscanf(path, "/results?q=fox&start=%d", &n); err != nil {
			return "", "", nil
		}
		text, links := fmt.Sprintf("<p>Results %d to %d</p><p>Nothing was found.</p>", n, n+20), []string(nil)
		for page := n/20 + 1; page <= n/20+10; page++ {
			text += fmt.Sprintf("<i>%d</i>", page)
			links = append(links, fmt.Sprintf("/results?q=fox&start=%d", 20*page))
		}
		return "page", text, links
	}},
	// random hexadecimal numbers
	"uuid": {"/item/550e8400-e29b-41d4-a716-446655440000", func(path string) (string, string, []string) {
		id, is := strings.CutPrefix(path, "/item/")
		if !is || len(id) != 36 {
			return "", "", nil
		}
		var links []string
		for i := range 3 {
			a, b := mix(mix(uint64(len(id)+i))^hashOf(id)), mix(uint64(i)^hashOf(id))
			links = append(links, fmt.Sprintf("/item/%08x-%04x-4%03x-8%03x-%012x", uint32(a)&0x0fffffff|0x10000000, uint16(a>>32), a>>52, b>>52, b<<16>>16))
		}
		return "item", "<p>This item is not available.</p>", links
	}},
}

func hashOf(text string) (sum uint64) {
	for i := range len(text) {
		sum = mix(sum ^ uint64(text[i]))
	}
	return sum
}

func monthTable(month time.Time) string {
	text := "<table><tr>"
	for _, day := range weekdays {
		text += "<th>" + day[:2]
	}
	for day := month; day.Month() == month.Month(); day = day.AddDate(0, 0, 1) {
		text += fmt.Sprintf("<td>%d", day.Day())
	}
	return text + "</table>"
}

// endlessAt returns the page of an endless site at a path, or nil.
func (s *site) endlessAt(path string) *resource {
	if path == "/" {
		return nil
	}
	plain, err := url.PathUnescape(path)
	if err != nil {
		return nil
	}
	series, text, links := s.endless(plain)
	if series == "" {
		return nil
	}
	p := newResource().document("Page", framed("Page", text, links...))
	p.role, p.host, p.path, p.series = withoutEnd, s.host, path, s.host+" "+series
	return p
}
