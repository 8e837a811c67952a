package testweb

import (
	"fmt"
	"net/http"
)

// movedRobots is a hardship: a robots.txt behind redirects. The file after at
// most five redirects has the rules of the host that was asked first, even if it
// is on another host. After more redirects there are no rules (RFC 9309, 2.3.1.2).
var movedRobots = hardship{
	bit: MovedRobots, name: "moved-robots",
	doc: "robots.txt that redirects, up to six times, in a circle, or to another host",
	corner: func(c *corners) {
		const rules = "User-agent: *\nDisallow: /closed\n"
		for hops := 1; hops <= 6; hops++ {
			s := c.site(fmt.Sprintf("robots-moved-%d.corner.test", hops))
			for hop := range hops {
				s.movedRobots(robotsPath(hop), robotsPath(hop+1))
			}
			s.robotsAt(robotsPath(hops), rules)
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

// robotsPath returns the path of a robots.txt after hop redirects.
func robotsPath(hop int) string {
	if hop == 0 {
		return "/robots.txt"
	}
	return fmt.Sprintf("/robots-%d.txt", hop)
}

// movedRobots adds a redirect to a robots.txt at path.
func (s *site) movedRobots(path, location string) {
	p := s.robotsAt(path, "Moved.\n")
	p.status, p.location = http.StatusMovedPermanently, location
}
