// Package robots parses robots.txt and decides which paths it allows, according to RFC 9309.
//
// It owns the rules of one file, compiled once (Rules), the meaning of an answer to
// the request for it, and for how long that is valid (State), and the requests of
// pages in meta tags and X-Robots-Tag headers (Tag). It makes no request, reads no
// clock, and does not wait: package politeness uses the crawl-delay.
//
// Lines are read by Google's parser in its Go translation, so that common typos are
// understood as they are there. What differs from Google's matcher, each time
// because RFC 9309 says so or to be on the safe side:
//
//   - Percent-encoding: %61 and a are the same, in rules and paths.
//   - In a rule, a $ that is not at the end and %24 are the same; a * or $ in
//     a path is the same as %2A or %24.
//   - A path and a rule that differ only in escapes of ":/?[]@" within the
//     query match.
//   - "Allow: /index.html" does not allow "/".
//   - A group for foobot* is one for foobot.
//   - /robots.txt is always allowed.
//   - Only the first 500 KiB count, cut at a line.
package robots

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// MaxBytes is how much of a robots.txt is used; get.Request.MaxBody should be one more.
const MaxBytes = 500 << 10

// Rules are the rules of one robots.txt for one crawler. They do not change and are
// safe for concurrent use. The zero value allows everything.
type Rules struct {
	rules      []rule    // the first that matches decides
	pairs      []pairSet // of each rule's pattern; in a separate slice, which is faster to search
	sitemaps   []string
	crawlDelay time.Duration
	hasDelay   bool
}

// AllowAll are the rules of a host without robots.txt.
func AllowAll() *Rules { return &Rules{} }

// Allowed reports whether the path of a URL, with its query, may be requested,
// and the rule that decided, as "Allow: /path" or "Disallow: /path" in
// normalised spelling; it is empty when none matched.
//
// The rule with the longest pattern wins, Allow among equals. The time is
// linear in the length of the path for each rule.
func (r *Rules) Allowed(pathAndQuery string) (allowed bool, rule string) {
	if pathAndQuery == "/robots.txt" || len(r.rules) == 0 {
		return true, ""
	}
	if !strings.HasPrefix(pathAndQuery, "/") {
		pathAndQuery = "/" + pathAndQuery
	}
	path := normalisePath(pathAndQuery)
	first := r.first(path, len(r.rules))
	if folded := foldQuery(path); folded != path {
		first = r.first(folded, first)
	}
	if first == len(r.rules) {
		return true, ""
	}
	return r.rules[first].allow, r.rules[first].text
}

// first returns the index below end of the first rule that matches path, or end.
func (r *Rules) first(path string, end int) int {
	has := pairsOf(path)
	for i, pairs := range r.pairs[:end] {
		if pairs.within(has) && r.rules[i].matches(path) {
			return i
		}
	}
	return end
}

// CrawlDelay returns the longest Crawl-delay of our groups, and whether there
// is one.
func (r *Rules) CrawlDelay() (time.Duration, bool) { return r.crawlDelay, r.hasDelay }

// Sitemaps returns the sitemaps that the file names, as it spells them, at most
// MaxSitemaps. They are for every crawler.
func (r *Rules) Sitemaps() []string { return slices.Clone(r.sitemaps) }

// Len returns how many rules there are.
func (r *Rules) Len() int { return len(r.rules) }

const (
	allowPrefix    = "Allow: "
	disallowPrefix = "Disallow: "
)

// rule is one compiled line.
type rule struct {
	text    string // with allowPrefix or disallowPrefix
	pattern string // the rest of text, without the $ that anchors it
	literal int    // length of pattern before its first *
	length  int    // of the whole pattern: its priority
	allow   bool
	end     bool // the path must end where the pattern does
}

// compile turns lines, with normalised patterns, into rules in the order in
// which they decide.
func compile(lines []string) *Rules {
	rules := make([]rule, 0, len(lines))
	for _, text := range lines {
		pattern, allow := strings.CutPrefix(text, allowPrefix)
		if !allow {
			pattern = text[len(disallowPrefix):]
		}
		r := rule{text: text, allow: allow, length: len(pattern)}
		r.pattern, r.end = strings.CutSuffix(pattern, "$")
		if r.literal = strings.IndexByte(r.pattern, '*'); r.literal < 0 {
			r.literal = len(r.pattern)
		}
		rules = append(rules, r)
	}
	slices.SortStableFunc(rules, func(a, b rule) int {
		return cmp.Or(b.length-a.length, strings.Compare(a.text, b.text)) // "A" of Allow is before "D"
	})
	rules = slices.CompactFunc(rules, func(a, b rule) bool { return a.text == b.text })
	pairs := make([]pairSet, len(rules))
	for i := range rules {
		pairs[i] = pairsOf(rules[i].pattern)
	}
	return &Rules{rules: rules, pairs: pairs}
}

// matches reports whether the pattern matches path.
func (r *rule) matches(path string) bool {
	if !strings.HasPrefix(path, r.pattern[:r.literal]) {
		return false
	}
	if r.literal == len(r.pattern) {
		return !r.end || len(path) == len(r.pattern)
	}
	path, rest := path[r.literal:], r.pattern[r.literal+1:]
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star && r.end {
			return strings.HasSuffix(path, part)
		}
		i := strings.Index(path, part) // the leftmost leaves most for the rest
		if i < 0 {
			return false
		}
		if !star {
			return true
		}
		path, rest = path[i+len(part):], more
	}
}

// pairSet is a set of pairs of adjacent bytes, hashed to 128 bits: a path that
// lacks a pair of a pattern cannot match it, which rules out nearly all of a
// long list at a nanosecond each.
type pairSet [2]uint64

// pairsOf returns the pairs of s in which no * takes part.
func pairsOf(s string) (set pairSet) {
	for i := 1; i < len(s); i++ {
		if s[i-1] != '*' && s[i] != '*' {
			h := (uint32(s[i-1])<<8 | uint32(s[i])) * 0x9e3779b1
			set[h>>31] |= 1 << (h >> 25 & 63)
		}
	}
	return set
}

func (s pairSet) within(other pairSet) bool { return s[0]&^other[0] == 0 && s[1]&^other[1] == 0 }
