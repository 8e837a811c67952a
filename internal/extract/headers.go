package extract

import (
	"strings"

	"golang.org/x/net/html"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// MaxHeaderLinks is how many links of Link headers are read.
const MaxHeaderLinks = 1000

// Headers reads the headers, by canonical name, of the answer from url that mean what an element of a page means:
// Refresh is a meta element with http-equiv=refresh, and each link of a Link header (RFC 8288) is a
// link element. Their references are relative to url, never to a base element. A link with another
// anchor is about another page and is ignored.
func Headers(header map[string][]string, url canon.URL, opt Options) *Page {
	opt.Hold, opt.OnPiece = nil, nil // there are few links
	page := &Page{opt: opt}
	found := newCollector(opt)
	if all := header["Refresh"]; len(all) > 0 {
		if target := refreshTarget(all[0]); target != "" {
			found.addRefresh(target)
		}
	}
	read := 0
	for _, value := range header["Link"] {
		for value != "" && read < MaxHeaderLinks {
			var link headerLink
			link, value = nextLink(value)
			if link.valid && !link.elsewhere(url, opt.Canon) {
				found.link(link.attributes())
				read++
			}
		}
	}
	found.finish(page, url, nil)
	return page
}

// headerLink is a link of a Link header.
type headerLink struct {
	target     string
	parameters map[string]string // by name in lower case; the first one of a name counts
	valid      bool
}

// elsewhere reports whether the link has an anchor that is not the page at url.
func (l *headerLink) elsewhere(url canon.URL, c *canon.Canonicalizer) bool {
	anchor, has := l.parameters["anchor"]
	if !has {
		return false
	}
	context, err := c.Join(url, anchor)
	return err != nil || context != url || strings.Contains(anchor, "#")
}

// attributes returns the attributes of the link element with the same meaning.
func (l *headerLink) attributes() []html.Attribute {
	attrs := []html.Attribute{{Key: "href", Val: l.target}}
	for _, name := range []string{"rel", "type", "imagesrcset"} {
		if value, has := l.parameters[name]; has {
			attrs = append(attrs, html.Attribute{Key: name, Val: value})
		}
	}
	return attrs
}

const headerSpace = " \t\r\n"

// nextLink returns the first link of the value of a Link header, and what follows its comma. It
// reads the value as RFC 8288, appendix B says, and skips text that is no link up to a comma.
func nextLink(value string) (link headerLink, rest string) {
	value = strings.TrimLeft(value, headerSpace+",")
	if !strings.HasPrefix(value, "<") {
		_, rest, _ = strings.Cut(value, ",")
		return link, rest
	}
	target, value, closed := strings.Cut(value[1:], ">")
	if !closed {
		return link, ""
	}
	link = headerLink{target: strings.Trim(target, headerSpace), parameters: map[string]string{}, valid: true}
	for {
		value = strings.TrimLeft(value, headerSpace)
		if !strings.HasPrefix(value, ";") {
			break
		}
		var name, text string
		name, text, value = nextParameter(value[1:])
		if _, known := link.parameters[name]; !known && name != "" {
			link.parameters[name] = text
		}
	}
	_, rest, _ = strings.Cut(value, ",")
	return link, rest
}

// nextParameter returns the first parameter of a link, and what follows it.
func nextParameter(s string) (name, text, rest string) {
	s = strings.TrimLeft(s, headerSpace)
	end := strings.IndexAny(s, "=;,")
	if end < 0 {
		end = len(s)
	}
	name, s = strings.ToLower(strings.TrimRight(s[:end], headerSpace)), s[end:]
	if !strings.HasPrefix(s, "=") {
		return name, "", s
	}
	s = strings.TrimLeft(s[1:], headerSpace)
	if strings.HasPrefix(s, `"`) {
		text, rest = unquote(s)
		return name, text, rest
	}
	if end = strings.IndexAny(s, ";,"); end < 0 {
		end = len(s)
	}
	return name, strings.TrimRight(s[:end], headerSpace), s[end:]
}

// unquote returns the content of the quoted string that s begins with, and what follows it.
func unquote(s string) (text, rest string) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// HeaderLanguage returns the language of a Content-Language header, or "" unless it names exactly
// one.
func HeaderLanguage(header map[string][]string) string {
	language := strings.Trim(strings.Join(header["Content-Language"], ","), headerSpace)
	if len(language) > 35 || strings.ContainsFunc(language, func(r rune) bool {
		return r != '-' && (r > 'z' || r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a')
	}) {
		return ""
	}
	return language
}
