package testweb

import (
	"fmt"
	"strings"
)

// longURLs is a hardship: pages whose link is longer than their own URL, and
// links at and beyond the limit of length.
var longURLs = hardship{
	bit: LongURLs, name: "long-urls",
	doc: "URLs that grow without end, or are too long at once",
	corner: func(c *corners) {
		const host = "long.corner.test"
		s := c.site(host)
		longest := "/at/" + strings.Repeat("x", maxURLBytes-len("http://"+host+"/at/"))
		s.enter("/", "/grows/", longest, longest+"x", "/much/"+strings.Repeat("x", 100_000)).refuses("too_long", 2)
		s.pages(longest)
		const piece = "0123456789/0123456789/" // made different for each page: no segment repeats
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
		s.beyond = func(path string) *resource {
			if len("http://"+host+path) <= maxURLBytes {
				return nil
			}
			return newResource().html("and-on/")
		}
	},
}

// maxURLBytes is the length of the longest URL that a correct crawl follows.
const maxURLBytes = 2048
