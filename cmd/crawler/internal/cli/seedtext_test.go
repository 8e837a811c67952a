package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// What people type as a host is one, and what cannot be a host is refused.
func TestParseSeed(t *testing.T) {
	c, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for seed, want := range map[string]string{
		"example.org": "https://example.org/", "example.org/a,b": "https://example.org/a,b", "localhost:8080": "https://localhost:8080/",
		"intranet": "https://intranet/", "127.0.0.1:80/x:y": "https://127.0.0.1:80/x:y", "[::1]:8080/": "https://[::1]:8080/",
		"//example.org/": "https://example.org/", "example.org?q=a@b:c": "https://example.org/?q=a@b:c", "EXAMPLE.org.": "https://example.org/",
		"bücher.example": "https://xn--bcher-kva.example/", "a_b.example": "https://a_b.example/",
		"http://example.org/a:b@c": "http://example.org/a:b@c", "http://example.org:81": "http://example.org:81/", "http:example.org": "http://example.org/",

		"/etc/passwd": "it begins with a slash", "foo:": "what follows the colon is no port", "mailto:a@b.test": "what follows the colon is no port",
		"root:x:0:0:root:/root:/bin/sh": "what follows the colon is no port", "user:1@a.test": "what follows the colon is no port",
		"a@b.test": "it has an @", "url,title,date": `"url,title,date" cannot be a host`, "url;title": `"url;title" cannot be a host`,
		"http://url,title/": `"url,title" cannot be a host`, "url\ttitle": "it has a tab in it", "http://a.test/\tTitle": "it has a tab in it",
		"ftp://a.test/": "neither http nor https", "": "it is empty", "a b": "is no URL", "$HOME": `"$home" cannot be a host`,
	} {
		url, err := seed.Parse(c, seed)
		got := url.String()
		if err != nil {
			got = seed.Fault(seed, err, seed.WantSeed)
		}
		if got != want && (err == nil || !strings.Contains(got, want)) {
			t.Errorf("%q: %s, want %s", seed, got, want)
		}
	}
}

// A seed that may have a password is not shown with it.
func TestShownSeed(t *testing.T) {
	for seed, want := range map[string]string{
		"http://a.test/": "http://a.test/", "http://a.test/@x": "http://a.test/@x", "http://a.test:80/@x": "http://a.test:80/@x",
		"http://u:p@a.test/@x": "http://…@a.test/@x", "http://u:p@q@a.test/": "http://…@a.test/", "https://token@a.test": "https://…@a.test",
		"http://u:p/q@a.test/": "http://…@a.test/", "http://u:p?q#r@a.test": "http://…@a.test", "u:p@a.test": "…@a.test",
	} {
		if got := seed.Shown(seed); got != want {
			t.Errorf("%s is shown as %s, want %s", seed, got, want)
		}
		bare, had := seed.WithoutCredentials(seed)
		if had != (bare != seed) || had && strings.TrimPrefix(bare, "https://") != "a.test" && strings.Index(bare, "http://a.test/") != 0 {
			t.Errorf("%s without credentials is %s, had some: %t", seed, bare, had)
		}
	}
}

// Lines that are no seeds are reported with their place and counted; the others
// are crawled. Credentials are reported, and their password is nowhere: not on
// the terminal, in no file, in no line that resumes.
func TestSeedsOfAllKinds(t *testing.T) {
	t.Chdir(t.TempDir())
	list := "url,title,date\nhttp://u:geheim@a.test/\n/etc/passwd\nb.test\nfoo:\nhttp://u:ge/heim@c.test/\n"
	if err := os.WriteFile("list.txt", []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	crawl := []string{"crawl", "--dir", "x.crawl", "--refused", "refused.jsonl", "--robots", "ignore", "--retries", "0", "--delay", "0",
		"--connect-to", "*=127.0.0.1:1", "--max-time", "1ns"}
	_, out, errs := run(t, "", append(crawl, "--seeds", "list.txt", "http://u:geheim@d.test/")...)
	for _, want := range []string{
		"warning: argument: the user name and password in http://…@d.test/ are not used; to send them crawl with -H 'Authorization: Basic",
		"to go on: ",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("no %q in\n%s", want, errs)
		}
	}
	_, more, errs2 := run(t, "", "seed", "--dir", "x.crawl", "--seeds", "list.txt")
	for _, want := range []string{
		`seed refused: list.txt:1: "url,title,date" is no URL: "url,title,date" cannot be a host; want a URL such as https://example.org/, or a host`,
		"warning: list.txt:2: the user name and password in http://…@a.test/ are not used",
		`seed refused: list.txt:3: "/etc/passwd" is no URL: it begins with a slash`,
		`seed refused: list.txt:5: "foo:" is no URL: what follows the colon is no port`,
		`seed refused: list.txt:6: "http://…@c.test/" is no URL`,
	} {
		if !strings.Contains(errs2, want) {
			t.Errorf("no %q in\n%s", want, errs2)
		}
	}
	if !strings.HasPrefix(more, "6 seeds: ") || !strings.HasSuffix(more, " 4 refused\n") {
		t.Errorf("seed says %q, want 4 of 6 refused", more)
	}
	if strings.Contains(out+errs+more+errs2, "heim") {
		t.Errorf("a password is shown:\n%s%s%s%s", out, errs, more, errs2)
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == "list.txt" {
			return err
		}
		text, err := os.ReadFile(name)
		if strings.Contains(string(text), "heim") {
			t.Errorf("%s has a password", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
