package robots

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

// The names of lines about the use of content. The binary form of rules numbers
// them in this order.
const (
	ContentUsage  = "Content-Usage"  // a rule of draft-ietf-aipref-attach
	ContentSignal = "Content-Signal" // of contentsignals.org
	License       = "License"        // of Really Simple Licensing
)

var useNames = [...]string{ContentUsage, ContentSignal, License}

// These limits bound the lines that are kept of a group, and of the part before the first group.
const (
	maxUseLines = 1000
	maxLicences = 16
)

// UseLine is a line of a robots.txt about the use of the content of paths. It neither allows nor forbids
// a request. Package robots does not interpret its value.
type UseLine struct {
	Name  string // ContentUsage, ContentSignal or License
	Path  string // a normalised pattern; "/" if the line has no path, and empty for License
	Value string // without the path; grobotstxt has escaped what is not ASCII
}

// useRule is a compiled UseLine.
type useRule struct {
	line  UseLine
	name  int // index in useNames
	rule  rule
	pairs pairSet
}

// addUseLine adds a line with an unknown key, if it is about the use of content.
//
// A Content-Usage is a rule of its group, like Allow, so a User-agent after it begins another group. A
// Content-Signal is not: as with Crawl-delay, it applies to the crawlers that are named so far. A License
// before the first group applies to all crawlers.
func (f *reader) addUseLine(key, value string) {
	line := UseLine{Path: "/", Value: strings.Clone(repair(value))}
	at := slices.IndexFunc(useNames[:], func(name string) bool { return strings.EqualFold(name, key) })
	if at < 0 {
		return
	}
	if line.Name = useNames[at]; line.Name == License {
		line.Path = ""
		if !f.grouped && len(f.licences) < maxLicences && value != "" {
			f.licences = append(f.licences, line)
		}
	} else if strings.HasPrefix(line.Value, "/") {
		end := strings.IndexAny(line.Value, " \t")
		if end < 0 {
			end = len(line.Value)
		}
		line.Path, line.Value = normalisePattern(line.Value[:end]), strings.Trim(line.Value[end:], " \t")
	}
	f.rules = f.rules || line.Name == ContentUsage
	f.each(func(g *group) {
		if len(g.useLines) < maxUseLines {
			g.useLines = append(g.useLines, line)
		}
	})
}

// setUseLines compiles lines. It sorts them so that those with long patterns come first.
func (r *Rules) setUseLines(lines []UseLine) {
	for _, line := range lines {
		compiled := useRule{line: line, name: slices.Index(useNames[:], line.Name), rule: newRule(line.Path)}
		compiled.pairs = pairsOf(compiled.rule.pattern)
		r.useLines = append(r.useLines, compiled)
	}
	slices.SortStableFunc(r.useLines, func(a, b useRule) int {
		return cmp.Or(b.rule.length-a.rule.length, strings.Compare(a.line.Path, b.line.Path),
			strings.Compare(a.line.Name, b.line.Name), strings.Compare(a.line.Value, b.line.Value))
	})
	r.useLines = slices.CompactFunc(r.useLines, func(a, b useRule) bool { return a.line == b.line })
}

// UseLines returns the lines about the use of the content of a path, with its query. Patterns match as in
// Allowed. Of the lines with the same name, those with the longest pattern that matches are returned, and
// all those that are as long. Every License is returned. UseLines returns none for nil.
func (r *Rules) UseLines(pathAndQuery string) (lines []UseLine) {
	if r == nil || len(r.useLines) == 0 {
		return nil
	}
	path, folded := comparable(pathAndQuery)
	has, hasFolded := pairsOf(path), pairsOf(folded)
	longest := [len(useNames)]int{} // the length of the pattern that counts, by name
	for i := range r.useLines {
		u := &r.useLines[i]
		if u.rule.length < longest[u.name] {
			continue
		}
		if u.pairs.within(has) && u.rule.matches(path) || u.pairs.within(hasFolded) && u.rule.matches(folded) {
			longest[u.name] = u.rule.length
			lines = append(lines, u.line)
		}
	}
	return lines
}

// append appends the binary form of the line.
func (l *UseLine) append(b []byte) []byte {
	b = append(b, byte(slices.Index(useNames[:], l.Name)))
	for _, text := range []string{l.Path, l.Value} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return b
}

// readUseLines is the inverse of UseLine.append for many lines. Its error is ErrBinary.
func readUseLines(b []byte) (lines []UseLine, err error) {
	for len(b) > 0 {
		if int(b[0]) >= len(useNames) {
			return nil, ErrBinary
		}
		line := UseLine{Name: useNames[b[0]]}
		b = b[1:]
		for _, text := range []*string{&line.Path, &line.Value} {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, ErrBinary
			}
			*text, b = string(b[n:n+int(size)]), b[n+int(size):]
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// Pattern is a pattern of paths, as in Allow and Disallow.
type Pattern struct{ rule rule }

// NewPattern returns a pattern for paths with their queries, in which * stands for any characters, and $
// at its end for the end of the path.
func NewPattern(text string) Pattern { return Pattern{newRule(normalisePattern(text))} }

// Matches reports whether the pattern matches a path with its query.
func (p *Pattern) Matches(pathAndQuery string) bool {
	path, folded := comparable(pathAndQuery)
	return p.rule.matches(path) || p.rule.matches(folded)
}
