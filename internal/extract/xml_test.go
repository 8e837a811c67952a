package extract

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// documents are XHTML documents, with the facts that Chromium has of them: see chromium_test.go.
var documents = []struct {
	name, body string
	chromium   string
	ours       string // if it differs from chromium on purpose
}{
	{name: "ends of elements", body: xhtml("", "<title/><script src='s'/><style/>", "<textarea/><div/><iframe src='f'/><a href='a'/><p/><a href='b'>x</a>"),
		chromium: "a /dir/a, a /dir/b, frame /dir/f, script /dir/s, title t"},
	{name: "void elements", body: xhtml("", "<base href='/b/'></base><link rel='next' href='n'></link>", "<br></br><img src='i'></img><a href='a'>x</a>"),
		chromium: "a /b/a, base /b/, img /b/i, link /b/n, title t"},
	{name: "prefix", body: "<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:head><h:title>t</h:title></h:head><h:body><h:a href='a'>x</h:a><a href='no'/></h:body></h:html>",
		chromium: "a /dir/a, title t"},
	{name: "other namespace", body: xhtml("", "", "<x xmlns='http://example.org/'><a href='no'/><base href='/no/'/></x><a href='a'/>"),
		chromium: "a /dir/a, title t"},
	{name: "prefix of SVG", body: xhtml("", "", "<s:svg xmlns:s='http://www.w3.org/2000/svg' xmlns:l='http://www.w3.org/1999/xlink'><s:a l:href='a'/><s:title>no</s:title><s:style/></s:svg><a href='b'/>"),
		chromium: "a /dir/a, a /dir/b, title t"},
	{name: "CDATA", body: xhtml("", "<script><![CDATA[ if (a < b) '</script><a href=\"no\">' ]]></script>", "<p><![CDATA[<a href='no'/>]]></p><a href='a'>x</a>"),
		chromium: "a /dir/a, title t"},
	{name: "upper case", body: xhtml("", "", "<A href='no'>x</A><a HREF='no'>x</a><a href='a'>x</a>"), chromium: "a /dir/a, title t"},
	{name: "entities", body: xhtml("<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'http://www.w3.org/TR/xhtml1/DTD/xhtml1-strict.dtd'>", "",
		"<a href='a?b=1&amp;c=2&#x41;&eacute;&apos;'>x</a>"), chromium: "a /dir/a?b=1&c=2A%C3%A9%27, title t"},
	{name: "internal subset", body: xhtml("<!DOCTYPE html [<!ENTITY e \"<a href='no'>]>\"> <!-- ]> -->]>", "", "<a href='a'>x</a>"), chromium: "a /dir/a, title t"},
	{name: "instructions", body: xhtml("<?xml version='1.0'?><?x <a href='no'>?>", "", "<?x > <a href='no'/> ?><!-- > <a href='no'/> --><a href='a'>x</a>"),
		chromium: "a /dir/a, title t"},
	{name: "xml:base", body: xhtml("", "", "<div xml:base='/b/'><a href='a'>x</a></div>"), chromium: "a /dir/a, title t"},
	{name: "template", body: xhtml("", "", "<template><a href='no'/><base href='/no/'/></template><a href='a'>x</a>"), chromium: "a /dir/a, title t"},
	{name: "not well-formed", body: xhtml("", "", "<p><a href='a'>x</p><br><a href=b>x</a>&nbsp; a < b & c <a href='d'"), ours: "a /dir/a, a /dir/b, a /dir/d, title t"},
}

func TestDocumentsOfXML(t *testing.T) {
	for _, d := range documents {
		page := read(t, d.body, "application/xhtml+xml", Options{Assets: true})
		want := d.chromium
		if d.ours != "" {
			want = d.ours
		}
		if diff := gocmp.Diff(want, strings.Join(facts(page), ", ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", d.name, diff)
		}
		if n := page.Document().Find("a").Length(); n == 0 {
			t.Errorf("%s: no <a> in the document", d.name)
		}
	}
}

// TestChromiumDocumentsOfXML compares the column chromium with a browser.
func TestChromiumDocumentsOfXML(t *testing.T) {
	b := startBrowser(t)
	for _, d := range documents {
		if d.chromium == "" { // it shows an error
			continue
		}
		lines := strings.Split(strings.TrimSpace(b.show(served{"application/xhtml+xml", d.body}, false)), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "charset ") })
		slices.Sort(lines)
		if diff := gocmp.Diff(d.chromium, strings.Join(lines, ", ")); diff != "" {
			t.Errorf("%s (-want +browser):\n%s", d.name, diff)
		}
	}
}

// FuzzXML: reading never panics, and the output is bounded by the input. At the end its memory is
// reserved, and no other.
func FuzzXML(f *testing.F) {
	for _, d := range documents {
		f.Add(d.body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		held := int64(0)
		out := htmlOf([]byte(body), func(more int64) bool { held += more; return true })
		if held != int64(cap(out)) {
			t.Errorf("%d bytes are reserved for %d", held, cap(out))
		}
		if len(out) > 12*len(body)+64 {
			t.Errorf("%d bytes became %d", len(body), len(out))
		}
	})
}

// TestIsXHTML: browsers show XML as a page if its first element is <html> in the namespace of XHTML.
func TestIsXHTML(t *testing.T) {
	const root = `<html xmlns="http://www.w3.org/1999/xhtml">`
	for _, c := range []struct {
		begin, contentType string
		want               bool
	}{
		{root, "text/xml", true},
		{root, "application/xml; charset=utf-8", true},
		{root, "application/vnd.wap.xhtml+xml", true},
		{root, "text/html", false},
		{root, "text/plain", false},
		{"\ufeff<?xml version='1.0'?>\n<!DOCTYPE html [<!ENTITY x \"<rss>\">]><!-- <rss> --><?xml-stylesheet href='x'?>\n" + root, "text/xml", true},
		{"<h:html lang='en' xmlns:h='http://www.w3.org/1999/xhtml'>", "text/xml", true},
		{"<html xmlns:h='http://www.w3.org/1999/xhtml'>", "text/xml", false},
		{"<h:html xmlns='http://www.w3.org/1999/xhtml'>", "text/xml", false},
		{"<html>", "text/xml", false},
		{"<HTML xmlns='http://www.w3.org/1999/xhtml'>", "text/xml", false},
		{"<div xmlns='http://www.w3.org/1999/xhtml'>", "text/xml", false},
		{"<x>" + root, "text/xml", false},
		{"x" + root, "text/xml", false},
		{"<html xmlns='http://www.w3.org/1999/xhtml", "text/xml", false},
		{"", "text/xml", false},
		{utf16("\ufeff"+root, true), "text/xml", true},
		{utf16(root, false), "text/xml", true},
	} {
		if got := IsXHTML([]byte(c.begin), c.contentType); got != c.want {
			t.Errorf("%q as %s: %t, want %t", c.begin, c.contentType, got, c.want)
		}
	}
}
