package testweb

import "fmt"

// charsets is a hardship: pages whose links depend on the charset in which the page is
// decoded. A byte order mark takes precedence over the Content-Type header, and the
// header takes precedence over a meta element (HTML, 13.2.3). Paths are always encoded in
// UTF-8, but queries in the page's charset (URL, 4.4). If a page declares a wrong
// charset, its links lead to other URLs. These URLs are the same in every browser.
var charsets = hardship{
	bit: Charsets, name: "charsets",
	doc: "wrong, late and missing charsets, with links that depend on them",
	corner: func(c *corners) {
		s := c.site("charsets.corner.test")
		s.enter("/")
		for _, p := range []struct {
			name, charset string // name is part of the paths; charset is that of the header
			head          string // HTML before the title
			text          string // in title and links, as bytes of the page
			title         string // text, decoded
			path, query   string // text in the URLs of the links
		}{
			{name: "latin1", charset: "iso-8859-1", text: "\xe9", title: "é", path: "%C3%A9", query: "%E9"},
			{name: "latin1-meta", head: `<meta charset="iso-8859-1">`, text: "\xe9", title: "é", path: "%C3%A9", query: "%E9"},
			{name: "latin1-equiv", head: `<meta content="text/html; charset=windows-1252" http-equiv=content-type>`, text: "\x80", title: "€", path: "%E2%82%AC", query: "%80"},
			{name: "utf8", charset: "utf-8", text: "é", title: "é", path: "%C3%A9", query: "%C3%A9"},
			{name: "utf8-meta", head: `<meta charset="UTF8">`, text: "é", title: "é", path: "%C3%A9", query: "%C3%A9"},
			{name: "utf8-unsaid", text: "é", title: "é", path: "%C3%A9", query: "%C3%A9"},
			{name: "utf8-as-latin1", charset: "ISO-8859-1", text: "é", title: "Ã©", path: "%C3%83%C2%A9", query: "%C3%A9"},
			{name: "latin1-as-utf8", charset: "utf-8", text: "\xe9", title: "\ufffd", path: "%EF%BF%BD", query: "%EF%BF%BD"},
			{name: "header-first", charset: "windows-1251", head: `<meta charset="utf-8">`, text: "\xe4\xe0", title: "да", path: "%D0%B4%D0%B0", query: "%E4%E0"},
			{name: "mark-first", charset: "windows-1251", head: "\ufeff", text: "да", title: "да", path: "%D0%B4%D0%B0", query: "%D0%B4%D0%B0"},
			{name: "reference", charset: "windows-1251", text: "&#960;", title: "π", path: "%CF%80", query: "%26%23960%3B"},
			{name: "shift-jis", head: `<meta charset=Shift_JIS>`, text: "\x93\xfa\x96\x7b", title: "日本", path: "%E6%97%A5%E6%9C%AC", query: "%93%FA%96{"},
			{name: "euc-kr", charset: `"euc-kr"`, text: "\xc7\xd1", title: "한", path: "%ED%95%9C", query: "%C7%D1"},
			{name: "gb18030", charset: "gb2312", text: "\xd6\xd0", title: "中", path: "%E4%B8%AD", query: "%D6%D0"},
		} {
			html := p.head + "<!DOCTYPE html><title>" + p.text + "</title><a href=\"/to/" + p.name + "/" + p.text + "\">x</a> <a href=\"/to/" + p.name + "?q=" + p.text + "\">y</a>"
			page := s.addListed("/in/"+p.name).document(p.title, []byte(html)).withType("text/html")
			if p.charset != "" {
				page.withType("text/html; charset=" + p.charset)
			}
			s.pages("/to/"+p.name+"/"+p.path, "/to/"+p.name+"?q="+p.query)
		}
		for _, bigEndian := range []bool{false, true} {
			name := fmt.Sprintf("utf16-%t", bigEndian)
			text := "\ufeff<!DOCTYPE html><meta charset=utf-8><title>дом</title><a href='/to/" + name + "/дом?q=дом'>x</a>"
			s.addListed("/in/"+name).document("дом", utf16Bytes(text, bigEndian)).withType("text/html")
			s.pages("/to/" + name + "/%D0%B4%D0%BE%D0%BC?q=%D0%B4%D0%BE%D0%BC")
		}
	},
}

// utf16Bytes encodes text in UTF-16. All its characters must be below U+10000.
func utf16Bytes(text string, bigEndian bool) (b []byte) {
	for _, r := range text {
		high, low := byte(r>>8), byte(r)
		if bigEndian {
			b = append(b, high, low)
		} else {
			b = append(b, low, high)
		}
	}
	return b
}
