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

// rowReader reads the values of a row in order. After a value that is missing or out of
// range, damaged is true and all further values are zero.
type rowReader struct {
	rest    []byte
	damaged bool
}

func (r *rowReader) take(n uint64) (b []byte) {
	if uint64(len(r.rest)) < n {
		r.damage()
		return nil
	}
	b, r.rest = r.rest[:n], r.rest[n:]
	return b
}

func (r *rowReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// uvarint returns the next number, which must not exceed limit.
func (r *rowReader) uvarint(limit uint64) uint64 {
	x, n := binary.Uvarint(r.rest)
	if n <= 0 || x > limit {
		r.damage()
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

func (r *rowReader) varint() int64 {
	x, n := binary.Varint(r.rest)
	if n <= 0 {
		r.damage()
		return 0
	}
	r.rest = r.rest[n:]
	return x
}

func (r *rowReader) damage() { r.rest, r.damaged = nil, true }

// entry flags, low to high: https, whole URL kept, priority (2 bits), class (4 bits).
const (
	entryHTTPS = 1 << 0
	entryWhole = 1 << 1
	maxClass   = 1<<4 - 1
)

// entrySubmission is a bit of the depth in an entry, above those of the depth itself. It says that a byte with the
// length of the submission and the submission come behind the referrer.
const entrySubmission = 1 << 16

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
	b = binary.BigEndian.AppendUint16(b, uint16(it.Added))
	depth := uint64(it.Depth)
	if it.Submission != "" {
		depth |= entrySubmission
	}
	b = binary.AppendUvarint(b, depth)
	b = binary.AppendUvarint(b, uint64(it.Round))
	b = append(b, it.Referrer[:]...)
	if it.Submission != "" {
		b = append(append(b, byte(len(it.Submission))), it.Submission...)
	}
	return append(b, rest...)
}

// decodeEntry is the inverse of appendEntry. It computes the fingerprint.
func decodeEntry(b []byte, host string, hasher bloomstore.Hasher) (frontier.Item, error) {
	r := rowReader{rest: b}
	flags := r.byte()
	it := frontier.Item{
		Host: host, Hops: r.byte(), Attempts: r.byte(), Deliveries: r.byte(), Added: frontier.Moment(r.byte())<<8 | frontier.Moment(r.byte()),
		Priority: frontier.Priority(flags >> 2 & 3), Class: frontier.Class(flags >> 4),
	}
	depth := r.uvarint(math.MaxUint16 | entrySubmission)
	it.Depth, it.Round = uint16(depth), uint32(r.uvarint(math.MaxUint32))
	copy(it.Referrer[:], r.take(uint64(len(it.Referrer))))
	if depth&entrySubmission != 0 {
		it.Submission = string(r.take(uint64(r.byte())))
	}
	if r.damaged || it.Priority >= frontier.Priorities {
		return it, errRow
	}
	rest := r.rest
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

// appendFailure encodes the outcome of a failed item and the time, in µs, at which it failed. The entry of the item follows.
func appendFailure(b []byte, o frontier.Outcome, at int64) []byte {
	return binary.AppendUvarint(append(b, outcomeNumber(o)), uint64(at/1000))
}

// splitFailure is the inverse of appendFailure. It returns the time in ms, and the entry.
func splitFailure(b []byte) (o frontier.Outcome, at int64, entry []byte, err error) {
	r := rowReader{rest: b}
	number := int(r.byte())
	at = int64(r.uvarint(math.MaxInt64))
	if r.damaged || number == 0 || number > len(frontier.Outcomes) {
		return "", 0, nil, errRow
	}
	return frontier.Outcomes[number-1].Outcome, at, r.rest, nil
}

// decodeFailed decodes the row of a failed item.
func decodeFailed(b []byte, host string, hasher bloomstore.Hasher) (frontier.Item, error) {
	_, _, entry, err := splitFailure(b)
	if err != nil {
		return frontier.Item{}, err
	}
	return decodeEntry(entry, host, hasher)
}

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
	if h.last == 0 {
		return b
	}
	n := &h.counts
	b = binary.AppendVarint(b, h.last)
	for _, count := range [...]uint64{n.Done, n.Failed, n.Pages, n.Bytes} {
		b = binary.AppendUvarint(b, count)
	}
	for cause, count := range n.Causes {
		b = append(binary.AppendUvarint(b, uint64(len(cause))), cause...)
		b = binary.AppendUvarint(b, count)
	}
	return b
}

func decodeHost(b []byte, h *host) error {
	r := rowReader{rest: b}
	h.due, h.indexed, h.delay = r.varint(), r.varint(), r.varint()
	h.added, h.delayed = r.uvarint(math.MaxUint64), r.uvarint(math.MaxUint64)
	for p := range h.waiting {
		h.waiting[p], h.head[p] = r.uvarint(math.MaxUint64), r.uvarint(math.MaxUint64)
	}
	if len(r.rest) > 0 { // rows of earlier versions of the program have no counts
		n := &h.counts
		h.last = r.varint()
		for _, count := range [...]*uint64{&n.Done, &n.Failed, &n.Pages, &n.Bytes} {
			*count = r.uvarint(math.MaxUint64)
		}
		for len(r.rest) > 0 {
			if n.Causes == nil {
				n.Causes = make(map[string]uint64)
			}
			n.Causes[string(r.take(r.uvarint(math.MaxInt32)))] = r.uvarint(math.MaxUint64)
		}
	}
	if r.damaged {
		return fatal("read host "+h.key, errRow)
	}
	return nil
}

// outcome is the row of a finished item.
type outcome struct {
	outcome frontier.Outcome
	status  int
	round   uint32
	seq     uint64 // of its row in tableFailed; 0 for a done item
	// finished is the time at which an item was finished, in µs. It is 0 for a bulk item whose
	// class has no window.
	finished int64
}

// outcomeNumber returns the index of an outcome in frontier.Outcomes, plus 1.
func outcomeNumber(o frontier.Outcome) byte {
	for i := range frontier.Outcomes {
		if frontier.Outcomes[i].Outcome == o {
			return byte(i + 1)
		}
	}
	return 0
}

func appendOutcome(b []byte, o outcome) []byte {
	b = append(b, outcomeNumber(o.outcome))
	b = binary.AppendUvarint(b, uint64(o.status))
	b = binary.AppendUvarint(b, uint64(o.round))
	b = binary.AppendUvarint(b, o.seq)
	if o.finished != 0 {
		b = binary.AppendVarint(b, o.finished)
	}
	return b
}

func decodeOutcome(b []byte) (outcome, error) {
	r := rowReader{rest: b}
	number := int(r.byte())
	if number == 0 || number > len(frontier.Outcomes) {
		return outcome{}, fatal("read an outcome", errRow)
	}
	o := outcome{
		outcome: frontier.Outcomes[number-1].Outcome, status: int(r.uvarint(math.MaxInt32)), round: uint32(r.uvarint(math.MaxUint32)),
		seq: r.uvarint(math.MaxUint64),
	}
	if len(r.rest) > 0 {
		o.finished = r.varint()
	}
	if r.damaged {
		return outcome{}, fatal("read an outcome", errRow)
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

// leaseAside is a flag in the stored priority. It marks an item of lease.aside. Such an item
// was completed under the lease and queued again. No worker gets it until the lease ends.
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

func decodeLease(b []byte) (leaseRow, error) {
	r := rowReader{rest: b}
	row := leaseRow{inFlight: int(r.uvarint(math.MaxInt32))}
	row.host = string(r.take(r.uvarint(math.MaxInt32)))
	for len(r.rest) > 0 {
		priority := r.byte()
		at := queuePos{frontier.Priority(priority &^ leaseAside), r.uvarint(math.MaxUint64)}
		if at.priority >= frontier.Priorities {
			r.damage()
		}
		if priority&leaseAside != 0 {
			row.aside = append(row.aside, at)
		} else {
			row.held = append(row.held, at)
		}
	}
	if r.damaged {
		return leaseRow{}, fatal("read a lease", errRow)
	}
	return row, nil
}

// journalAdd is the size of one key in a row of tableJournal. Such a row lists the keys added to
// the filter: layer, fingerprint, layer, fingerprint, … If the filter is a window, the number of
// their generation is before them; journalNumber is its size.
const (
	journalAdd    = 1 + len(bloomstore.Fingerprint{})
	journalNumber = 8
)
