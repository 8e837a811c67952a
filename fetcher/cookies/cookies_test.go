package cookies

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t *testing.T, cfg Config) *Jar {
	t.Helper()
	j, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// sent returns what goes to a URL: the cookies, and after a bar the login.
func (j *Jar) sent(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	h := http.Header{}
	j.Add(h, u)
	return h.Get("Cookie") + "|" + h.Get("Authorization")
}

func (j *Jar) answer(raw string, cookies ...string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		panic(err)
	}
	return j.Note(u, http.Header{"Set-Cookie": cookies})
}

// TestFile: what goes to a URL from a file of cookies.
func TestFile(t *testing.T) {
	j := open(t, Config{File: file(t, "# Netscape HTTP Cookie File\r\n\n"+
		".a.test\tTRUE\t/\tFALSE\t0\tall\t1\n"+
		"#HttpOnly_a.test\tFALSE\t/p\tTRUE\t4102444800\thost\t2\n"+
		"#a comment\n"+
		"b.test\tFALSE\t/\tFALSE\t1\told\t3\n"+
		"b.test\tFALSE\t/\tFALSE\t4102444800.5\tfraction\t\n"+
		"co.uk\tTRUE\t/\tFALSE\t0\tsuffix\t5\n")})
	for u, want := range map[string]string{
		"http://a.test/": "all=1|", "https://a.test/p/q": "host=2; all=1|", "http://a.test/p/q": "all=1|", "https://x.a.test/p/": "all=1|",
		"https://a.test/pq": "all=1|", "http://nota.test/": "|", "http://b.test/": "fraction=|", "http://c.b.test/": "|", "http://x.co.uk/": "|",
	} {
		if got := j.sent(u); got != want {
			t.Errorf("%s gets %q, want %q", u, got, want)
		}
	}
	if j.answer("http://a.test/", "x=1") || j.sent("http://a.test/") != "all=1|" {
		t.Error("a cookie of an answer is kept without Keep")
	}
}

// TestKeep: cookies of answers, their attributes and bounds, and the file between runs.
func TestKeep(t *testing.T) {
	cfg := Config{Keep: true, Domains: []string{"*.Shared.test"}, KeepFile: filepath.Join(t.TempDir(), "kept"),
		File: file(t, "a.test\tFALSE\t/\tFALSE\t0\tid\told\n")}
	j := open(t, cfg)
	j.answer("https://a.test/x/y", "id=new; Path=/", "sub=1; Domain=a.test; Path=/", "dir=2", "sec=3; Secure; Max-Age=100; Path=/", "past=4; Max-Age=0; Path=/")
	j.answer("http://w.shared.test/", "s=1; Domain=shared.test", "evil=1; Domain=test")
	for u, want := range map[string]string{
		"http://a.test/": "id=new; sub=1|", "https://a.test/x/z": "dir=2; id=new; sub=1; sec=3|", "http://w.a.test/": "|",
		"http://v.shared.test/": "s=1|", "http://other.test/": "|",
	} {
		if got := j.sent(u); got != want {
			t.Errorf("%s gets %q, want %q", u, got, want)
		}
	}
	j.answer("http://a.test/", "sub=; Max-Age=0; Path=/")
	if got := j.sent("http://a.test/"); got != "id=new|" {
		t.Errorf("after the end of a cookie: %q", got)
	}
	if err := j.Save(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(cfg.KeepFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	again := open(t, cfg)
	for _, u := range []string{"http://a.test/", "https://a.test/x/z", "http://v.shared.test/", "http://w.a.test/"} {
		if got, want := again.sent(u), j.sent(u); got != want {
			t.Errorf("%s gets %q in the next run, want %q", u, got, want)
		}
	}
	for i := range 2 * MaxCookies {
		j.answer("http://many.test/", fmt.Sprintf("c%d=1", i))
	}
	if got := strings.Count(j.sent("http://many.test/"), "="); got != MaxCookies {
		t.Errorf("%d cookies of a host, want %d", got, MaxCookies)
	}
	if j.answer("http://long.test/", "c="+strings.Repeat("x", MaxBytes)) {
		t.Error("a cookie that is too long is kept")
	}
}

// TestLogins: the first pattern counts, and http only where it is named.
func TestLogins(t *testing.T) {
	j := open(t, Config{Logins: file(t, "# logins\nprivate.a.test basic user:pass\nhttp://*.a.test bearer TOKEN\n*.b.test bearer B\n")})
	for u, want := range map[string]string{
		"https://private.a.test/": "|Basic dXNlcjpwYXNz", "http://private.a.test/": "|Bearer TOKEN", "https://x.a.test:8443/": "|Bearer TOKEN",
		"https://x.b.test/": "|Bearer B", "http://x.b.test/": "|", "https://b.test/": "|", "https://a.test.evil.test/": "|",
	} {
		if got := j.sent(u); got != want {
			t.Errorf("%s gets %q, want %q", u, got, want)
		}
	}
	h := http.Header{"Authorization": {"given"}, "Cookie": {"c=1"}}
	j.Add(h, &url.URL{Scheme: "https", Host: "x.b.test"})
	if h.Get("Authorization") != "given" || h.Get("Cookie") != "c=1" {
		t.Errorf("headers that are given are changed: %v", h)
	}
}

// TestBadFiles: one error, which names the line and nothing secret.
func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"a.test\tTRUE\t/\tFALSE\t0\n":                    "line 1: it has 5 fields",
		"\na.test\tmaybe\t/\tFALSE\t0\tsecret\tsecret\n": "line 2: want a domain",
		"a.test\tTRUE\tp\tFALSE\t0\tsecret\tsecret\n":    "line 1: want a domain",
		"a.test TRUE / FALSE 0 secret secret\n":          "line 1: it has 1 fields",
	} {
		if _, err := Open(Config{File: file(t, text)}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	for text, want := range map[string]string{"a.test basic secret\n": "USER:PASSWORD", "a.test digest secret\n": "basic or bearer", "a.test secret\n": "2 words"} {
		if _, err := Open(Config{Logins: file(t, text)}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
	name := file(t, "")
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{File: name}); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
}
