package extract

import (
	"cmp"
	"strings"
	"testing"
)

// Links of pages in several charsets: to да in windows-1251, ä in windows-1252, 日 in shift_jis.
const (
	russian  = "<a href='/\xe4\xe0?\xe4\xe0'>x</a>"
	japanese = "<a href='/\x93\xfa?\x93\xfa'>x</a>"
)

var late = "<title>t</title><!--" + strings.Repeat(" ", 1100) + "-->"

// encodings are bodies whose charset is named in all kinds of places. The column chromium is the
// charset and the link that Chromium has: see chromium_test.go.
var encodings = []struct {
	name, contentType, body string
	chromium                string
	ours                    string // if it differs from chromium on purpose
}{
	{name: "header", contentType: "text/html; charset=windows-1251", body: russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "header, upper case", contentType: "TEXT/HTML; CHARSET=WINDOWS-1251", body: russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "header, label", contentType: "text/html; charset=x-cp1251", body: russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "header, quoted", contentType: `text/html; charset="windows-1251"`, body: russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "header, single quotes", contentType: `text/html; charset='windows-1251'`, body: russian, chromium: "windows-1252 /%C3%A4%C3%A0?%E4%E0"},
	{name: "header, unknown, then meta", contentType: "text/html; charset=martian", body: "<meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "header, empty, then meta", contentType: "text/html; charset=", body: "<meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "header, then meta", contentType: "text/html; charset=windows-1251", body: "<meta charset=shift_jis>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "mark, then header", contentType: "text/html; charset=windows-1251", body: "\xef\xbb\xbf<meta charset=shift_jis><a href='/ä?ä'>x</a>", chromium: "utf-8 /%C3%A4?%C3%A4"},
	{name: "mark of UTF-16", contentType: "text/html; charset=windows-1251", body: utf16("\ufeff<a href='/ä?ä'>x</a>", false), chromium: "utf-16le /%C3%A4?%C3%A4"},
	{name: "mark of UTF-16, big endian", contentType: "text/html", body: utf16("\ufeff<a href='/ä?ä'>x</a>", true), chromium: "utf-16be /%C3%A4?%C3%A4"},
	{name: "header, UTF-16", contentType: "text/html; charset=utf-16", body: utf16("<a href='/ä?ä'>x</a>", false), chromium: "utf-16le /%C3%A4?%C3%A4"},
	{name: "header, unicode", contentType: "text/html; charset=unicode", body: utf16("<a href='/ä?ä'>x</a>", false), chromium: "utf-16le /%C3%A4?%C3%A4"},
	{name: "header, unicodefffe", contentType: "text/html; charset=unicodefffe", body: utf16("<a href='/ä?ä'>x</a>", true), chromium: "utf-16be /%C3%A4?%C3%A4"},
	{name: "header, replacement", contentType: "text/html; charset=hz-gb-2312", body: "<a href='/a?b'>x</a>", chromium: "replacement", ours: "utf-8 /a?b"},
	{name: "header, user-defined", contentType: "text/html; charset=x-user-defined", body: russian, chromium: "x-user-defined /%EF%9F%A4%EF%9F%A0?%E4%E0"},
	{name: "meta", body: "<meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta, spaces and quotes", body: "<meta charset = ' Windows-1251\t'/>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta, upper case", body: "<META CHARSET=WINDOWS-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta, slash", body: "<meta/charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta, unknown, then another", body: "<meta charset=martian><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "two metas", body: "<meta charset=windows-1251><meta charset=shift_jis>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta of UTF-16", body: "<meta charset=utf-16><a href='/ä?ä'>x</a>", chromium: "utf-8 /%C3%A4?%C3%A4"},
	{name: "meta of UTF-16, big endian", body: "<meta charset=utf-16be><a href='/ä?ä'>x</a>", chromium: "utf-8 /%C3%A4?%C3%A4"},
	{name: "meta of unicode", body: "<meta charset=unicode><a href='/ä?ä'>x</a>", chromium: "utf-8 /%C3%A4?%C3%A4"},
	{name: "meta, user-defined", body: "<meta charset=x-user-defined>" + russian, chromium: "windows-1252 /%C3%A4%C3%A0?%E4%E0"},
	{name: "meta, latin1 is windows-1252", body: "<meta charset=latin1><a href='/\x80?\x80'>x</a>", chromium: "windows-1252 /%E2%82%AC?%80"},
	{name: "pragma", body: "<meta http-equiv=Content-Type content='text/html; charset=windows-1251'>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "pragma, content first", body: "<meta content='text/html;charset=windows-1251' http-equiv=content-type>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "pragma, spaces", body: "<meta http-equiv=content-type content='text/html; charset = windows-1251 ; x'>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "pragma, quotes", body: `<meta http-equiv=content-type content="text/html; charset='windows-1251'">` + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "pragma, open quote", body: `<meta http-equiv=content-type content="text/html; charset='windows-1251"><meta charset=shift_jis>` + japanese, chromium: "shift_jis /%E6%97%A5?%93%FA"},
	{name: "pragma, word twice", body: "<meta http-equiv=content-type content='charset charset=windows-1251'>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "pragma, no type", body: "<meta http-equiv=content-type content='charset=windows-1251'>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "content without pragma", body: "<meta content='text/html; charset=shift_jis'><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "pragma with space", body: "<meta http-equiv=' content-type' content='text/html; charset=shift_jis'><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "charset and pragma", body: "<meta charset=windows-1251 http-equiv=content-type content='text/html; charset=shift_jis'>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta in a comment", body: "<!-- <meta charset=shift_jis> --><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta in an attribute", body: "<p title='<meta charset=shift_jis>'><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "metadata", body: "<metadata charset=shift_jis><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta after an instruction", body: "<?php x ?><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "late meta in head", body: late + "<meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "late meta, UTF-8", body: late + "<meta charset=utf-8><a href='/ä?ä'>x</a>", chromium: "utf-8 /%C3%A4?%C3%A4"},
	{name: "late pragma in head", body: late + "<meta http-equiv=content-type content='text/html; charset=windows-1251'>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "late meta in body", body: late + "<body><p>x</p>" + strings.Repeat(" ", 1100) + "<meta charset=windows-1251>" + russian, chromium: "windows-1252 /%C3%A4%C3%A0?%E4%E0", ours: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "meta on the border", body: "<!--" + strings.Repeat(" ", 1000) + "--><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "declaration", body: "<?xml version='1.0' encoding='windows-1251'?>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "declaration, double quotes", body: `<?xml version="1.0" encoding = "windows-1251" ?>` + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "declaration, then meta", body: "<?xml version='1.0' encoding='shift_jis'?><meta charset=windows-1251>" + russian, chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "declaration, then late meta", body: "<?xml version='1.0' encoding='windows-1251'?>" + late + "<meta charset=shift_jis>" + russian, chromium: "shift_jis /%E8%90%B5?%E4%E0"},
	{name: "declaration, UTF-16", body: "<?xml version='1.0' encoding='utf-16'?><a href='/ä?ä'>x</a>", chromium: "utf-8 /%C3%A4?%C3%A4"},
	{name: "declaration after a space", body: " <?xml version='1.0' encoding='shift_jis'?>" + "<a href='/a?b'>x</a>", chromium: "windows-1252 /a?b", ours: "utf-8 /a?b"},
	{name: "declaration, UTF-16 without mark", body: utf16("<?xml version='1.0'?><a href='/ä?ä'>x</a>", false), chromium: "utf-16le /%C3%A4?%C3%A4"},
	{name: "declaration, big endian without mark", body: utf16("<?xml version='1.0'?><a href='/ä?ä'>x</a>", true), chromium: "utf-16be /%C3%A4?%C3%A4"},
	{name: "none, windows-1252", body: "<title>\xe4</title><a href='/\xe4?\xe4'>x</a>", chromium: "windows-1252 /%C3%A4?%E4"},
	{name: "none, UTF-8", body: "<title>ä ö ü ß</title><a href='/ä?ä'>x</a>", chromium: "windows-1252 /%C3%83%C2%A4?%C3%A4", ours: "utf-8 /%C3%A4?%C3%A4"},
	{name: "XHTML, declaration", contentType: "application/xhtml+xml", body: xhtml("<?xml version='1.0' encoding='windows-1251'?>", "", russian), chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "XHTML, declaration, then meta", contentType: "application/xhtml+xml",
		body: xhtml("<?xml version='1.0' encoding='windows-1251'?>", "<meta charset='shift_jis'/>", russian), chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "XHTML, meta", contentType: "application/xhtml+xml", body: xhtml("", "<meta charset='shift_jis'/>", "<a href='/ä?ä'>x</a>"), chromium: "utf-8 /%C3%A4?%C3%A4"},
	{name: "XHTML, header", contentType: "application/xhtml+xml; charset=windows-1251",
		body: xhtml("<?xml version='1.0' encoding='shift_jis'?>", "", russian), chromium: "windows-1251 /%D0%B4%D0%B0?%E4%E0"},
	{name: "XHTML, none", contentType: "application/xhtml+xml", body: xhtml("", "", "<a href='/ä?ä'>x</a>"), chromium: "utf-8 /%C3%A4?%C3%A4"},
}

// utf16 returns a text in UTF-16.
func utf16(text string, bigEndian bool) string {
	var b strings.Builder
	for _, r := range text {
		high, low := byte(r>>8), byte(r)
		if !bigEndian {
			high, low = low, high
		}
		b.WriteByte(high)
		b.WriteByte(low)
	}
	return b.String()
}

func xhtml(declaration, head, body string) string {
	return declaration + "<html xmlns='http://www.w3.org/1999/xhtml'><head><title>t</title>" + head + "</head><body>" + body + "</body></html>"
}

func TestEncodings(t *testing.T) {
	for _, e := range encodings {
		page := read(t, e.body, cmp.Or(e.contentType, "text/html"), Options{})
		got := page.Charset
		for _, l := range page.Links {
			got += " " + strings.TrimPrefix(l.URL.String(), "https://www.example.org")
		}
		if want := cmp.Or(e.ours, e.chromium); got != want {
			t.Errorf("%s: got %q, want %q", e.name, got, want)
		}
	}
}

// TestChromiumEncodings compares the column chromium with a browser.
func TestChromiumEncodings(t *testing.T) {
	b := startBrowser(t)
	for _, e := range encodings {
		charset, links := "", ""
		for line := range strings.Lines(b.show(served{cmp.Or(e.contentType, "text/html"), e.body}, false)) {
			word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch word {
			case "charset":
				charset = value
			case "a":
				links += " " + value
			}
		}
		if charset+links != e.chromium {
			t.Errorf("%s: got %q in the browser, want %q", e.name, charset+links, e.chromium)
		}
	}
}
