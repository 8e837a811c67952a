package testweb

import (
	"net/http"
	"strconv"
	"time"
)

// robots is a hardship: seven of eight hosts answer a request for robots.txt with
// something other than 404. The kinds of files differ in how they disallow pages: by
// prefixes, with longer Allow lines, with * and $, with groups for several crawlers, with
// groups that must be merged, or in lines with CRLF and comments. One kind also sets a
// Crawl-delay. The files disallow 5 % of the pages. Another 5 % have similar paths, but
// are allowed. Without the hardship, every robots.txt is a 404.
var robots = hardship{
	bit: Robots, name: "robots",
	doc:    "robots.txt of many kinds, and pages that it disallows",
	leaves: []leaf{{51, fateRobots}},
}

// fateRobots is the fate of a disallowed page. The server answers it like a plain
// page, and the judge finds the request in the log.
var fateRobots = &fate{name: "disallowed", outcome: "robots"}

// A robotsFile is a kind of robots.txt.
type robotsFile struct {
	status int
	text   string
	// closed has the styles of the pages that the file disallows. It is zero if the file has
	// no rules.
	closed [2]int
	// open has styles of pages that the file allows. If the file has rules, the paths of these
	// pages are similar to those of disallowed pages.
	open [2]int
}

var (
	privateFolder = [2]int{stylePrivate, stylePrivate}
	openFolder    = [2]int{stylePrivateOpen, stylePrivateOpen}
	allowed       = [2]int{stylePrivate, styleScript} // styles that are open if the file has no rules

	robotsMissing = &robotsFile{status: http.StatusNotFound, open: allowed}
	robotsDelay   = &robotsFile{http.StatusOK, rulesPrefix, privateFolder, openFolder} // with a Crawl-delay

	// robotsFiles has the files of all hosts, by the host's number modulo 8.
	robotsFiles = [...]*robotsFile{
		{http.StatusOK, rulesPrefix, privateFolder, openFolder},
		{http.StatusOK, rulesWildcards, [2]int{styleScript, stylePrint}, [2]int{styleScriptOpen, stylePrintOpen}},
		{http.StatusOK, rulesGroups, [2]int{stylePrivate, styleScript}, [2]int{stylePrivateOpen, styleScriptOpen}},
		robotsDelay,
		{status: http.StatusForbidden, text: "Forbidden\n", open: allowed}, // this status allows everything (RFC 9309, 2.3.1.3)
		{http.StatusOK, rulesMessy, privateFolder, openFolder},
		robotsMissing,
		{status: http.StatusOK, open: allowed}, // empty
	}
)

func robotsOf(host int) *robotsFile { return robotsFiles[host%len(robotsFiles)] }

func hasRules(host int) bool { return robotsOf(host).closed != [2]int{} }

// robotsStyle returns a URL style that matches, or nearly matches, a rule of robots.txt.
// decided is true for each disallowed page, and for one in twenty of the others.
func robotsStyle(p page, disallowed bool, bits uint64) (style int, decided bool) {
	file, pick := robotsOf(p.host), bits>>8%2
	if disallowed {
		return file.closed[pick], true
	}
	return file.open[pick], bits>>16%20 == 0
}

// maxCrawlDelayPages is the maximum number of pages of a host that sets a Crawl-delay.
const maxCrawlDelayPages = 128

// crawlDelay returns the Crawl-delay of a host's robots.txt, or 0 if it sets none.
func (w *Web) crawlDelay(host int) time.Duration {
	if !w.has(Robots) || robotsOf(host) != robotsDelay || w.shape.size(host) > maxCrawlDelayPages {
		return 0
	}
	return w.cfg.CrawlDelay
}

// agent is the product token of the crawler.
const agent = "crawler"

const (
	rulesPrefix = "User-agent: *\nDisallow: /private/\nAllow: /private/open/\n"

	rulesWildcards = "User-agent: *\nDisallow: /*.cgi$\nDisallow: /print?*print=1\n"

	rulesGroups = "User-agent: *\nDisallow: /\n\n" +
		"User-agent: " + agent + "\nDisallow: /private/\nAllow: /private/open/\n\n" +
		"User-agent: otherbot\nUser-agent: thirdbot\nDisallow: /\n\n" +
		"user-agent: " + agent + "\nDisallow: /cgi-bin/*.cgi$\n\n" +
		"Sitemap: http://sitemaps.test/all.xml\n"

	rulesMessy = "\ufeff# robots.txt of this host\r\n\r\nuser-AGENT : *   # everybody\r\n" +
		"\tdisallow:   /private/ # nothing for you\r\nNoindex: /p/\r\nthis line says nothing\r\n" +
		"Disallow:\r\nALLOW: /private/open/\r\n"
)

// robotsAnswer returns the status and body of a host's robots.txt.
func (w *Web) robotsAnswer(host int) (status int, body string) {
	file := robotsMissing
	if w.isMix() {
		file = robotsFiles[0]
	} else if w.has(Robots) {
		file = robotsOf(host)
	}
	if delay := w.crawlDelay(host); delay > 0 {
		return file.status, file.text + "Crawl-delay: " + strconv.FormatFloat(delay.Seconds(), 'f', -1, 64) + "\n"
	}
	return file.status, file.text
}
