package robots

import "strings"

// Tag is what a page asks of crawlers in a robots meta tag or an X-Robots-Tag
// header. It is of no standard: Google's description is what sites follow. The
// zero value asks for nothing.
type Tag struct {
	Nofollow bool // follow no link of the page
	Noindex  bool // do not show the page in search results
}

// With returns what both ask for: of tags that contradict each other the
// stricter holds.
func (t Tag) With(other Tag) Tag {
	return Tag{Nofollow: t.Nofollow || other.Nofollow, Noindex: t.Noindex || other.Noindex}
}

// MetaTag reads <meta name=… content=…>. It says nothing unless name is
// "robots" or productToken.
func MetaTag(name, content, productToken string) (tag Tag) {
	name = strings.TrimSpace(name)
	if !strings.EqualFold(name, "robots") && !isToken(name, productToken) {
		return Tag{}
	}
	for word := range strings.FieldsFuncSeq(content, func(r rune) bool { return r == ',' || r <= ' ' }) {
		tag.add(word)
	}
	return tag
}

// HeaderTag reads the values of all X-Robots-Tag headers of one answer. A
// directive is for every crawler, unless a name and a colon stand before it or
// earlier in its value: "noindex, otherbot: nofollow, noarchive" asks all for
// the first and otherbot for the rest.
func HeaderTag(values []string, productToken string) (tag Tag) {
	for _, value := range values {
		ours := true
		for directive := range strings.SplitSeq(value, ",") {
			directive = strings.TrimSpace(directive)
			if name, rest, found := strings.Cut(directive, ":"); found {
				name = strings.TrimSpace(name)
				if !isAgent(name) {
					continue // a directive with a value, or the time in a date
				}
				ours, directive = name == "*" || isToken(name, productToken), strings.TrimSpace(rest)
			}
			if ours {
				tag.add(directive)
			}
		}
	}
	return tag
}

// add takes one directive. Others than these ask for nothing that concerns us.
func (t *Tag) add(directive string) {
	switch strings.ToLower(directive) {
	case "none":
		t.Nofollow, t.Noindex = true, true
	case "nofollow":
		t.Nofollow = true
	case "noindex":
		t.Noindex = true
	}
}

// isAgent reports whether what stands before a colon names a crawler: it is a
// word, and none of the directives that have values.
func isAgent(name string) bool {
	switch strings.ToLower(name) {
	case "", "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return false
	case "*":
		return true
	}
	return ProductToken(name) == name
}

func isToken(name, productToken string) bool {
	return productToken != "" && strings.EqualFold(name, productToken)
}
