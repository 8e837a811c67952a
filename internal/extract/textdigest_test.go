package extract

import (
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier/canon"
)

// digestOf returns the digest of the text of an HTML body.
func digestOf(t testing.TB, body, contentType string) string {
	t.Helper()
	form, err := canon.New(canon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	base, err := form.Parse("http://a.test/")
	if err != nil {
		t.Fatal(err)
	}
	return string(HTML([]byte(body), contentType, base, Options{Canon: form}).TextDigest)
}

// TestTextDigest: the digest is that of the visible text without white space, and of nothing else.
func TestTextDigest(t *testing.T) {
	sum := sha256.Sum256([]byte("Notfound&é"))
	want := string(sum[:])
	for _, body := range []string{
		"Not found &amp; é",
		"<title>One</title><body><p>Not</p>\n<p>found &#38; &eacute;</p>",
		`<title>Two</title><script>var a = "<b>x</b>"</script><style>p{}</style><a href="/other" title="y">Not <b>found</b></a> & é<!-- z -->`,
		"Not found&&eacute;",
		"Not found&#x26;&#233",
		"Not<template>hidden</template> found & <!-- no --><textarea>typed</textarea> é",
	} {
		if got := digestOf(t, body, "text/html; charset=utf-8"); got != want {
			t.Errorf("the digest of %q is %x, want %x", body, got, want)
		}
	}
	if got := digestOf(t, "Not found & \xe9", "text/html; charset=iso-8859-1"); got != want {
		t.Errorf("the digest in another charset is %x, want %x", got, want)
	}
	for _, body := range []string{"Not found & e", "Not found", "Not found & é é"} {
		if got := digestOf(t, body, "text/html; charset=utf-8"); got == want || got == "" {
			t.Errorf("%q has the digest %x", body, got)
		}
	}
	for _, body := range []string{"", " \n", "<title>One</title><script>x</script>", "<!-- x -->"} {
		if got := digestOf(t, body, "text/html"); got != "" {
			t.Errorf("%q shows no text, but has the digest %x", body, got)
		}
	}
}

// TestTextDigestReadsAll: text beyond the limits of other readers counts.
func TestTextDigestReadsAll(t *testing.T) {
	body := strings.Repeat("<p>word &amp; word</p>\n", 50_000)
	sum := sha256.Sum256([]byte(strings.Repeat("word&word", 50_000)))
	if got := digestOf(t, body, "text/html"); got != string(sum[:]) {
		t.Errorf("the digest of a long page is %x, want %x", got, sum)
	}
}
