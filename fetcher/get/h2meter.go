package get

import (
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/net/http2"
)

// errH2Flood reports a server that sends more than its answers need.
var errH2Flood = errors.New("HTTP/2: too many frames that are no part of an answer")

const (
	// h2Allowance is what one request permits a server to send. It must be at least twice the
	// 4 MiB that the transport's flow control permits for each stream: once for this
	// answer and once for an earlier answer that was given up.
	h2Allowance = 16 << 20
	// h2FrameCost is the cost of a frame that is not part of a body, in addition to its
	// length. An allowance is enough for 1,024 such frames, and an answer needs a few.
	// Each such frame takes as much CPU time as some kilobytes of a body.
	h2FrameCost = h2Allowance >> 10
	// h2DataCost is the cost of a frame of a body in addition to its length. It is so small
	// that a body of 10 MiB may come in frames of 40 bytes.
	h2DataCost = 64
	// h2MaxPadding is the largest padding of a frame of a body.
	h2MaxPadding = 256
)

// h2Meter limits what a server sends on an HTTP/2 connection. Each request adds an
// allowance, each frame subtracts its cost, and each byte of a body that is read adds
// two. So answers of any size are possible. A connection with many other frames (PING,
// SETTINGS, PRIORITY, unknown types, HEADERS that never end, DATA of streams that were
// given up) soon fails. The transport itself would read and answer such frames without
// end.
type h2Meter struct {
	mu   sync.Mutex
	left int64
	most int64 // the maximum of left

	// used only by the goroutine that reads
	header  [h2HeaderLen]byte // of the next frame
	have    int               // bytes of header that were received
	payload int64             // bytes of this frame that were not received yet
}

// h2HeaderLen is the length of the header of a frame: 3 bytes of length, then
// type, flags and stream.
const h2HeaderLen = 9

// grant adds the allowance of a request. active is the number of requests under way,
// including this one.
func (m *h2Meter) grant(active int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.most = int64(active) * h2Allowance
	m.left = min(m.left+h2Allowance, m.most)
}

// consumed increases what the server may still send, because n bytes of a body were read.
func (m *h2Meter) consumed(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = min(m.left+2*int64(n), m.most)
}

// received subtracts the cost of p, the next bytes of the connection.
func (m *h2Meter) received(p []byte) error {
	var cost int64
	for len(p) > 0 {
		if skip := min(int64(len(p)), m.payload); skip > 0 {
			p, m.payload = p[skip:], m.payload-skip
			continue
		}
		n := copy(m.header[m.have:], p)
		p, m.have = p[n:], m.have+n
		if m.have == h2HeaderLen {
			m.have, m.payload = 0, int64(binary.BigEndian.Uint32(m.header[:])>>8)
			cost += m.cost()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left -= cost; m.left < 0 {
		return errH2Flood
	}
	return nil
}

// cost returns the cost of the frame whose header is complete.
func (m *h2Meter) cost() int64 {
	body := m.payload
	if http2.Flags(m.header[4]).Has(http2.FlagDataPadded) {
		body -= h2MaxPadding
	}
	if http2.FrameType(m.header[3]) == http2.FrameData && body > 0 {
		return h2DataCost + m.payload
	}
	return h2FrameCost + m.payload
}
