package get

import (
	"bytes"
	"net/http"
	"net/netip"
	"time"
)

// Wire is a request and its answer as sent on the connection, above TLS. Archives keep it.
// The body still has its transfer and content codings, because the WARC standard requires
// the exact octets, and tools decode the body as Transfer-Encoding says.
type Wire struct {
	Request  []byte   // request line and headers as sent, except for Redacted, and without Proxy-Authorization
	Redacted []string // the sorted names of headers whose value in Request is "redacted" because it is a secret
	Response []byte   // status line, headers, blank line and body as received; no interim answer (1xx)
	// CookiesRedacted reports that values of Set-Cookie in Response are overwritten with the letter x (Config.SaveCookies).
	CookiesRedacted bool
	Remote          netip.Addr // the server's address, also behind a tunnel; invalid if it is not known (Config.ProxyAbsolute)
	Started         time.Time  // when the request was written
	// Truncated reports that Response is incomplete: the answer was too long or damaged,
	// of an unwanted type, or not a page.
	Truncated bool
	// Cut reports that Response is incomplete because the body ended early (Response.Cut).
	Cut bool
}

// finalAnswer returns the part of the received bytes that belongs to answer. It leaves
// out interim answers before answer, and bytes after its end.
func finalAnswer(received []byte, answer *http.Response) []byte {
	head := headSize(received)
	for head > 0 && isInterim(received) {
		received = received[head:]
		head = headSize(received)
	}
	body := received[head:]
	switch {
	case len(answer.TransferEncoding) > 0: // chunked: net/http accepts no other
		return received[:head+chunkedLen(body)]
	case answer.ContentLength >= 0:
		return received[:head+int(min(int64(len(body)), answer.ContentLength))]
	}
	return received
}

// headLen returns the length of the header at the beginning of the received bytes,
// including its empty line, or 0 if the header has no end.
func headLen(received []byte) int {
	for at := 0; ; {
		line := bytes.IndexByte(received[at:], '\n')
		if line < 0 {
			return 0
		}
		if at > 0 && len(bytes.TrimRight(received[at:at+line], "\r")) == 0 {
			return at + line + 1
		}
		at += line + 1
	}
}

// isInterim reports whether the answer at the beginning of the received bytes is
// followed by another answer.
func isInterim(received []byte) bool {
	line, _, _ := bytes.Cut(received[slop(received):], lineFeed)
	_, status, _ := bytes.Cut(line, []byte(" "))
	status = bytes.TrimLeft(status, " ")
	return len(status) >= 3 && status[0] == '1' && string(status[:3]) != "101"
}

// chunkedLen returns the length of the chunked body at the beginning of the received
// bytes, including its trailer. If the body has no end, or a chunk that cannot be read, the
// result is the length of all received bytes.
func chunkedLen(received []byte) int {
	var body chunks
	n, err := body.take(received, new(mending))
	if err != nil {
		return len(received)
	}
	return n
}
