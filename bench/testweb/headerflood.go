package testweb

import (
	"fmt"
	"strings"
)

// headers is a hardship: answers with very large headers, in one line or in many.
// A correct crawl treats an answer with a header of a megabyte as a network
// error, and accepts one of about 100 KiB. The limit is 256 KiB.
var headers = hardship{
	bit: Headers, name: "headers",
	doc: "headers of a megabyte, in one line or in many, and large but valid headers",
	corner: func(c *corners) {
		const flood = 1 << 20
		lines := func(n int) (all []string) {
			for i := range n {
				all = append(all, fmt.Sprintf("line %d of too many, which says nothing at all", i))
			}
			return all
		}
		s := c.site("headers.corner.test")
		s.enter("/", "/large", "/many")
		s.page("/large").with("X-Large", strings.Repeat("x", 100<<10))
		s.page("/many").with("X-Many", lines(1000)...)
		for _, name := range []string{"long", "flood"} {
			s := c.site("headers-" + name + ".corner.test")
			s.enter("/", "/body", "/open")
			s.pages("/open")
			p := s.page("/body").expects("network", 0)
			if name == "long" {
				p.with("X-Long", strings.Repeat("x", flood))
			} else {
				p.with("X-Flood", lines(flood/64)...)
			}
			p.failing(forever, asGood)
		}
	},
}
