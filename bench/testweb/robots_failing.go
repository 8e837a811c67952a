package testweb

import (
	"fmt"
	"net/http"
)

// failingRobots is a hardship: a robots.txt that is unreachable forbids all pages
// (RFC 9309, 2.3.1.4), and a crawler must ask for it again. Most recover, and one
// never does. For the page of its host, several outcomes are right. A robots.txt
// that answers 4xx forbids nothing (2.3.1.3).
var failingRobots = hardship{
	bit: FailingRobots, name: "failing-robots",
	doc: "robots.txt that answers 5xx, 429 or nothing, for a while or for ever",
	corner: func(c *corners) {
		for _, fault := range []struct {
			name          string
			times, status int
		}{
			{"503", 2, http.StatusServiceUnavailable},
			{"500", 1, http.StatusInternalServerError},
			{"429", 1, http.StatusTooManyRequests},
			{"reset", 2, broken},
			{"silent", 1, noAnswer},
		} {
			s := c.site("robots-" + fault.name + ".corner.test")
			s.robots("User-agent: *\nDisallow: /closed\n").failing(fault.times, fault.status)
			s.enter("/", "/open", "/closed")
			s.pages("/open")
			s.closed("/closed")
		}
		for _, status := range []int{400, 401, 404, 410, 451} {
			s := c.site(fmt.Sprintf("robots-%d.corner.test", status))
			s.robots("User-agent: *\nDisallow: /\n").failing(forever, status)
			s.enter("/", "/open")
			s.pages("/open")
		}
		s := c.site("robots-never.corner.test")
		s.robots("").failing(forever, http.StatusBadGateway)
		c.entry("http://robots-never.corner.test/")
		s.add("/", closed).html("/more").expects("network", 0).also("robots", "host_dead")
	},
}
