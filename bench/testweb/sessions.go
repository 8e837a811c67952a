package testweb

import (
	"fmt"
	"strings"
)

// sessions is a hardship: each page has links with new session ids, in their paths
// or queries. Without the session ids there are only five pages.
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
				c.entry("http://sessions.corner.test/?PHPSESSID=0")
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
