package extract

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/atom"
)

// littleText is the number of characters, without white space, that a page may have and still seem empty.
const littleText = 200

// hasLink reports whether the page has a link that a reader can follow to another page or program. The
// frames of a page are not counted, because some are in a <noscript>.
func (c *collector) hasLink() bool {
	for _, r := range c.references {
		if r.kind <= Refresh && r.text != "" && !hasPrefixFold(strings.TrimSpace(r.text), "javascript:") {
			return true
		}
	}
	return c.tooMany > 0
}

// mayNeedScript reports whether scripts may build the content of a page without links. Such a page has a
// script, other than those of services that count visitors, and no frame. Also, it has only little text,
// or it asks for JavaScript in a <noscript>.
//
// It makes no copy of the text, except of a few KiB.
func mayNeedScript(text []byte) bool {
	s := scriptScan{text: text}
	for s.next() {
	}
	return s.scripts && !s.frames && (s.asks || s.length <= littleText)
}

// scriptScan reads a page for mayNeedScript, from one tag to the next.
type scriptScan struct {
	text            []byte
	scripts, frames bool
	asks            bool // a <noscript> asks for JavaScript
	length          int  // characters of visible text so far, without white space
	templates       int  // open templates, whose content is not shown
}

// next reads the text before the next tag, and the tag. It returns false at the end.
func (s *scriptScan) next() bool {
	start := bytes.IndexByte(s.text, '<')
	if start < 0 {
		s.show(s.text)
		return false
	}
	s.show(s.text[:start])
	rest := s.text[start:]
	size := 0
	switch {
	case len(rest) < 2:
		return false
	case bytes.HasPrefix(rest, []byte("<!--")):
		size = commentEnd(rest)
	case isLetter(rest[1]):
		return s.startTag(rest)
	case rest[1] == '/' || rest[1] == '!' || rest[1] == '?':
		size = tagEnd(rest)
		if rest[1] == '/' && len(rest) > 2 && isLetter(rest[2]) && tagName(rest[1:]) == atom.Template && s.templates > 0 {
			s.templates--
		}
	default:
		size = 1 // the < is text
	}
	s.text = rest[size:]
	return size > 0
}

// startTag reads a start tag, and the element if its content is no visible text.
func (s *scriptScan) startTag(rest []byte) bool {
	tag, size := tagName(rest), tagEnd(rest)
	if size == 0 {
		return false
	}
	s.text = rest[size:]
	switch tag {
	case atom.Template:
		if mode, _ := attributeOf(rest[:size], "shadowrootmode"); mode == "" || s.templates > 0 {
			s.templates++ // a shadow tree is shown
		}
	case atom.Frame:
		s.frames = s.frames || hasAttribute(rest[:size], "src")
	case atom.Noscript:
		content, ended := untilEndTag(s.text, "noscript")
		s.asks = s.asks || bytes.Contains(bytes.ToLower(content[:min(len(content), maxNoscript)]), []byte("javascript"))
		s.text = s.text[len(content):]
		return ended
	}
	if !isRawText(tag) {
		return true
	}
	content, ended := untilEndTag(s.text, tag.String())
	switch {
	case s.templates > 0:
	case tag == atom.Iframe:
		s.frames = s.frames || hasAttribute(rest[:size], "src")
	case tag == atom.Script:
		s.scripts = s.scripts || buildsPages(rest[:size], content)
	}
	s.text = s.text[len(content):]
	return ended
}

// maxNoscript is the number of bytes of a <noscript> that are read.
const maxNoscript = 4 << 10

// show counts text of the page.
func (s *scriptScan) show(text []byte) {
	if s.templates > 0 || s.length > littleText {
		return
	}
	if bytes.IndexByte(text, '&') >= 0 {
		text = []byte(plainText(text[:min(len(text), 16*littleText)]))
	}
	for len(text) > 0 && s.length <= littleText {
		r, size := utf8.DecodeRune(text)
		if text = text[size:]; !unicode.IsSpace(r) {
			s.length++
		}
	}
}

func hasAttribute(tag []byte, name string) bool {
	value, has := attributeOf(tag, name)
	return has && value != ""
}

// buildsPages reports whether a browser runs a script, and the script is not one of a service that counts
// visitors.
func buildsPages(tag, content []byte) bool {
	kind, _ := attributeOf(tag, "type")
	kind = essence(kind)
	if kind != "" && kind != "module" && !strings.Contains(kind, "javascript") && !strings.Contains(kind, "ecmascript") &&
		kind != "text/babel" && kind != "text/jsx" {
		return false
	}
	if src, has := attributeOf(tag, "src"); has {
		return src != "" && !containsAny(strings.ToLower(src), countingServices)
	}
	return len(bytes.TrimSpace(content)) > 0 && !containsAny(string(content[:min(len(content), maxNoscript)]), countingCode)
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// countingServices are parts of the URLs of scripts that count visitors or show advertisements.
var countingServices = []string{
	"googletagmanager.com", "google-analytics.com", "googlesyndication.com", "doubleclick.net", "connect.facebook.net",
	"plausible.io", "matomo", "piwik", "hotjar.com", "clarity.ms", "mc.yandex.ru", "cloudflareinsights.com", "/cdn-cgi/",
	"hs-scripts.com", "usefathom.com", "zgo.at", "simpleanalyticscdn.com", "umami", "statcounter.com", "gtag/js", "analytics.js",
}

// countingCode are parts of the code with which pages call such scripts.
var countingCode = []string{
	"dataLayer", "gtag(", "GoogleAnalyticsObject", "_gaq", "_paq", "fbq(", "_hjSettings", "clarity.ms", "mc.yandex.ru", "plausible",
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
