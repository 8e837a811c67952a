package get

import (
	"net/netip"
	"time"
)

// Wire is a request and its answer as they were on the connection, below TLS
// and nothing else: what an archive keeps. The body in Response has its
// transfer and content codings still on, for the WARC standard wants the exact
// octets and tools take Transfer-Encoding by its word; a payload digest is
// made without the transfer coding.
type Wire struct {
	Request  []byte     // request line and headers as sent
	Response []byte     // status line, headers, blank line and body as received; no interim answer (1xx)
	Remote   netip.Addr // the server's address, also when a proxy was between
	Started  time.Time  // when the request was written
	// Truncated: Response is not all of the answer, which was too long, of a
	// type that is not wanted, or no page.
	Truncated bool
}
