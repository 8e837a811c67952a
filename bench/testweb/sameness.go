package testweb

import (
	"fmt"
	"strings"
)

// sessions: each page writes another session id into its links, into the path
// and into the query. Without them there are five pages.
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
				c.door("http://sessions.corner.test/?PHPSESSID=0")
			}
		}
	},
}

// withSessions returns spellings of a path that carry a session id.
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

// tracking: one page under many spellings: marks of campaigns, fragments, case,
// port, user, dots, escapes.
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
