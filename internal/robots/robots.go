// Package robots parses robots.txt and decides which paths it allows, according to RFC 9309.
//
// It owns the compiled rules of one file (Rules), the meaning of an answer to the request
// for the file and the time for which the answer is valid (State). It also owns what
// pages ask for in meta tags and X-Robots-Tag headers. It makes no requests, reads
// no clock and does not wait. Package politeness uses the crawl-delay.
//
// The lines are read by a Go translation of Google's parser, so that common typos are
// understood in the same way. There are these differences from Google's matcher, because
// RFC 9309 requires them or because they are safer:
//
//   - Percent-encoding: in rules and paths, %61 is the same as the letter "a".
//   - In a rule, a $ that is not at the end is the same as %24. In a path, a * or
//     $ is the same as %2A or %24.
//   - A path and a rule match even if they differ in escapes of ":/?[]@" within
//     the query.
//   - "Allow: /index.html" does not allow "/".
//   - A group for foobot* counts as a group for foobot.
//   - /robots.txt is always allowed.
//   - Only the lines within the first 500 KiB are used.
package robots

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unsafe"
)

// MaxBytes is the number of bytes of a robots.txt that are used. get.Request.MaxBody should
// be MaxBytes + 1, so that Parse notices that a file is longer.
const MaxBytes = 500 << 10

// Rules are the rules of one robots.txt for one crawler. They do not change and are
// safe for concurrent use. The zero value allows everything.
type Rules struct {
	rules      []rule    // the first rule that matches decides
	pairs      []pairSet // pairs of each rule's pattern; a separate slice is faster to search
	useLines   []useRule
	sitemaps   []string
	crawlDelay time.Duration
	hasDelay   bool
	token      string // the product token of the crawler that the rules are for; empty means that they are for every crawler
}

// AllowAll returns the rules of a host without robots.txt, which allow everything.
func AllowAll() *Rules { return &Rules{} }

// Allowed reports whether the path of a URL, with its query, may be requested. It also
// returns the rule that decided, as "Allow: /path" or "Disallow: /path" with a normalised
// pattern, or "" if no rule matched.
//
// Of the rules that match, the one with the longest pattern decides. If two patterns are
// equally long, Allow decides. The time for each rule is linear in the length of the path.
func (r *Rules) Allowed(pathAndQuery string) (allowed bool, rule string) {
	if pathAndQuery == "/robots.txt" || len(r.rules) == 0 {
		return true, ""
	}
	path, folded := comparable(pathAndQuery)
	first := r.first(path, len(r.rules))
	if folded != path {
		first = r.first(folded, first)
	}
	if first == len(r.rules) {
		return true, ""
	}
	return r.rules[first].allow, r.rules[first].text
}

// comparable returns the forms of a path with its query that are compared with patterns. The second
// one has fewer escapes in the query, and is often the same.
func comparable(pathAndQuery string) (path, folded string) {
	if !strings.HasPrefix(pathAndQuery, "/") {
		pathAndQuery = "/" + pathAndQuery
	}
	path = normalisePath(pathAndQuery)
	return path, foldQuery(path)
}

// first returns the index of the first rule that matches path. It tries only the rules
// before the index end. If none of them matches, it returns end.
func (r *Rules) first(path string, end int) int {
	has := pairsOf(path)
	for i, pairs := range r.pairs[:end] {
		if pairs.within(has) && r.rules[i].matches(path) {
			return i
		}
	}
	return end
}

// CrawlDelay returns the longest Crawl-delay of the groups that apply to the crawler, and
// whether there is one.
func (r *Rules) CrawlDelay() (time.Duration, bool) { return r.crawlDelay, r.hasDelay }

// Sitemaps returns the sitemaps that the file names, as they are written there, at most
// MaxSitemaps. They apply to every crawler.
func (r *Rules) Sitemaps() []string { return slices.Clone(r.sitemaps) }

// Len returns the number of rules.
func (r *Rules) Len() int { return len(r.rules) }

const (
	allowPrefix    = "Allow: "
	disallowPrefix = "Disallow: "
)

// rule is one compiled line.
type rule struct {
	text    string // the line, with allowPrefix or disallowPrefix
	pattern string // text without its prefix and without the $ that is an anchor
	literal int    // length of pattern before its first *
	length  int    // length of the whole pattern, which is its priority
	allow   bool
	end     bool // the pattern has an anchor, so it must match the end of the path
}

// compile returns the rules of lines. The patterns in lines must be normalised. compile sorts
// the rules into the order in which they decide.
func compile(lines []string) *Rules {
	rules := make([]rule, 0, len(lines))
	for _, text := range lines {
		pattern, allow := strings.CutPrefix(text, allowPrefix)
		if !allow {
			pattern = text[len(disallowPrefix):]
		}
		r := newRule(pattern)
		r.text, r.allow = text, allow
		rules = append(rules, r)
	}
	slices.SortStableFunc(rules, func(a, b rule) int {
		return cmp.Or(b.length-a.length, strings.Compare(a.text, b.text)) // "Allow" is before "Disallow"
	})
	rules = slices.CompactFunc(rules, func(a, b rule) bool { return a.text == b.text })
	pairs := make([]pairSet, len(rules))
	for i := range rules {
		pairs[i] = pairsOf(rules[i].pattern)
	}
	return &Rules{rules: rules, pairs: pairs}
}

// newRule returns a rule for a normalised pattern.
func newRule(pattern string) rule {
	r := rule{length: len(pattern)}
	r.pattern, r.end = strings.CutSuffix(pattern, "$")
	if r.literal = strings.IndexByte(r.pattern, '*'); r.literal < 0 {
		r.literal = len(r.pattern)
	}
	return r
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
		i := strings.Index(path, part) // the leftmost match leaves the longest rest
		if i < 0 {
			return false
		}
		if !star {
			return true
		}
		path, rest = path[i+len(part):], more
	}
}

// pairSet is a set of pairs of adjacent bytes, hashed to 128 bits. A path that lacks a pair
// of a pattern cannot match the pattern. This excludes nearly all rules of a long list, in
// about a nanosecond for each.
type pairSet [2]uint64

// pairsOf returns the pairs of s that do not contain a *.
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

// Bytes returns about how much memory the rules take. It returns 0 for nil.
func (r *Rules) Bytes() (bytes int64) {
	if r == nil {
		return 0
	}
	bytes = int64(unsafe.Sizeof(*r)) + int64(len(r.rules))*int64(unsafe.Sizeof(rule{})+unsafe.Sizeof(pairSet{}))
	for i := range r.rules {
		bytes += int64(len(r.rules[i].text)) + 8 // the allocation is up to an eighth larger
	}
	for i := range r.useLines {
		line := &r.useLines[i].line
		bytes += int64(unsafe.Sizeof(useRule{})) + int64(len(line.Path)+len(line.Value)) + 8
	}
	for _, sitemap := range r.sitemaps {
		bytes += int64(len(sitemap))
	}
	return bytes
}
