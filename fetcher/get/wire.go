package get

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"time"
)

// Wire is a request and its answer as sent on the connection, above TLS. Archives keep it.
// The body still has its transfer and content codings, because the WARC standard requires
// the exact octets, and tools decode the body as Transfer-Encoding says.
type Wire struct {
	Request  []byte     // request line and headers as sent
	Response []byte     // status line, headers, blank line and body as received; no interim answer (1xx)
	Remote   netip.Addr // the server's address, also if a proxy was used
	Started  time.Time  // when the request was written
	// Truncated reports that Response is incomplete: the answer was too long or damaged,
	// of an unwanted type, or not a page.
	Truncated bool
}

// finalAnswer returns the part of the received bytes that belongs to answer. It leaves
// out interim answers before answer, and bytes after its end.
func finalAnswer(received []byte, answer *http.Response) []byte {
	head := headLen(received)
	for head > 0 && isInterim(received) {
		received = received[head:]
		head = headLen(received)
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
	line, _, _ := bytes.Cut(received, []byte("\n"))
	_, status, _ := bytes.Cut(line, []byte(" "))
	status = bytes.TrimLeft(status, " ")
	return len(status) >= 3 && status[0] == '1' && string(status[:3]) != "101"
}

// chunkedLen returns the length of the chunked body at the beginning of the received
// bytes, including its trailer. If the body has no end, the result is the length of all
// received bytes. The body ends where it ends for net/http. If an empty line follows the last
// chunk, the body ends with this line. Otherwise a trailer follows the last chunk, and the
// body ends with the first "\r\n\r\n".
func chunkedLen(received []byte) int {
	all := bytes.NewReader(received)
	from := bufio.NewReader(all)
	if _, err := io.Copy(io.Discard, httputil.NewChunkedReader(from)); err != nil {
		return len(received)
	}
	end := len(received) - all.Len() - from.Buffered()
	trailer := received[end:]
	if bytes.HasPrefix(trailer, []byte("\r\n")) {
		return end + len("\r\n")
	}
	last := bytes.Index(trailer, []byte("\r\n\r\n"))
	if last < 0 {
		return len(received)
	}
	return end + last + len("\r\n\r\n")
}
