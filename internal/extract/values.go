package extract

import (
	"iter"
	"strings"
)

// This file has the small grammars of attribute values.

func isSpace(c byte) bool {
	return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r'
}

func trimSpace(s string) string { return strings.TrimLeft(s, " \t\n\f\r") }

// words returns the words of s, which are separated by white space and commas.
func words(s string) iter.Seq[string] {
	return strings.FieldsFuncSeq(s, func(r rune) bool {
		return r == ',' || r < 0x80 && isSpace(byte(r))
	})
}

// hasWord reports whether word, in lower case, is one of the words of s.
func hasWord(s, word string) bool {
	for w := range words(s) {
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}

// candidates returns the URLs of a srcset such as "a.png 1x, b.png 2x". A comma ends a
// candidate only after its URL or its descriptor, not within them.
func candidates(set string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			set = strings.TrimLeft(set, " \t\n\f\r,")
			end := strings.IndexAny(set, " \t\n\f\r")
			if end < 0 {
				end = len(set)
			}
			url := strings.TrimRight(set[:end], ",")
			if url == "" || !yield(url) {
				return
			}
			if set = set[len(url):]; set != "" && set[0] == ',' {
				continue // no descriptor
			}
			set = afterDescriptor(set)
		}
	}
}

// afterDescriptor returns the part of s after the first comma outside parentheses.
func afterDescriptor(s string) string {
	open := false
	for i := range len(s) {
		switch {
		case s[i] == '(':
			open = true
		case s[i] == ')':
			open = false
		case s[i] == ',' && !open:
			return s[i+1:]
		}
	}
	return ""
}

// refreshTarget returns the URL of a refresh such as "5; url='next.html'", or "" if there is
// none.
func refreshTarget(content string) string {
	s := trimSpace(content)
	rest := strings.TrimLeft(s, "0123456789.")
	if len(rest) == len(s) || rest == "" || !isSpace(rest[0]) && rest[0] != ';' && rest[0] != ',' {
		return ""
	}
	rest = trimSpace(rest)
	if rest != "" && (rest[0] == ';' || rest[0] == ',') {
		rest = trimSpace(rest[1:])
	}
	if len(rest) >= 3 && strings.EqualFold(rest[:3], "url") {
		if value, found := strings.CutPrefix(trimSpace(rest[3:]), "="); found {
			rest = trimSpace(value)
		}
	}
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		rest, _, _ = strings.Cut(rest[1:], rest[:1])
	}
	return rest
}
