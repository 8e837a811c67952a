package testweb

import "strings"

// malformedRobots is a hardship: robots.txt files with the faults and oddities
// that occur on the web. Each disallows /closed, except those without rules.
var malformedRobots = hardship{
	bit: MalformedRobots, name: "malformed-robots",
	doc: "robots.txt with other line ends, NULs, HTML, unknown lines, groups to be merged",
	corner: func(c *corners) {
		tokens := strings.NewReplacer("TOKEN", c.agent, "UPPER", strings.ToUpper(c.agent))
		for _, file := range []struct {
			name, text string
			open       bool // it has no rules
		}{
			{name: "bom", text: "\ufeffUser-agent: *\nDisallow: /closed\n"},
			{name: "cr", text: "User-agent: *\rDisallow: /closed\rAllow: /open\r"},
			{name: "crlf", text: "\r\nUser-agent: *\r\n\r\nDisallow: /closed\r\n"},
			{name: "nul", text: "\x00\x00\nUser-agent: *\n\x00\x00\x00\nDisallow: /closed\n\x00"},
			{name: "unended", text: "User-agent: *\nDisallow: /closed"},
			{name: "html", text: "<!DOCTYPE html>\n<html>\n<body>\n<h1>Welcome</h1>\nDisallow: /\n</body>\n</html>\n", open: true},
			{name: "unknown", text: "Host: example.test\nUser-agent: *\nClean-param: ref /\nNoindex: /\nRequest-rate: 1/10\nthis is no line\nDisallow: /closed\n"},
			{name: "blank", text: "User-agent: * # everybody\n\n\n  # nothing yet\n\n\tDisallow\t:\t/closed # here\n\n"},
			{name: "shared", text: "User-agent: otherbot\nUser-agent: TOKEN\nDisallow: /closed\n\nUser-agent: *\nDisallow: /\n"},
			{name: "version", text: "User-agent: TOKEN/2.1 (+http://corners.test/)\nDisallow: /closed\n\nUser-agent: *\nDisallow: /\n"},
			{name: "other", text: "User-agent: TOKEN-images\nDisallow: /\n\nUser-agent: TOKENX\nDisallow: /\n\nUser-agent: *\nDisallow: /closed\n"},
			{name: "empty-group", text: "User-agent: TOKEN\nDisallow:\n\nUser-agent: *\nDisallow: /\n", open: true},
			{name: "orphan", text: "Disallow: /\n\nUser-agent: *\nDisallow: /closed\n"},
			{name: "case", text: "USER-AGENT: *\ndisallow: /closed\nDISALLOW: /OPEN\n"},
			{name: "star-end", text: "User-agent: *\nDisallow: /*osed$\n"},
			{name: "tie", text: "User-agent: *\nDisallow: /\nAllow: /\nDisallow: /closed\n"},
		} {
			s := c.site("robots-" + file.name + ".corner.test")
			s.robots(tokens.Replace(file.text))
			s.enter("/", "/open", "/closed")
			if s.pages("/open"); file.open {
				s.pages("/closed")
			} else {
				s.closed("/closed")
			}
		}
		s := c.site("robots-groups.corner.test")
		s.robots(tokens.Replace("User-agent: TOKEN\nDisallow: /first\n\nUser-agent: *\nDisallow: /\n\nUser-agent: otherbot\nUser-agent: UPPER/3\n" +
			"Disallow: /second\nAllow: /first/open\n\nUser-agent: TOKEN\nSitemap: http://sitemaps.test/all.xml\nDisallow: /third$\n"))
		s.enter("/", "/first", "/first/open", "/second", "/third", "/third/open")
		s.closed("/first", "/second", "/third")
		s.pages("/first/open", "/third/open")

		s = c.site("robots-escapes.corner.test")
		s.robots("User-agent: *\nDisallow: /f%c3%bcr\nDisallow: /naïf\nDisallow: /%7Eada\nDisallow: /q?*b=%2F\n").typed("application/octet-stream")
		s.enter("/", "/für", "/na%C3%AFf/x", "/~ada", "/q?a=1&b=%2F", "/~eve")
		s.closed("/f%C3%BCr", "/na%C3%AFf/x", "/~ada", "/q?a=1&b=%2F")
		s.pages("/~eve")
	},
}
