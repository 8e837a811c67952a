package testweb

import "strings"

// repeatedPaths is a hardship: a link without its leading slash leads one folder deeper
// on each page.
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
		s.beyond = func(path string) *resource {
			if strings.Count(path, "a/b/") <= maxRepeats {
				return nil
			}
			return newResource().html("a/b/")
		}
	},
}

// maxRepeats is how often a path may contain the same segment.
const maxRepeats = 4
