package redisstore

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

var errEntry = errors.New("redisstore: damaged queue entry")

// An entry is the encoding of an item in a queue:
//
//	byte 0        flags, below
//	byte 1        attempts
//	byte 2        deliveries
//	bytes 3, 4    moment at which it was added
//	uvarint       depth, plus entrySubmission
//	byte          hops          with entryHops
//	byte          class         with entryClass
//	uvarint       round         with entryRound
//	8 bytes       referrer      with entryReferrer
//	byte, bytes   submission    with entrySubmission
//	byte, bytes   authority     with entryAuthority: host and port of the URL, if they differ from the
//	                            host key; length 0 means that the rest is the whole URL
//	bytes         path and query
//
// The first three bytes have fixed positions, because scripts change them. An entry has no
// host key, fingerprint or delay.
const (
	entryHTTPS     = 1 << 0
	entryPriority  = 3 << 1
	entryAuthority = 1 << 3
	entryHops      = 1 << 4
	entryClass     = 1 << 5
	entryRound     = 1 << 6
	entryReferrer  = 1 << 7
)

// entrySubmission is added to the depth of an item that has a submission.
const entrySubmission = 1 << 16

// entryDepth returns the depth in the entry of an item.
func entryDepth(it *frontier.Item) uint64 {
	if it.Submission == "" {
		return uint64(it.Depth)
	}
	return uint64(it.Depth) | entrySubmission
}

// maxAuthority is the maximum length of a host and port that an entry stores separately.
const maxAuthority = 255

// appendEntry encodes an item. The Priority of the item must be less than frontier.Priorities.
func appendEntry(b []byte, it *frontier.Item) []byte {
	flags := byte(it.Priority) << 1
	set := func(flag byte, on bool) bool {
		if on {
			flags |= flag
		}
		return on
	}
	start := len(b)
	b = append(b, 0, it.Attempts, it.Deliveries, byte(it.Added>>8), byte(it.Added))
	b = binary.AppendUvarint(b, entryDepth(it))
	if set(entryHops, it.Hops > 0) {
		b = append(b, it.Hops)
	}
	if set(entryClass, it.Class != frontier.Bulk) {
		b = append(b, byte(it.Class))
	}
	if set(entryRound, it.Round > 0) {
		b = binary.AppendUvarint(b, uint64(it.Round))
	}
	if set(entryReferrer, it.Referrer != frontier.Referrer{}) {
		b = append(b, it.Referrer[:]...)
	}
	if it.Submission != "" {
		b = append(append(b, byte(len(it.Submission))), it.Submission...)
	}
	https, authority, path := splitURL(it.URL)
	set(entryHTTPS, https)
	if set(entryAuthority, authority == "" || authority != it.Host) {
		b = append(b, byte(len(authority)))
		b = append(b, authority...)
	}
	b[start] = flags
	return append(b, path...)
}

// roundOffset returns the offset of the round in an item's entry.
func roundOffset(it *frontier.Item) int {
	offset := 5 + (bits.Len64(entryDepth(it)|1)+6)/7
	if it.Hops > 0 {
		offset++
	}
	if it.Class != frontier.Bulk {
		offset++
	}
	return offset
}

// splitURL splits a URL for an entry. It returns the whole URL as path if the URL does not
// have the canonical form, or its authority is longer than maxAuthority.
func splitURL(url string) (https bool, authority, path string) {
	rest, https := strings.CutPrefix(url, "https://")
	if !https {
		var http bool
		if rest, http = strings.CutPrefix(url, "http://"); !http {
			return false, "", url
		}
	}
	slash := strings.IndexByte(rest, '/')
	if slash <= 0 || slash > maxAuthority {
		return false, "", url
	}
	return https, rest[:slash], rest[slash:]
}

// decodeEntry is the inverse of appendEntry. It computes the fingerprint. It returns
// errEntry for a damaged entry.
func decodeEntry(entry, host string, hasher bloomstore.Hasher) (frontier.Item, error) {
	r := entryReader{rest: entry}
	flags := r.byte()
	it := frontier.Item{Host: host, Priority: frontier.Priority(flags & entryPriority >> 1)}
	it.Attempts, it.Deliveries = r.byte(), r.byte()
	it.Added = frontier.Moment(r.byte())<<8 | frontier.Moment(r.byte())
	depth := r.uvarint(math.MaxUint16 | entrySubmission)
	it.Depth = uint16(depth)
	if flags&entryHops != 0 {
		it.Hops = r.byte()
	}
	if flags&entryClass != 0 {
		it.Class = frontier.Class(r.byte())
	}
	if flags&entryRound != 0 {
		it.Round = uint32(r.uvarint(math.MaxUint32))
	}
	if flags&entryReferrer != 0 {
		copy(it.Referrer[:], r.bytes(len(it.Referrer)))
	}
	if depth&entrySubmission != 0 {
		it.Submission = r.bytes(int(r.byte()))
	}
	authority, whole := host, false
	if flags&entryAuthority != 0 {
		authority = r.bytes(int(r.byte()))
		whole = authority == ""
	}
	if r.damaged || it.Priority >= frontier.Priorities {
		return frontier.Item{}, errEntry
	}
	switch {
	case whole:
		it.URL = r.rest
	case flags&entryHTTPS != 0:
		it.URL = "https://" + authority + r.rest
	default:
		it.URL = "http://" + authority + r.rest
	}
	it.Fingerprint = hasher.Fingerprint(it.URL)
	return it, nil
}

// A value in a host's list of failed items is a byte for the outcome, two for the HTTP
// status, six for the time at which the item failed, in ms, and the entry. The numbers are big-endian.
const failedPrefix = 9

// failedOutcomes are the outcomes of failed items, numbered by their index.
var failedOutcomes = func() (all []frontier.Outcome) {
	for _, o := range frontier.Outcomes {
		if o.State == frontier.Failed {
			all = append(all, o.Outcome)
		}
	}
	return all
}()

// appendFailed appends the bytes that come before the time and the entry of a failed item.
func appendFailed(b []byte, outcome frontier.Outcome, status int) []byte {
	b = append(b, byte(slices.Index(failedOutcomes, outcome)))
	return appendStatus(b, status)
}

// appendStatus appends an HTTP status as two bytes, big-endian.
func appendStatus(b []byte, status int) []byte {
	return binary.BigEndian.AppendUint16(b, uint16(min(max(status, 0), 1<<16-1)))
}

// appendTime appends a time as six bytes.
func appendTime(b []byte, at time.Time) []byte {
	ms := uint64(max(at.UnixMilli(), 0))
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, uint16(ms>>32)), uint32(ms))
}

// splitFailed splits the value of a failed item into its outcome, status, time in ms, and entry.
func splitFailed(value string) (outcome frontier.Outcome, status int, at int64, entry string, err error) {
	if len(value) < failedPrefix || int(value[0]) >= len(failedOutcomes) {
		return "", 0, 0, "", errEntry
	}
	for i := range 6 {
		at = at<<8 | int64(value[3+i])
	}
	return failedOutcomes[value[0]], int(value[1])<<8 | int(value[2]), at, value[failedPrefix:], nil
}

// entryReader parses an entry. After the end of the entry it reads zeros.
type entryReader struct {
	rest    string
	damaged bool
}

func (r *entryReader) bytes(n int) (b string) {
	if n > len(r.rest) {
		r.rest, r.damaged = "", true
		return ""
	}
	b, r.rest = r.rest[:n], r.rest[n:]
	return b
}

func (r *entryReader) byte() byte {
	if b := r.bytes(1); b != "" {
		return b[0]
	}
	return 0
}

// uvarint reads a number of at most five bytes. A number above limit counts as damage.
func (r *entryReader) uvarint(limit uint64) uint64 {
	v, n := binary.Uvarint([]byte(r.rest[:min(len(r.rest), binary.MaxVarintLen32)]))
	if n <= 0 || v > limit {
		r.damaged = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}
