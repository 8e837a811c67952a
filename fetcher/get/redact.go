package get

import (
	"bytes"
	"net/http"
	"slices"
)

// redacted is the value of a header in Wire.Request that was sent with another value.
const redacted = "redacted"

// credentials are headers whose values are never kept, wherever they come from.
var credentials = []string{"Authorization", "Cookie", "Signature", "Signature-Input"}

// secrets returns the canonical names of the headers of a request whose values are not kept: credentials, and the
// private headers of the Client and of the request.
func (c *Client) secrets(request Request) []string {
	names := slices.Clone(credentials)
	for _, header := range []http.Header{c.private, request.Header} {
		for name := range header {
			if name = http.CanonicalHeaderKey(name); name != "Host" && PrivateHeader(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// redact returns a request as sent, without the values of the secret headers, and the sorted names of those that it
// has. The header for a proxy is left out.
func redact(request []byte, secrets []string) (kept []byte, names []string) {
	kept = make([]byte, 0, len(request))
	for line := range bytes.Lines(request) {
		name, _, isHeader := bytes.Cut(line, []byte(":"))
		canonical := ""
		if isHeader && len(kept) > 0 {
			canonical = http.CanonicalHeaderKey(string(name))
		}
		switch {
		case canonical == proxyAuthorization:
		case canonical != "" && slices.Contains(secrets, canonical):
			kept = append(append(kept, name...), ": "+redacted+"\r\n"...)
			names = append(names, canonical)
		default:
			kept = append(kept, line...)
		}
	}
	slices.Sort(names)
	return kept, slices.Compact(names)
}

// redactCookies overwrites the values of Set-Cookie in the head of an answer with the letter x, so that its length
// stays. It reports whether there are any.
func redactCookies(answer []byte) (found bool) {
	head := answer[:headLen(answer)]
	inCookie := false // the lines that continue a header begin with white space
	for line := range bytes.Lines(head) {
		name, _, isHeader := bytes.Cut(line, []byte(":"))
		switch {
		case line[0] == ' ' || line[0] == '\t':
		case isHeader:
			inCookie = bytes.EqualFold(bytes.TrimSpace(name), []byte("Set-Cookie"))
		default:
			inCookie = false
		}
		if !inCookie {
			continue
		}
		found = true
		from := 0
		if line[0] != ' ' && line[0] != '\t' {
			from = len(name) + 1
		}
		for i, c := range line[from:] {
			if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
				line[from+i] = 'x'
			}
		}
	}
	return found
}
