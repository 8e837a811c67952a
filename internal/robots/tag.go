package robots

import "strings"

// A page can ask crawlers to follow none of its links. It does so in a robots meta tag or in
// an X-Robots-Tag header. There is no standard for these directives, so sites follow Google's
// description. Other directives, such as noindex, are not about crawling.

// MetaNofollow reports whether <meta name=… content=…> asks to follow no link. It reports
// false unless name is "robots" or productToken.
func MetaNofollow(name, content, productToken string) bool {
	return MetaHas(name, content, productToken, isNofollow)
}

// MetaHas reports whether <meta name=… content=…> has a directive for which the function is
// returns true. It reports false unless name is "robots" or productToken.
func MetaHas(name, content, productToken string, is func(directive string) bool) bool {
	name = strings.TrimSpace(name)
	if !strings.EqualFold(name, "robots") && !isToken(name, productToken) {
		return false
	}
	for word := range strings.FieldsFuncSeq(content, func(r rune) bool { return r == ',' || r <= ' ' }) {
		if is(word) {
			return true
		}
	}
	return false
}

// HeaderNofollow reports whether the values of all X-Robots-Tag headers of one answer ask to
// follow no link (see HeaderHas).
func HeaderNofollow(values []string, productToken string) bool {
	return HeaderHas(values, productToken, isNofollow)
}

// HeaderHas reports whether the values of all X-Robots-Tag headers of one answer have a directive
// for this crawler for which the function is returns true. A directive is for every crawler, unless
// a name and a colon come before it in its value. For example, in "nofollow, otherbot: none,
// noarchive", the first directive is for all crawlers, and the directives none and noarchive are
// only for otherbot.
func HeaderHas(values []string, productToken string, is func(directive string) bool) bool {
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
			if ours && is(directive) {
				return true
			}
		}
	}
	return false
}

func isNofollow(directive string) bool {
	return strings.EqualFold(directive, "nofollow") || strings.EqualFold(directive, "none")
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
