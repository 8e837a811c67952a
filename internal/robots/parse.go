package robots

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jimsmart/grobotstxt"
)

// parserVersion is increased whenever Parse returns other rules for the same file. Stored
// rules of another version are not used.
const parserVersion = 2

// MaxSitemaps is the maximum number of sitemaps of a robots.txt that are kept.
const MaxSitemaps = 100

// Parse compiles the rules of body for the crawler with this product token
// (ProductToken). It accepts any text; text that is no robots.txt allows
// everything. Rules keep no reference to body.
func Parse(body []byte, productToken string) *Rules {
	if len(body) > MaxBytes {
		body = body[:1+bytes.LastIndexAny(body[:MaxBytes], "\r\n")]
	}
	file := reader{token: productToken}
	grobotstxt.Parse(string(body), &file)
	group := &file.everyone
	if file.named {
		group = &file.ours
	}
	r := compile(group.lines)
	r.setUseLines(append(file.licences, group.useLines...))
	r.sitemaps, r.token = file.sitemaps, productToken
	r.crawlDelay, r.hasDelay = group.crawlDelay, group.hasDelay
	return r
}

// ProductToken returns the part of a User-Agent header that groups of robots.txt name: the
// first product, without its version.
func ProductToken(userAgent string) string {
	userAgent = strings.TrimSpace(userAgent)
	for i := range len(userAgent) {
		if !tokenByte(userAgent[i]) {
			return userAgent[:i]
		}
	}
	return userAgent
}

// tokenByte reports whether c can be part of a product name (RFC 9110). RFC 9309 allows only
// letters, - and _, but names of crawlers also contain digits.
func tokenByte(c byte) bool {
	return unreserved(c) || c != 0 && strings.IndexByte("!#$%&'+^`|", c) >= 0
}

// group has the rules and the Crawl-delay of all groups of a file that name this crawler, or of
// all groups that are for every crawler.
type group struct {
	lines      []string
	useLines   []UseLine
	crawlDelay time.Duration
	hasDelay   bool
}

// reader collects, line by line, the groups for this crawler and the groups for all crawlers.
type reader struct {
	token          string
	ours, everyone group
	named          bool // a group, which may be empty, names this crawler, so groups for all crawlers do not apply
	inOurs, inAll  bool // whether the current group is for this crawler, and for all crawlers
	rules          bool // the current group has rules, so the next User-agent begins another group
	grouped        bool // a group has begun
	sitemaps       []string
	licences       []UseLine // before the first group
}

var _ grobotstxt.ParseHandler = (*reader)(nil)

func (f *reader) HandleRobotsStart() {}
func (f *reader) HandleRobotsEnd()   {}

func (f *reader) HandleUserAgent(_ int, agent string) {
	if f.rules {
		f.inOurs, f.inAll, f.rules = false, false, false
	}
	f.grouped = true
	if agent == "*" || strings.HasPrefix(agent, "* ") || strings.HasPrefix(agent, "*\t") {
		f.inAll = true
	} else if f.token != "" && strings.EqualFold(ProductToken(agent), f.token) {
		f.inOurs, f.named = true, true
	}
}

func (f *reader) HandleAllow(_ int, pattern string)    { f.add(allowPrefix, pattern) }
func (f *reader) HandleDisallow(_ int, pattern string) { f.add(disallowPrefix, pattern) }

// add adds a rule. A rule with an empty pattern, or with a pattern that matches no path,
// only ends the list of crawlers of the group.
func (f *reader) add(prefix, pattern string) {
	f.rules = true
	if pattern == "" || pattern[0] != '/' && pattern[0] != '*' {
		return
	}
	line := prefix + normalisePattern(repair(pattern))
	f.each(func(g *group) { g.lines = append(g.lines, line) })
}

// repair corrects an error of grobotstxt 1.0.3, which changes the digits of escapes when it
// normalises a pattern: it makes "%C\x13" of %c3.
func repair(pattern string) string {
	if !strings.Contains(pattern, "%") {
		return pattern
	}
	b := []byte(pattern)
	for i, c := range b {
		inEscape := i > 0 && b[i-1] == '%' || i > 1 && b[i-2] == '%'
		if inEscape && c&^0x0f == 0x10 {
			b[i] |= 0x20
		}
	}
	return string(b)
}

func (f *reader) each(do func(*group)) {
	if f.inOurs {
		do(&f.ours)
	}
	if f.inAll {
		do(&f.everyone)
	}
}

func (f *reader) HandleSitemap(_ int, url string) {
	if url != "" && len(f.sitemaps) < MaxSitemaps {
		f.sitemaps = append(f.sitemaps, strings.Clone(url))
	}
}

// HandleUnknownAction handles Crawl-delay, and the lines about the use of content. They are not in
// RFC 9309. A Crawl-delay applies to the crawlers that the group has named so far, and does not end
// the list of their names.
func (f *reader) HandleUnknownAction(_ int, key, value string) {
	if !strings.EqualFold(key, "crawl-delay") {
		f.addUseLine(key, value)
		return
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds >= 0) || math.IsInf(seconds, 0) {
		return
	}
	delay := time.Duration(math.Min(seconds, maxCrawlDelay.Seconds()) * float64(time.Second))
	f.each(func(g *group) { g.crawlDelay, g.hasDelay = max(g.crawlDelay, delay), true })
}

// maxCrawlDelay is the maximum Crawl-delay; a longer one is reduced to it.
const maxCrawlDelay = 365 * 24 * time.Hour
