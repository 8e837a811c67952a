package get

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestRedact: values of secrets are replaced, and only values of headers.
func TestRedact(t *testing.T) {
	c := &Client{private: http.Header{"X-Api-Key": {"k"}, "Host": {"h"}}}
	secrets := c.secrets(Request{Header: http.Header{"x-token": {"t"}, "Accept-Language": {"de"}}})
	request := "GET /Cookie:x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Cookie: c\r\nproxy-authorization: Basic p\r\ncookie: c=1\r\nX-API-KEY:k\r\n" +
		"X-Token: t\r\nAccept-Language: de\r\nSignature-Agent: sig1=\"https://b.test\"\r\nSignature: sig1=:s:\r\nSignature-Input: sig1=()\r\n\r\n"
	const want = "GET /Cookie:x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Cookie: c\r\ncookie: redacted\r\nX-API-KEY: redacted\r\n" +
		"X-Token: redacted\r\nAccept-Language: de\r\nSignature-Agent: sig1=\"https://b.test\"\r\nSignature: redacted\r\nSignature-Input: redacted\r\n\r\n"
	got, names := redact([]byte(request), secrets)
	if string(got) != want {
		t.Errorf("redact = %q, want %q", got, want)
	}
	if all := []string{"Cookie", "Signature", "Signature-Input", "X-Api-Key", "X-Token"}; !slices.Equal(names, all) {
		t.Errorf("names %q, want %q", names, all)
	}
	if got, names := redact([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), secrets); !strings.HasSuffix(string(got), "\r\n\r\n") || names != nil {
		t.Errorf("without secrets: %q, %q", got, names)
	}
}

// TestRedactCookies: the values of Set-Cookie are overwritten, in place, and nothing else is.
func TestRedactCookies(t *testing.T) {
	answer := []byte("HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nset-cookie:b\r\n  =2\r\nX: Set-Cookie: c\r\n\r\nSet-Cookie: body\r\n")
	const want = "HTTP/1.1 200 OK\r\nSet-Cookie: xxxx xxxxxx\r\nset-cookie:x\r\n  xx\r\nX: Set-Cookie: c\r\n\r\nSet-Cookie: body\r\n"
	if found := redactCookies(answer); !found || string(answer) != want {
		t.Errorf("%t, %q, want %q", found, answer, want)
	}
	if redactCookies([]byte("HTTP/1.1 200 OK\r\nX: y\r\n\r\n")) {
		t.Error("a cookie is found in an answer without one")
	}
}
