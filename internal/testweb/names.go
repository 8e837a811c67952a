package testweb

import (
	"cmp"
	"strconv"
	"strings"
)

// A hostForm is a form of host names. Most names have the plain form. Others have
// subdomains, another top-level domain, or letters outside ASCII. No such name exists
// on the internet (RFC 2606).
type hostForm struct{ prefix, suffix, unicode string } // unicode is suffix in Unicode, or empty

// plainForm is the form of most hosts. otherForms has the forms of the other hosts, by
// the host's number modulo 16.
var (
	plainForm  = hostForm{prefix: "h", suffix: ".test"}
	otherForms = [16]hostForm{
		3:  {prefix: "www.h", suffix: ".test"},
		5:  {prefix: "h", suffix: ".example"},
		7:  {prefix: "news.h", suffix: ".co.test"},
		9:  {prefix: "h", suffix: ".xn--bcher-kva.test", unicode: ".bücher.test"},
		12: {prefix: "h", suffix: ".example"},
		13: {prefix: "h", suffix: ".xn--mnchen-3ya.test", unicode: ".münchen.test"},
		15: {prefix: "a.b.h", suffix: ".test"},
	}
)

func formOf(host int) hostForm { return cmp.Or(otherForms[host%len(otherForms)], plainForm) }

// appendHost appends the canonical name of a host, for example h000017.test.
func appendHost(dst []byte, host int) []byte {
	form := formOf(host)
	dst = append(dst, form.prefix...)
	dst = appendPadded(dst, host)
	return append(dst, form.suffix...)
}

// appendPadded appends n with at least six digits.
func appendPadded(dst []byte, n int) []byte {
	for limit := 100_000; limit > max(n, 1); limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

func hostName(host int) string { return string(appendHost(nil, host)) }

// parseHost is the reverse of appendHost. It also returns numbers that are larger
// than those of the web's hosts.
func parseHost(name string) (host int, known bool) {
	for label := range strings.SplitSeq(name, ".") {
		if digits, is := strings.CutPrefix(label, "h"); is && len(digits) >= 6 {
			n, err := strconv.Atoi(digits)
			var have [64]byte
			return n, err == nil && n >= 0 && string(appendHost(have[:0], n)) == name
		}
	}
	return 0, false
}

// A style is a form of a page's path: prefix, page number, suffix.
type style struct {
	prefix, suffix string
	other          []string // other spellings whose canonical form is prefix
}

// The styles of a page's path. Those from styleTilde to styleSemicolon occur only
// with the hardship Spellings. The last six match, or nearly match, rules of
// robots.txt.
const (
	styleHTML = iota
	styleArticle
	styleQuery
	styleFolder
	styleTilde
	styleAccent
	styleSpace
	styleParens
	styleCopy
	styleSemicolon
	stylePrivate     // under /private/
	stylePrivateOpen // under /private/open/
	styleScript      // ends in .cgi
	styleScriptOpen  // .cgi with a query
	stylePrint       // /print?…print=1
	stylePrintOpen   // /print? without print=1

	plainStyles   = styleTilde
	spelledStyles = stylePrivate
)

var styles = [...]style{
	styleHTML:        {prefix: "/p/", suffix: ".html"},
	styleArticle:     {prefix: "/articles/2024/", suffix: ""},
	styleQuery:       {prefix: "/item?id=", suffix: "&lang=en"},
	styleFolder:      {prefix: "/Docs/Guide/", suffix: "/"},
	styleTilde:       {prefix: "/~ada/notes/", suffix: ".html", other: []string{"/%7Eada/notes/", "/%7eada/notes/", "/~%61da/notes/"}},
	styleAccent:      {prefix: "/caf%C3%A9/", suffix: "", other: []string{"/caf%c3%a9/", "/café/", "/caf%C3%a9/"}},
	styleSpace:       {prefix: "/red%20fox/", suffix: ".html", other: []string{"/red fox/", "/%72ed%20fox/"}},
	styleParens:      {prefix: "/wiki/Fox_(animal)-", suffix: ""},
	styleCopy:        {prefix: "/read?doc=", suffix: "&copy=2"}, // a crawler must not read &copy= as ©=
	styleSemicolon:   {prefix: "/view;v=1/", suffix: ".html"},
	stylePrivate:     {prefix: "/private/", suffix: ".html"},
	stylePrivateOpen: {prefix: "/private/open/", suffix: ".html"},
	styleScript:      {prefix: "/cgi-bin/", suffix: ".cgi"},
	styleScriptOpen:  {prefix: "/cgi-bin/", suffix: ".cgi?run=1"},
	stylePrint:       {prefix: "/print?doc=", suffix: "&print=1"},
	stylePrintOpen:   {prefix: "/print?doc=", suffix: "&view=1"},
}

// styleOf returns the style of p's path, as an index of styles. p is not a root page.
func (w *Web) styleOf(p page) int {
	bits := w.draw(forStyle, p)
	if w.isMix() && w.fateOf(p) == fateRobots {
		return stylePrivate
	}
	if w.has(Robots) {
		if s, decided := robotsStyle(p, w.fateOf(p) == fateRobots, bits); decided {
			return s
		}
	}
	if w.has(Spellings) {
		return int(bits % spelledStyles)
	}
	return int(bits % plainStyles)
}

func (w *Web) appendPath(dst []byte, p page) []byte {
	if p.index == 0 {
		return append(dst, '/')
	}
	s := &styles[w.styleOf(p)]
	dst = append(dst, s.prefix...)
	dst = strconv.AppendInt(dst, int64(p.index), 10)
	return append(dst, s.suffix...)
}

// parsePath is the reverse of appendPath. It accepts no other spelling of a path.
func (w *Web) parsePath(host int, path string) (p page, known bool) {
	if path == "/" {
		return page{host, 0}, true
	}
	for i := range styles {
		middle, begins := strings.CutPrefix(path, styles[i].prefix)
		middle, ends := strings.CutSuffix(middle, styles[i].suffix)
		if !begins || !ends {
			continue
		}
		index, err := strconv.Atoi(middle)
		if err != nil || index < 1 || index >= w.shape.size(host) {
			continue
		}
		var room [64]byte
		if p = (page{host, index}); string(w.appendPath(room[:0], p)) == path {
			return p, true
		}
	}
	return page{}, false
}
