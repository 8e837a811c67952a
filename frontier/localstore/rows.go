package localstore

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

var errRow = errors.New("localstore: damaged row")

// entry flags, low to high: https, whole URL kept, priority (2 bits), class (4 bits).
const (
	entryHTTPS = 1 << 0
	entryWhole = 1 << 1
	maxClass   = 1<<4 - 1
)

// appendEntry encodes an item of a queue. It leaves out the fingerprint and the host key. If
// the URL begins with the scheme and the host key, it also leaves out this part of the URL.
func appendEntry(b []byte, it *frontier.Item) []byte {
	flags := byte(it.Priority&3)<<2 | byte(it.Class)<<4
	rest, https := strings.CutPrefix(it.URL, "https://")
	http := https
	if https {
		flags |= entryHTTPS
	} else {
		rest, http = strings.CutPrefix(it.URL, "http://")
	}
	if tail, ok := strings.CutPrefix(rest, it.Host); http && ok && strings.HasPrefix(tail, "/") {
		rest = tail
	} else {
		flags |= entryWhole
		rest = it.URL
	}
	b = append(b, flags, it.Hops, it.Attempts, it.Deliveries)
	b = binary.AppendUvarint(b, uint64(it.Depth))
	b = binary.AppendUvarint(b, uint64(it.Round))
	b = append(b, it.Referrer[:]...)
	return append(b, rest...)
}

// decodeEntry is the inverse of appendEntry. It computes the fingerprint.
func decodeEntry(b []byte, host string, hasher bloomstore.Hasher) (frontier.Item, error) {
	if len(b) < 4 {
		return frontier.Item{}, errRow
	}
	flags := b[0]
	it := frontier.Item{
		Host: host, Hops: b[1], Attempts: b[2], Deliveries: b[3],
		Priority: frontier.Priority(flags >> 2 & 3), Class: frontier.Class(flags >> 4),
	}
	b = b[4:]
	depth, n := binary.Uvarint(b)
	if n <= 0 || depth > math.MaxUint16 {
		return it, errRow
	}
	round, r := binary.Uvarint(b[n:])
	if r <= 0 || round > math.MaxUint32 || len(b) < n+r+len(it.Referrer) {
		return it, errRow
	}
	if it.Priority >= frontier.Priorities {
		return it, errRow
	}
	it.Depth, it.Round = uint16(depth), uint32(round)
	b = b[n+r:]
	copy(it.Referrer[:], b)
	rest := b[len(it.Referrer):]
	switch {
	case flags&entryWhole != 0:
		it.URL = string(rest)
	case flags&entryHTTPS != 0:
		it.URL = "https://" + host + string(rest)
	default:
		it.URL = "http://" + host + string(rest)
	}
	it.Fingerprint = hasher.Fingerprint(it.URL)
	return it, nil
}

// entryDeliveries is the index of the deliveries in an entry.
const entryDeliveries = 3

// appendHost encodes a host row.
func appendHost(b []byte, h *host) []byte {
	b = binary.AppendVarint(b, h.due)
	b = binary.AppendVarint(b, h.indexed)
	b = binary.AppendVarint(b, h.delay)
	b = binary.AppendUvarint(b, h.added)
	b = binary.AppendUvarint(b, h.delayed)
	for p := range h.waiting {
		b = binary.AppendUvarint(b, h.waiting[p])
		b = binary.AppendUvarint(b, h.head[p])
	}
	return b
}

func decodeHost(b []byte, h *host) error {
	signed := []*int64{&h.due, &h.indexed, &h.delay}
	for _, v := range signed {
		x, n := binary.Varint(b)
		if n <= 0 {
			return errRow
		}
		*v, b = x, b[n:]
	}
	unsigned := []*uint64{&h.added, &h.delayed}
	for p := range h.waiting {
		unsigned = append(unsigned, &h.waiting[p], &h.head[p])
	}
	for _, v := range unsigned {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return errRow
		}
		*v, b = x, b[n:]
	}
	return nil
}

// outcome is the row of a finished item.
type outcome struct {
	outcome frontier.Outcome
	status  int
	round   uint32
	seq     uint64 // of its row in tableFailed; 0 for a done item
	// finished is the time at which an exact item was finished, in µs. It is 0 for a bulk
	// item.
	finished int64
}

// outcomes lists the outcomes. The index of an outcome is its number in a row. New ones must be appended.
var outcomes = []frontier.Outcome{
	"", frontier.OK, frontier.Redirect, frontier.ClientError, frontier.Robots, frontier.Address, frontier.Type,
	frontier.ServerError, frontier.Throttled, frontier.Network, frontier.HostDead, frontier.WorkerLost,
	frontier.Handler,
}

func appendOutcome(b []byte, o outcome) []byte {
	for i, name := range outcomes {
		if name == o.outcome {
			b = append(b, byte(i))
		}
	}
	b = binary.AppendUvarint(b, uint64(o.status))
	b = binary.AppendUvarint(b, uint64(o.round))
	b = binary.AppendUvarint(b, o.seq)
	if o.finished != 0 {
		b = binary.AppendVarint(b, o.finished)
	}
	return b
}

func decodeOutcome(b []byte) (o outcome, err error) {
	if len(b) < 4 || b[0] == 0 || int(b[0]) >= len(outcomes) {
		return o, errRow
	}
	o.outcome, b = outcomes[b[0]], b[1:]
	var v [3]uint64
	for i := range v {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return o, errRow
		}
		v[i], b = x, b[n:]
	}
	if v[0] > math.MaxInt32 || v[1] > math.MaxUint32 {
		return o, errRow
	}
	o.status, o.round, o.seq = int(v[0]), uint32(v[1]), v[2]
	if len(b) > 0 {
		finished, n := binary.Varint(b)
		if n <= 0 {
			return o, errRow
		}
		o.finished = finished
	}
	return o, nil
}

// leaseRow is the part of a lease that is stored, so that the lease can be ended after a crash.
type leaseRow struct {
	host     string
	inFlight int
	held     []queuePos
	aside    []queuePos
}

// leaseAside is a flag in the stored priority. It marks an item of lease.aside: one that this
// lease has settled and that waits in the queue until the lease ends.
const leaseAside = 0x80

func appendLease(b []byte, l *lease) []byte {
	b = binary.AppendUvarint(b, uint64(l.inFlight))
	b = binary.AppendUvarint(b, uint64(len(l.host.key)))
	b = append(b, l.host.key...)
	for i := range l.held {
		b = append(b, byte(l.held[i].at.priority))
		b = binary.AppendUvarint(b, l.held[i].at.seq)
	}
	for _, at := range l.aside {
		b = append(b, byte(at.priority)|leaseAside)
		b = binary.AppendUvarint(b, at.seq)
	}
	return b
}

func decodeLease(b []byte) (row leaseRow, err error) {
	inFlight, w := binary.Uvarint(b)
	if w <= 0 || inFlight > math.MaxInt32 {
		return row, errRow
	}
	b = b[w:]
	size, w := binary.Uvarint(b)
	if w <= 0 || uint64(len(b)-w) < size {
		return row, errRow
	}
	row.inFlight = int(inFlight)
	row.host, b = string(b[w:w+int(size)]), b[w+int(size):]
	for len(b) > 0 {
		seq, w := binary.Uvarint(b[1:])
		at := queuePos{frontier.Priority(b[0] &^ leaseAside), seq}
		if w <= 0 || at.priority >= frontier.Priorities {
			return row, errRow
		}
		if b[0]&leaseAside != 0 {
			row.aside = append(row.aside, at)
		} else {
			row.held = append(row.held, at)
		}
		b = b[1+w:]
	}
	return row, nil
}

// journalAdd is the size of one key in a row of tableJournal. Such a row lists the keys added to
// the filter: layer, fingerprint, layer, fingerprint, …
const journalAdd = 1 + len(bloomstore.Fingerprint{})
