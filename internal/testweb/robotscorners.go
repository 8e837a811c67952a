package testweb

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// failingRobots is a hardship: robots.txt files that are unreachable at first. While
// a file is unreachable, all pages of its host are forbidden (RFC 9309, 2.3.1.4), and a
// crawler must request the file again. One of the files stays unreachable. For the page of
// its host, several outcomes are right. A robots.txt that answers 4xx forbids nothing
// (2.3.1.3).
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
			s.addClosed("/closed")
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
		s.add("/", closed).html("/more").expects("network", 0).alsoAccepts("robots", "host_dead")
	},
}

// hugeRobots is a hardship: very long robots.txt files. Only the first 500 KiB count (RFC
// 9309, 2.5), without an incomplete last line. In two of the files this incomplete line is
// "Disallow: /", the beginning of "Disallow: /across". A crawler that obeys the incomplete
// line does not request any page of the host.
var hugeRobots = hardship{
	bit: HugeRobots, name: "huge-robots",
	doc: "robots.txt of more than 500 KiB, or without end",
	corner: func(c *corners) {
		const begin = "User-agent: *\nDisallow: /early\n"
		for _, file := range []struct{ name, after string }{
			{"robots-long", "\nDisallow: /late\n"},
			{"robots-huge", "\nDisallow: /late\n" + strings.Repeat("Disallow: /late/and/later/rules\n", 100_000)},
		} {
			s := c.site(file.name + ".corner.test")
			s.robots(upToCut(begin, "Disallow: /") + "across" + file.after)
			s.enter("/", "/early", "/across", "/late")
			s.addClosed("/early")
			s.pages("/across", "/late")
		}
		s := c.site("robots-endless.corner.test")
		s.robots("").stream(func(out io.Writer) error {
			return endlessly(out, begin, "# and so on and on\n")
		})
		s.enter("/", "/early", "/open")
		s.addClosed("/early")
		s.pages("/open")
	},
}

// robotsLimit is the number of bytes of a robots.txt that count.
const robotsLimit = 500 << 10

// upToCut returns a robots.txt with robotsLimit bytes that starts and ends with the
// given texts.
func upToCut(begin, last string) string {
	filler := strings.Repeat("# a line that says nothing at all\n", robotsLimit/34+1)
	return begin + filler[len(filler)-(robotsLimit-len(begin)-len(last)):] + last
}

// endlessly writes the text begin once. Then it writes the text unit again and again,
// until a write fails.
func endlessly(out io.Writer, begin, unit string) error {
	piece := bytes.Repeat([]byte(unit), 1+(16<<10)/len(unit))
	_, err := io.WriteString(out, begin)
	for err == nil {
		_, err = out.Write(piece)
	}
	return err
}

// malformedRobots is a hardship: robots.txt files with faults and peculiarities that
// occur on the web. Each file disallows /closed, unless it has no rules.
var malformedRobots = hardship{
	bit: MalformedRobots, name: "malformed-robots",
	doc: "robots.txt with other line ends, NULs, HTML, unknown lines, groups to be merged",
	corner: func(c *corners) {
		tokens := strings.NewReplacer("TOKEN", agent, "UPPER", strings.ToUpper(agent))
		for _, file := range []struct {
			name, text string
			open       bool // the file has no rules
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
				s.addClosed("/closed")
			}
		}
		s := c.site("robots-groups.corner.test")
		s.robots(tokens.Replace("User-agent: TOKEN\nDisallow: /first\n\nUser-agent: *\nDisallow: /\n\nUser-agent: otherbot\nUser-agent: UPPER/3\n" +
			"Disallow: /second\nAllow: /first/open\n\nUser-agent: TOKEN\nSitemap: http://sitemaps.test/all.xml\nDisallow: /third$\n"))
		s.enter("/", "/first", "/first/open", "/second", "/third", "/third/open")
		s.addClosed("/first", "/second", "/third")
		s.pages("/first/open", "/third/open")

		s = c.site("robots-escapes.corner.test")
		s.robots("User-agent: *\nDisallow: /f%c3%bcr\nDisallow: /naïf\nDisallow: /%7Eada\nDisallow: /q?*b=%2F\n").withType("application/octet-stream")
		s.enter("/", "/für", "/na%C3%AFf/x", "/~ada", "/q?a=1&b=%2F", "/~eve")
		s.addClosed("/f%C3%BCr", "/na%C3%AFf/x", "/~ada", "/q?a=1&b=%2F")
		s.pages("/~eve")
	},
}

// movedRobots is a hardship: robots.txt files behind redirects. A file that is reached
// after at most five redirects has the rules for the first host, even if the file is on
// another host. With more redirects there are no rules (RFC 9309, 2.3.1.2).
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
				s.addClosed("/closed")
			} else {
				s.pages("/closed")
			}
		}

		origin := c.site("robots-origin.corner.test")
		origin.robots("User-agent: *\nDisallow: /mine\n")
		origin.robotsAt("/others.txt", rules)
		origin.enter("/", "/mine", "/closed")
		origin.addClosed("/mine")
		origin.pages("/closed")
		away := c.site("robots-away.corner.test")
		away.movedRobots("/robots.txt", "http://robots-origin.corner.test/others.txt")
		away.enter("/", "/mine", "/closed")
		away.addClosed("/closed")
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

// robotsPath returns the path of a robots.txt after the given number of redirects.
func robotsPath(hop int) string {
	if hop == 0 {
		return "/robots.txt"
	}
	return fmt.Sprintf("/robots-%d.txt", hop)
}

// movedRobots adds a redirect from path, which is /robots.txt or a target of another
// redirect, to location.
func (s *site) movedRobots(path, location string) {
	p := s.robotsAt(path, "Moved.\n")
	p.status, p.location = http.StatusMovedPermanently, location
}
