package robots

import "strings"

// Tag is what a page asks of crawlers in a robots meta tag or an X-Robots-Tag header.
// There is no standard, so sites follow Google's description. The zero value asks for
// nothing.
type Tag struct {
	Nofollow bool // follow no link of the page
	Noindex  bool // do not show the page in search results
}

// With returns a tag that asks for everything that t or other asks for.
func (t Tag) With(other Tag) Tag {
	return Tag{Nofollow: t.Nofollow || other.Nofollow, Noindex: t.Noindex || other.Noindex}
}

// MetaTag parses <meta name=… content=…>. It returns the zero Tag unless name is
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

// HeaderTag parses the values of all X-Robots-Tag headers of one answer. A directive is
// for every crawler, unless a name and a colon come before it in its value: "noindex,
// otherbot: nofollow, noarchive" asks noindex of all crawlers, and nofollow and noarchive
// only of otherbot.
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

// add adds one directive. It ignores unknown directives.
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

// isAgent reports whether the text before a colon names a crawler. It must be a single word,
// and not a directive that has a value.
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
