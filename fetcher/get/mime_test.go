package get

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestExtractMIMEType has the cases of the web platform tests for this algorithm
// (fetch/content-type/resources/content-types.json), and values of real servers.
func TestExtractMIMEType(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lines            []string
		essence, charset string
	}{
		{nil, "", ""},
		{[]string{""}, "", ""},
		{[]string{"", "text/plain"}, "text/plain", ""},
		{[]string{"text/plain", ""}, "text/plain", ""},
		{[]string{"text/html", "text/plain"}, "text/plain", ""},
		{[]string{"text/plain;charset=gbk", "text/html"}, "text/html", ""},
		{[]string{"text/plain;charset=gbk", "text/html;charset=windows-1254"}, "text/html", "windows-1254"},
		{[]string{"text/plain;charset=gbk", "text/plain"}, "text/plain", "gbk"},
		{[]string{"text/plain;charset=gbk", "text/plain;charset=windows-1252"}, "text/plain", "windows-1252"},
		{[]string{"text/html;charset=gbk", `text/html;x=",text/plain`}, "text/html", "gbk"},
		{[]string{"text/html;charset=gbk", "text/plain", "text/html"}, "text/html", ""},
		{[]string{"text/plain", "*/*"}, "text/plain", ""},
		{[]string{"text/html", "*/*"}, "text/html", ""},
		{[]string{"*/*", "text/html"}, "text/html", ""},
		{[]string{"text/plain", "*/*;charset=gbk"}, "text/plain", ""},
		{[]string{"text/html", "*/*;charset=gbk"}, "text/html", ""},
		{[]string{`text/html;x="`, "text/plain"}, "text/html", ""},
		{[]string{`text/html;"`, "text/plain"}, "text/html", ""},

		{[]string{"text/html; charset=utf-8"}, "text/html", "utf-8"},
		{[]string{"TEXT/HTML;Charset=KOI8-R"}, "text/html", "KOI8-R"},
		{[]string{"\ttext/html ;charset = utf-8"}, "text/html", ""}, // the name is "charset "
		{[]string{`text/html;charset="utf-8"x;y`}, "text/html", "utf-8"},
		{[]string{`text/html;charset="a\"b"`}, "text/html", `a"b`},
		{[]string{"text/html;charset=;charset=gbk"}, "text/html", "gbk"},
		{[]string{"text/html;charset=gbk;charset=utf-8"}, "text/html", "gbk"},
		{[]string{"text/html; charset=koi8-r; x"}, "text/html", "koi8-r"},
		{[]string{"text/html;;;"}, "text/html", ""},
		{[]string{"text/html,text/html"}, "text/html", ""},
		{[]string{"text/html, text/html; charset=utf-8"}, "text/html", "utf-8"},
		{[]string{"text/html; charset=gbk,text/html"}, "text/html", "gbk"},
		{[]string{"text/html,"}, "text/html", ""},
		{[]string{",text/html"}, "text/html", ""},
		{[]string{"text/html charset=utf-8"}, "", ""},
		{[]string{"text/html\xa0; charset=utf-8"}, "", ""},
		{[]string{"*/*"}, "", ""},
		{[]string{"*/html"}, "*/html", ""},
		{[]string{"html"}, "", ""},
		{[]string{"charset=utf-8"}, "", ""},
		{[]string{"; charset=utf-8"}, "", ""},
		{[]string{"text/"}, "", ""},
		{[]string{"/html"}, "", ""},
		{[]string{"text/html/xml"}, "", ""},
		{[]string{"Content-Type: text/html"}, "", ""},
		{[]string{`"text/html"`}, "", ""},
		{[]string{"text/html:charset=utf-8"}, "", ""},
		{[]string{"image/svg+xml"}, "image/svg+xml", ""},
	} {
		ways := [][]string{c.lines}
		if len(c.lines) > 1 {
			ways = append(ways, []string{strings.Join(c.lines, ", ")})
		}
		for _, lines := range ways {
			if got := extractMIMEType(lines); got != (mimeType{c.essence, c.charset}) {
				t.Errorf("%q has the type %q, want %q with charset %q", lines, got, c.essence, c.charset)
			}
		}
	}
}

// TestMIMETypeIsReadBack: String returns text that has the same type.
func TestMIMETypeIsReadBack(t *testing.T) {
	t.Parallel()
	for _, m := range []mimeType{{}, {"text/html", ""}, {"text/html", "utf-8"}, {"text/xml", `a;"b\,`}} {
		if got := extractMIMEType([]string{m.String()}); got != m {
			t.Errorf("%q is read as %q", m, got)
		}
	}
}

// TestSniff has every row of the tables of MIME Sniffing for HTML, XML, PDF and texts, and some rows
// of the tables for other types.
func TestSniff(t *testing.T) {
	t.Parallel()
	const html, xml, text, binary = "text/html", "text/xml", "text/plain", "application/octet-stream"
	type row struct{ begin, want string }
	rows := []row{
		{"<?xml version='1.0'?>", xml}, {" \t\r\n\f<?xml ", xml}, {"<?XML ", text},
		{"%PDF-1.7", "application/pdf"}, {" %PDF-1.7", text}, {"%pdf-", text},
		{"%!PS-Adobe-3.0", "application/postscript"},
		{"\xfe\xff\x00<\x00p", text}, {"\xff\xfe<\x00p\x00", text}, {"\xef\xbb\xbf<html>", text},
		{"GIF89a", "image/gif"}, {"\x89PNG\r\n\x1a\n", "image/png"}, {"\xff\xd8\xff", "image/jpeg"},
		{"PK\x03\x04", "application/zip"}, {"\x1f\x8b\x08", "application/x-gzip"},
		{"", text}, {"hello", text}, {"<", text}, {"<>", text}, {"<foo>", text}, {"x<html>", text}, {"<!-", text}, {"<!doctype", text},
		{"<html", text}, // nothing ends the tag
		{strings.Repeat(" ", sniffBytes-len("<p>")) + "<p>", html},
		{strings.Repeat(" ", sniffBytes-len("<p>")+1) + "<p>", text},
		{"text with \x1b[1mescapes\x1b[0m\t\f\r\n", text},
		{strings.Repeat("x", sniffBytes-1) + "\x00", binary},
		{strings.Repeat("x", sniffBytes) + "\x00", text},
		{strings.Repeat("x", 600) + "\x00<html>", binary},
		{"caf\xe9", text}, {"\xd0\xb6", text},
	}
	for c := range byte(0x20) {
		if !strings.ContainsRune("\t\n\f\r\x1b", rune(c)) {
			rows = append(rows, row{"a" + string(rune(c)), binary})
		}
	}
	for _, tag := range []string{"<!DOCTYPE HTML", "<HTML", "<HEAD", "<SCRIPT", "<IFRAME", "<H1", "<DIV", "<FONT", "<TABLE",
		"<A", "<STYLE", "<TITLE", "<B", "<BODY", "<BR", "<P", "<!--"} {
		rows = append(rows, row{tag + ">", html}, row{tag + " ", html}, row{strings.ToLower(tag) + ">", html},
			row{"\t\n\f\r " + tag + " x", html}, row{tag + "\n", text}, row{tag + "\t", text}, row{tag, text}, row{"." + tag + ">", text})
	}
	for _, c := range rows {
		if got := sniff([]byte(c.begin), true); got != c.want {
			t.Errorf("%.60q has the type %s, want %s", c.begin, got, c.want)
		}
		safe := c.want
		if safe == html || safe == xml || safe == "application/pdf" {
			safe = text
		}
		if got := sniff([]byte(c.begin), false); got != safe {
			t.Errorf("%.60q has the type %s without scripts, want %s", c.begin, got, safe)
		}
	}
}

// TestTypeOfAnswers: only a missing or unclear type is looked for in the body.
func TestTypeOfAnswers(t *testing.T) {
	t.Parallel()
	page := "<!DOCTYPE html><title>x</title>"
	for _, c := range []struct {
		types       []string
		nosniff     string
		body, want  string
		typeRefused bool
	}{
		{types: nil, body: page, want: "text/html"},
		{types: []string{""}, body: page, want: "text/html"},
		{types: []string{"*/*"}, body: page, want: "text/html"},
		{types: []string{"unknown/unknown"}, body: page, want: "text/html"},
		{types: []string{"application/unknown; charset=x"}, body: page, want: "text/html"},
		{types: []string{"text/html charset=utf-8"}, body: page, want: "text/html"},
		{types: []string{"html"}, body: page, want: "text/html"},
		{types: []string{"text/html", "charset"}, body: "x", want: "text/html"},
		{types: nil, body: "text", want: "text/plain", typeRefused: true},
		{types: []string{"*/*"}, body: "%PDF-1.4", want: "application/pdf", typeRefused: true},
		{types: []string{"text/plain"}, body: page, want: "text/plain", typeRefused: true},
		{types: []string{"application/octet-stream"}, body: page, want: "application/octet-stream", typeRefused: true},
		{types: nil, nosniff: "nosniff", body: page, want: "text/plain", typeRefused: true},
		{types: []string{"*/*"}, nosniff: "NoSniff, x", body: page, want: "text/plain", typeRefused: true},
		{types: nil, nosniff: "x, nosniff", body: page, want: "text/html"},
		{types: []string{"text/html"}, nosniff: "nosniff", body: page, want: "text/html"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = c.types // nil: net/http adds none
			if c.nosniff != "" {
				w.Header().Set("X-Content-Type-Options", c.nosniff)
			}
			io.WriteString(w, c.body)
		})
		r := mustGet(t, client(t, Config{}), Request{URL: url})
		if r.ContentType != c.want || r.TypeRefused != c.typeRefused {
			t.Errorf("%q (nosniff %q) with %.20q has the type %s, refused %t, want %s, %t", c.types, c.nosniff, c.body,
				r.ContentType, r.TypeRefused, c.want, c.typeRefused)
		}
		r.Release()
	}
}
