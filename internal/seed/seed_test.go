package seed_test

import (
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
	"github.com/bloomfrontier/crawler/internal/seed"
)

// TestParseSeed: a host as people type it is a seed, and text that cannot be a host is refused.
func TestParseSeed(t *testing.T) {
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"example.org": "https://example.org/", "example.org/a,b": "https://example.org/a,b", "localhost:8080": "https://localhost:8080/",
		"intranet": "https://intranet/", "127.0.0.1:80/x:y": "https://127.0.0.1:80/x:y", "[::1]:8080/": "https://[::1]:8080/",
		"//example.org/": "https://example.org/", "example.org?q=a@b:c": "https://example.org/?q=a@b:c", "EXAMPLE.org.": "https://example.org/",
		"example.org/in?next=https://a.test/":   "https://example.org/in?next=https://a.test/",
		"u:p@example.org/?next=https://a.test/": "the text after the colon is no port",
		"bücher.example":                        "https://xn--bcher-kva.example/", "a_b.example": "https://a_b.example/",
		"http://example.org/a:b@c": "http://example.org/a:b@c", "http://example.org:81": "http://example.org:81/", "http:example.org": "http://example.org/",

		"/etc/passwd": "it begins with a slash", "foo:": "the text after the colon is no port", "mailto:a@b.test": "the text after the colon is no port",
		"root:x:0:0:root:/root:/bin/sh": "the text after the colon is no port", "user:1@a.test": "the text after the colon is no port",
		"a@b.test": "it has an @", "url,title,date": `"url,title,date" cannot be a host`, "url;title": `"url;title" cannot be a host`,
		"http://url,title/": `"url,title" cannot be a host`, "url\ttitle": "it contains a tab", "http://a.test/\tTitle": "it contains a tab",
		"ftp://a.test/": "neither http nor https", "": "it is empty", "a b": "is no URL", "$HOME": `"$home" cannot be a host`,
	} {
		url, err := seed.Parse(c, text)
		got := url.String()
		if err != nil {
			got = seed.Fault(text, err, seed.WantSeed)
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("Parse(%q) = %s, want %s", text, got, want)
		}
	}
}

// TestShownWithoutPassword: a seed is shown without its password.
func TestShownWithoutPassword(t *testing.T) {
	for text, want := range map[string]string{
		"http://a.test/": "http://a.test/", "http://a.test/@x": "http://a.test/@x", "http://a.test:80/@x": "http://a.test:80/@x",
		"http://u:p@a.test/@x": "http://…@a.test/@x", "http://u:p@q@a.test/": "http://…@a.test/", "https://token@a.test": "https://…@a.test",
		"http://u:p/q@a.test/": "http://…@a.test/", "http://u:p?q#r@a.test": "http://…@a.test", "u:p@a.test": "…@a.test",
		"u:p@a.test/?x=http://b.test": "…@a.test/?x=http://b.test",
	} {
		if got := seed.Shown(text); got != want {
			t.Errorf("Shown(%s) = %s, want %s", text, got, want)
		}
		bare, had := seed.WithoutCredentials(text)
		if had != (bare != text) || had && strings.TrimPrefix(bare, "https://") != "a.test" && strings.Index(bare, "http://a.test/") != 0 {
			t.Errorf("WithoutCredentials(%s) = %s, %t", text, bare, had)
		}
	}
}
