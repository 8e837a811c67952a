package testweb

import (
	"strconv"
	"strings"
)

// robotsTags is a hardship: pages that ask crawlers not to follow their links, by a
// header, a meta element or the rel attribute of a link. Some pages ask only a
// different crawler. If a page has the same link with and without nofollow, a correct
// crawl follows it.
var robotsTags = hardship{
	bit: RobotsTags, name: "robots-tags",
	doc: "X-Robots-Tag, robots meta elements and rel=nofollow, some for another crawler",
	corner: func(c *corners) {
		s := c.site("tags.corner.test")
		s.enter("/")
		further := "" // target of the last page's links
		page := func(follows bool) *resource {
			number := strconv.Itoa(len(s.list))
			further = "/further/" + number
			p := s.addListed("/page/"+number, further)
			if follows {
				s.pages(further)
			} else {
				p.refuses("nofollow", 1)
			}
			return p
		}
		for _, h := range []struct {
			follows bool
			values  []string
		}{
			{false, []string{"nofollow"}},
			{false, []string{"NoIndex, NOFOLLOW"}},
			{false, []string{"none"}},
			{false, []string{"noarchive", "nofollow"}},
			{false, []string{agent + ": nofollow"}},
			{false, []string{"unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow"}},
			{false, []string{"otherbot: noindex", agent + ": none"}},
			{true, []string{"otherbot: nofollow"}},
			{true, []string{"noindex, otherbot: nofollow"}},
			{true, []string{"noindex, nosnippet"}},
			{true, []string{"follow"}},
		} {
			page(h.follows).with("X-Robots-Tag", h.values...)
		}
		for _, m := range []struct {
			follows bool
			meta    string
		}{
			{false, `<meta name="robots" content="nofollow">`},
			{false, `<META CONTENT='NoIndex,NoFollow' NAME=ROBOTS>`},
			{false, `<meta name="Robots" content=" none ">`},
			{false, `<meta name="` + agent + `" content="noarchive nofollow">`},
			{true, `<meta name="otherbot" content="nofollow">`},
			{true, `<meta name="robots" content="noindex, follow">`},
			{true, `<meta name="keywords" content="nofollow">`},
		} {
			p := page(m.follows)
			p.document("Tag", []byte("<!DOCTYPE html><title>Tag</title>"+m.meta+`<p><a href="`+further+`">on</a>`))
		}
		for _, a := range []struct {
			follows bool
			links   string // HTML of the links; F is their target
		}{
			{false, `<a rel="external NoFollow" href="F">on</a>`},
			{false, `<a rel=nofollow href="F">on</a><a rel=nofollow href="F#x">on</a>`},
			{true, `<a rel=nofollow href="F">on</a><a href="F">on</a>`},
			{true, `<a rel="noopener ugc" href="F">on</a>`},
		} {
			p := page(a.follows)
			p.document("Tag", []byte("<!DOCTYPE html><title>Tag</title>"+strings.ReplaceAll(a.links, `"F`, `"`+further)))
		}
	},
}
