package testweb

import (
	"fmt"
	"net/http"
)

// movedRobots: five redirects in a row lead to the rules of the host that was
// asked, wherever they end; after more there are none (RFC 9309, 2.3.1.2).
var movedRobots = hardship{
	bit: MovedRobots, name: "moved-robots",
	doc: "robots.txt that redirects, up to six times, in a circle, or to another host",
	corner: func(c *corners) {
		const rules = "User-agent: *\nDisallow: /closed\n"
		for hops := 1; hops <= 6; hops++ {
			s := c.site(fmt.Sprintf("robots-moved-%d.corner.test", hops))
			for hop := range hops {
				s.movedRobots(robotsPlace(hop), robotsPlace(hop+1))
			}
			s.robotsAt(robotsPlace(hops), rules)
			s.enter("/", "/open", "/closed")
			s.pages("/open")
			if hops <= 5 {
				s.closed("/closed")
			} else {
				s.pages("/closed")
			}
		}

		origin := c.site("robots-origin.corner.test")
		origin.robots("User-agent: *\nDisallow: /mine\n")
		origin.robotsAt("/others.txt", rules)
		origin.enter("/", "/mine", "/closed")
		origin.closed("/mine")
		origin.pages("/closed")
		away := c.site("robots-away.corner.test")
		away.movedRobots("/robots.txt", "http://robots-origin.corner.test/others.txt")
		away.enter("/", "/mine", "/closed")
		away.closed("/closed")
		away.pages("/mine")

		for _, lost := range []struct{ name, location string }{{"circle", "/robots.txt"}, {"nowhere", ""}, {"gone", "/gone.txt"}} {
			s := c.site("robots-" + lost.name + ".corner.test")
			s.movedRobots("/robots.txt", lost.location)
			s.enter("/", "/open")
			if s.pages("/open"); lost.name == "gone" {
				s.robotsAt(lost.location, rules).failing(forever, http.StatusNotFound)
			}
		}
	},
}

// robotsPlace returns where the robots.txt is after so many redirects.
func robotsPlace(hop int) string {
	if hop == 0 {
		return "/robots.txt"
	}
	return fmt.Sprintf("/robots-%d.txt", hop)
}

// movedRobots puts a redirect on the way to a robots.txt at path.
func (s *site) movedRobots(path, location string) {
	p := s.robotsAt(path, "Moved.\n")
	p.status, p.location = http.StatusMovedPermanently, location
}
