package testweb

import (
	"fmt"
	"strings"
)

// tracking is a hardship: links to one page in many spellings, which differ in campaign
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
