package exact

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
)

// Found says how an item was found.
type Found uint8

const (
	ByLink    Found = iota // on a page, as a link or as an embedded file
	BySeed                 // a seed, or the target of its redirects
	BySitemap              // in a sitemap
)

// Classes with fixed numbers, in addition to frontier.Bulk, frontier.Exact and
// frontier.Sitemap. Other rules have the classes from classOther on.
const (
	classListed = frontier.Sitemap + 1 // URLs that a sitemap lists
	classOther  = classListed + 1
)

// Rule makes some items exact.
type Rule struct {
	Name string // of the class; "" means Text
	Text string // as in Rules
}

// Rules say which items are exact, and the class of each. The zero value has no rule: all items are
// bulk except sitemap files, which are always exact.
//
// A rule is one of
//
//	seeds       seeds and the targets of their redirects
//	sitemaps    URLs that a sitemap lists
//	depth<=N    URLs found at most N links away from a seed
//	host=GLOB   URLs whose host name matches; * stands for any characters
//	re=EXPR     canonical URLs in which the regular expression matches
//	all         every URL
//
// The rules host, re and all depend only on the URL. The other rules depend on how the
// URL was found. If several rules match an item, the class comes from the first matching
// rule that depends only on the URL. If there is no such rule, the class comes from the
// first matching rule. So a URL's class depends as little as possible on the order in
// which URLs are found. The classes of seeds and sitemaps have fixed numbers. The number
// of any other class depends on the position of its rule among the other rules.
type Rules struct{ rules []rule }

type rule struct {
	Rule  // its Name is not empty
	class frontier.Class
	pure  bool // the rule depends only on the URL
	match func(link *frontier.Offer, found Found) bool
}

const ruleForms = "seeds, sitemaps, depth<=N, host=GLOB, re=EXPR, all"

// NewRules parses rules and keeps their order. The error names all faults.
func NewRules(rules ...Rule) (*Rules, error) {
	r := new(Rules)
	var errs []error
	next := frontier.Class(classOther)
	for _, given := range rules {
		made, err := parseRule(given)
		if err == nil && made.class == frontier.Bulk {
			made.class = next
			next++
		}
		switch {
		case err != nil:
		case slices.ContainsFunc(r.rules, func(other rule) bool { return other.Text == made.Text }):
			err = errors.New("is given twice")
		case made.Name == sitemapFiles || r.named(made.Name) != nil:
			err = fmt.Errorf("another class has the name %q", made.Name)
		case made.class >= Classes:
			err = fmt.Errorf("want at most %d rules beside seeds and sitemaps", Classes-classOther)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("exact rule %q: %w", given.Text, err))
			continue
		}
		r.rules = append(r.rules, made)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return r, nil
}

// className matches a rule with the name of its class before it, such as "gov: host=*.gov".
var className = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9_-]*):\s*(.*)$`)

// ParseTexts parses the rules of settings and flags. Each text is the name of a class and a
// rule, such as "gov: host=*.gov", or a comma-separated list of rules without names, or "none". A
// comma within brackets or after a backslash belongs to an expression. The error names all faults.
func ParseTexts(texts []string) (*Rules, error) {
	var rules []Rule
	var errs []error
	for _, text := range texts {
		if named := className.FindStringSubmatch(text); named != nil {
			rules = append(rules, Rule{Name: named[1], Text: named[2]})
			continue
		}
		parts := splitList(text)
		if len(parts) == 0 {
			errs = append(errs, errors.New(`no rules: want "none", or a list of `+ruleForms))
		}
		for _, part := range parts {
			if text != "none" {
				rules = append(rules, Rule{Text: part})
			}
		}
	}
	made, err := NewRules(rules...)
	return made, errors.Join(append(errs, err)...)
}

// parseRule parses a rule. If the class of the rule has no fixed number, the result has the
// class Bulk.
func parseRule(given Rule) (rule, error) {
	r := rule{Rule: given}
	r.Name = cmp.Or(given.Name, given.Text)
	kind, argument := given.Text, ""
	for _, prefix := range []string{"depth<=", "host=", "re="} {
		if rest, ok := strings.CutPrefix(given.Text, prefix); ok {
			kind, argument = prefix, rest
		}
	}
	switch kind {
	case "seeds":
		r.class = frontier.Exact
		r.match = func(_ *frontier.Offer, found Found) bool { return found == BySeed }
	case "sitemaps":
		r.class = classListed
		r.match = func(_ *frontier.Offer, found Found) bool { return found == BySitemap }
	case "depth<=":
		maxDepth, err := strconv.ParseUint(argument, 10, 16)
		if err != nil {
			return r, fmt.Errorf("%q is no depth from 0 to 65535", argument)
		}
		r.match = func(link *frontier.Offer, _ Found) bool { return uint64(link.Depth) <= maxDepth }
	case "host=":
		if argument == "" {
			return r, errors.New("want a host name, in which * stands for any characters")
		}
		parts := strings.Split(strings.ToLower(argument), "*")
		r.pure = true
		r.match = func(link *frontier.Offer, _ Found) bool { return glob(parts, hostOf(link.URL)) }
	case "re=":
		expr, err := regexp.Compile(argument)
		if err != nil || argument == "" {
			return r, fmt.Errorf("%q is no regular expression: %w", argument, cmp.Or(err, errors.New("it is empty")))
		}
		r.pure = true
		r.match = func(link *frontier.Offer, _ Found) bool { return expr.MatchString(link.URL) }
	case "all":
		r.pure = true
		r.match = func(*frontier.Offer, Found) bool { return true }
	default:
		return r, errors.New("want one of " + ruleForms)
	}
	return r, nil
}

// glob reports whether the text name consists of the texts in parts, in order, with any
// characters between them.
func glob(parts []string, name string) bool {
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok || len(parts) == 1 {
		return ok && rest == ""
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(rest, parts[last])
}

// hostOf returns the host name in a canonical URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexByte(rest, '/'); end >= 0 {
		rest = rest[:end]
	}
	if port := strings.LastIndexByte(rest, ':'); port > strings.LastIndexByte(rest, ']') {
		rest = rest[:port]
	}
	return rest
}

// splitList splits a list at its commas, except those within brackets or after a
// backslash, and drops empty parts.
func splitList(text string) (parts []string) {
	begin, depth := 0, 0
	cut := func(end int) {
		if part := strings.TrimSpace(text[begin:end]); part != "" {
			parts = append(parts, part)
		}
		begin = end + 1
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0)
		case ',':
			if depth == 0 {
				cut(i)
			}
		}
	}
	if begin < len(text) {
		cut(len(text))
	}
	return parts
}

// Class returns the class of a link. A link to a sitemap file (frontier.Sitemap) keeps its
// class. Otherwise the class depends on the link's URL and depth, and on the argument
// found.
func (r *Rules) Class(link *frontier.Offer, found Found) frontier.Class {
	if link.Class == frontier.Sitemap {
		return frontier.Sitemap
	}
	for _, pure := range [2]bool{true, false} {
		for i := range r.rules {
			if rule := &r.rules[i]; rule.pure == pure && rule.match(link, found) {
				return rule.class
			}
		}
	}
	return frontier.Bulk
}

// Pure reports whether the rule of a class depends only on the URL. A URL of such a class has the
// same class however it is found.
func (r *Rules) Pure(class frontier.Class) bool {
	rule := r.rule(class)
	return rule != nil && rule.pure
}

const (
	bulk         = "bulk"
	sitemapFiles = "sitemap-files"
)

// Name returns the name of a class, or "" if there is no such class.
func (r *Rules) Name(class frontier.Class) string {
	if rule := r.rule(class); rule != nil {
		return rule.Name
	}
	switch class {
	case frontier.Bulk:
		return bulk
	case frontier.Sitemap:
		return sitemapFiles
	}
	return ""
}

// Text returns the rule of a class as it was given, or "" if the class has no rule.
func (r *Rules) Text(class frontier.Class) string {
	if rule := r.rule(class); rule != nil {
		return rule.Text
	}
	if class == frontier.Sitemap {
		return "sitemap files are always exact"
	}
	return ""
}

// ClassOf returns the exact class with this name, and whether there is one.
func (r *Rules) ClassOf(name string) (frontier.Class, bool) {
	if name == sitemapFiles {
		return frontier.Sitemap, true
	}
	if rule := r.named(name); rule != nil {
		return rule.class, true
	}
	return frontier.Bulk, false
}

// Given returns the rules in the order in which they were given to NewRules, each with a Name.
func (r *Rules) Given() []Rule {
	given := make([]Rule, len(r.rules))
	for i, rule := range r.rules {
		given[i] = rule.Rule
	}
	return given
}

// Texts returns the rules in the form that ParseTexts parses, with the names that they were given.
func (r *Rules) Texts() []string {
	texts := make([]string, len(r.rules))
	for i, rule := range r.Given() {
		texts[i] = rule.Text
		if rule.Name != "" && rule.Name != rule.Text {
			texts[i] = rule.Name + ": " + rule.Text
		}
	}
	return texts
}

// String returns the rules in the form that ParseTexts parses, without names.
func (r *Rules) String() string {
	if len(r.rules) == 0 {
		return "none"
	}
	texts := make([]string, len(r.rules))
	for i, rule := range r.rules {
		texts[i] = rule.Text
	}
	return strings.Join(texts, ",")
}

// rule returns the rule of a class, or nil if the class has no rule.
func (r *Rules) rule(class frontier.Class) *rule {
	return r.first(func(rule *rule) bool { return rule.class == class })
}

// named returns the rule whose class has this name, or nil if there is none.
func (r *Rules) named(name string) *rule {
	return r.first(func(rule *rule) bool { return rule.Name == name })
}

func (r *Rules) first(is func(*rule) bool) *rule {
	for i := range r.rules {
		if is(&r.rules[i]) {
			return &r.rules[i]
		}
	}
	return nil
}

// names returns the names of the exact classes, in the order of their numbers.
func (r *Rules) names() []string {
	var names []string
	for class := frontier.Class(1); class < Classes; class++ {
		if name := r.Name(class); name != "" {
			names = append(names, name)
		}
	}
	return names
}
