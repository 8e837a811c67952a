package testweb

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// spellings is a hardship: half of all links are not written in their canonical form.
// They are relative, with or without <base href>, or have different case, a default
// port, a user, dot segments, needless or missing percent-encoding, fragments, tracking
// parameters, character references, spaces around them, line ends within them,
// backslashes, or hosts in Unicode. Pages also repeat links, and contain text that only
// looks like links. A crawler that computes a wrong canonical form requests a URL that
// the web does not have.
var spellings = hardship{
	bit: Spellings, name: "spellings",
	doc: "links spelled in many ways, and things that look like links",
}

// A base is the host and folder that the relative links of a page are resolved against.
type base struct {
	host   int
	folder string // path up to its last slash
	tag    string // the page's <base> element, or empty
}

// baseOf returns the base of the links of p.
func (w *Web) baseOf(p page) base {
	drawn := w.draw(forBase, p)
	if w.has(Spellings) {
		switch drawn % 8 {
		case 0:
			return base{p.host, "/base/of/pages/", `<base href="/base/of/pages/">`}
		case 1:
			host := int(drawn >> 8 % uint64(w.shape.hosts()))
			return base{host, "/else/where/", `<base target=_top href=" ` + w.scheme + `://` + hostName(host) + `/else/where/x.html#top">`}
		}
	}
	path := w.appendPath(nil, p)
	path, _, _ = bytes.Cut(path, []byte("?"))
	return base{p.host, string(path[:bytes.LastIndexByte(path, '/')+1]), ""}
}

// A spelling is a link as it is written in a page.
type spelling struct {
	value     []byte // the attribute's value
	quote     byte   // the quote around the value; 0 means none
	ampersand string // how "&" in the value is written
}

// spelled decides at random whether the next link of a page is written in a form other
// than the canonical one.
func (w *Web) spelled(d *dice) bool { return w.has(Spellings) && d.oneIn(2) }

// spell returns a spelling of a link to t from a page with the given base.
func (w *Web) spell(d *dice, from base, t target) spelling {
	value := w.spellOrigin(d, from, t)
	if d.oneIn(6) {
		value = append(value, [...]string{"#top", "#sec-2", "#/a?b&c=d", "#"}[d.intn(4)]...)
	}
	quote := [...]byte{'"', '"', '\'', 0}[d.intn(4)]
	ampersand := [...]string{"&amp;", "&amp;", "&#38;", "&#x26;", "&"}[d.intn(5)]
	switch d.intn(12) {
	case 0:
		value = []byte("  " + string(value) + " ")
		quote = '"'
	case 1: // the URL standard removes tabs and line ends everywhere
		middle := len(value) / 2
		for !utf8.RuneStart(value[middle]) {
			middle--
		}
		value = []byte("\n\t" + string(value[:middle]) + "\n" + string(value[middle:]) + "\t\n")
		quote, ampersand = '\'', "&amp;" // a bare & is unsafe: "&copy\n" is a character reference, "&copy=" is not
	}
	if bytes.ContainsAny(value, " \n\t") && quote == 0 {
		quote = '"'
	}
	return spelling{value, quote, ampersand}
}

// spellOrigin returns an absolute or relative URL of t, without a fragment.
func (w *Web) spellOrigin(d *dice, from base, t target) []byte {
	path := w.spellPath(d, t)
	isLocal := t.kind != aDeadPage && w.hostOf(t) == from.host
	switch form := d.intn(4); {
	case form == 0 && isLocal:
		return []byte(dotted(d, path))
	case form == 1 && isLocal:
		return []byte(relative(d, from.folder, path))
	}
	host, port, user, scheme := w.spellHost(d, t), "", "", w.scheme+"://"
	if d.oneIn(5) {
		port = w.defaultPort()
	}
	switch d.intn(8) {
	case 0:
		scheme = "//"
	case 1:
		scheme = strings.ToUpper(scheme)
	case 2:
		user = "user:secret@"
	case 3: // in http and https URLs a backslash before the query is a slash
		path, query, hasQuery := strings.Cut(path, "?")
		path = strings.ReplaceAll(path, "/", `\`)
		if hasQuery {
			path += "?" + query
		}
		return []byte(w.scheme + `:\\` + host + port + path)
	}
	return []byte(scheme + user + host + port + dotted(d, path))
}

// defaultPort returns the default port of the scheme, with a colon.
func (w *Web) defaultPort() string {
	if w.cfg.TLS {
		return ":443"
	}
	return ":80"
}

// spellHost returns the host of t, sometimes in different case or in Unicode.
func (w *Web) spellHost(d *dice, t target) string {
	name := string(w.appendTargetHost(nil, t))
	if t.kind != aDeadPage {
		if form := formOf(w.hostOf(t)); form.unicode != "" && d.oneIn(2) {
			name = strings.TrimSuffix(name, form.suffix) + form.unicode
		}
	}
	switch d.intn(6) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return strings.ToUpper(name[:2]) + name[2:]
	}
	return name
}

// spellPath returns the path and query of t, sometimes with different percent-encoding
// or with tracking parameters.
func (w *Web) spellPath(d *dice, t target) string {
	path := string(w.appendTargetPath(nil, t))
	if t.kind == aPage && t.page.index > 0 {
		s := &styles[w.styleOf(t.page)]
		if len(s.other) > 0 && d.oneIn(2) {
			path = s.other[d.intn(len(s.other))] + path[len(s.prefix):]
		}
	}
	if !d.oneIn(5) {
		return path
	}
	tracking := [...]string{
		"utm_source=feed", "utm_medium=rss&utm_campaign=a+b", "gclid=Cj0K_x-9", "fbclid=IwAR0abc",
	}[d.intn(4)]
	before, query, hasQuery := strings.Cut(path, "?")
	switch {
	case !hasQuery:
		return path + "?" + tracking
	case d.oneIn(2):
		return before + "?" + tracking + "&" + query
	}
	return path + "&" + tracking
}

// dotted returns an absolute path, to which it sometimes adds dot segments.
func dotted(d *dice, path string) string {
	if !d.oneIn(5) {
		return path
	}
	return [...]string{"/.", "/x/..", "/%2e", "/x/y/../%2E%2e", "/../.."}[d.intn(5)] + path
}

// relative returns a path in relative form, for links from a folder.
func relative(d *dice, folder, path string) string {
	if below, is := strings.CutPrefix(path, folder); is && below != "" && below[0] != '?' && !d.oneIn(4) {
		return [...]string{"", "./", "a/../"}[d.intn(3)] + below
	}
	up := strings.Repeat("../", strings.Count(folder, "/")-1)
	if up == "" {
		up = "./"
	}
	return up + path[1:]
}

func (s spelling) appendAttribute(dst []byte, name string) []byte {
	dst = append(append(dst, name...), '=')
	html := bytes.ReplaceAll(s.value, []byte("&"), []byte(s.ampersand))
	if s.quote == 0 {
		return append(dst, html...)
	}
	dst = append(dst, s.quote)
	return append(append(dst, html...), s.quote)
}

// The numbers of links in noLinks that a correct crawl refuses: links with other
// schemes, and links that are not valid URLs.
const (
	noLinksSchemes   = 5
	noLinksMalformed = 2
)

// noLinks is HTML with links that a correct crawl does not follow: links with
// other schemes or invalid hosts, and text that only looks like a link.
const noLinks = `<div class="none"><!-- <a href="/decoy/comment.html">old</a> -->
<script>var s = '<a href="/decoy/script.html">no</a>';</script>
<textarea><a href="/decoy/textarea.html">no</a></textarea>
<a name="top">here</a> <a title="href=/decoy/title.html">no</a>
<a href="mailto:somebody@h000000.test">mail</a> <a href="javascript:void(0)">menu</a>
<a href="tel:+1-555-0100">call</a> <a href="data:text/html,hello">data</a>
<a href="ftp://h000000.test/decoy">files</a> <a href="http://bad host.test/">bad</a>
<a href="http://[::1/">worse</a> <img src="/decoy/picture.png" alt="">
</div>
`
