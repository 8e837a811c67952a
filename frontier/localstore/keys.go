package localstore

import (
	"encoding/binary"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// The first byte of a key is the letter of its table. Numbers are big-endian, so that they
// sort.
const (
	tableContent = 'c' // frontier.Content -> frontier.Referrer of the first item that showed it
	tableMeta    = 'm' // nothing -> meta, JSON: the counters and the files of the filter
	tableHost    = 'h' // host key -> host row
	tableBlob    = 'b' // host key -> HostUpdate.Blob
	tableQueue   = 'q' // host key, 0, priority, sequence -> entry
	tableDue     = 'd' // due µs, host key -> nothing: hosts that have waiting items and are not leased
	tableDelayed = 'z' // due µs, sequence -> host key, 0, entry
	tableLease   = 'l' // lease id -> lease row
	tableOutcome = 'o' // fingerprint -> outcome row
	tableFailed  = 'f' // host key, 0, sequence -> outcome, time, entry
	tableExact   = 'x' // fingerprint -> exact key row
	tableExpiry  = 'e' // end of the window µs, fingerprint -> nothing: done keys whose rows sweep removes
	tableJournal = 'j' // sequence -> adds since the filter's checkpoint
	tableScope   = 's' // scope key -> nothing
	tableQuota   = 'g' // group -> number of its keys, uvarint; group, 0, key -> nothing
	tableShadow  = 'y' // fingerprint -> nothing: the shadow sample
	tableKnown   = 'k' // fingerprint -> nothing: counted as seen, never queued
	tableNote    = 'n' // id of a chunk -> note: see noteHeader
	tableReadmit = 'r' // fingerprint -> the round in which the next offer queues it, uvarint
	tableNoteEnd = 'p' // end µs, id of a chunk -> nothing: when a note is removed
)

var metaKey = []byte{tableMeta}

func hostKey(host string) []byte  { return append([]byte{tableHost}, host...) }
func blobKey(host string) []byte  { return append([]byte{tableBlob}, host...) }
func scopeKey(key string) []byte  { return append([]byte{tableScope}, key...) }
func leaseKey(id [16]byte) []byte { return append([]byte{tableLease}, id[:]...) }

func outcomeKey(f bloomstore.Fingerprint) []byte { return append([]byte{tableOutcome}, f[:]...) }
func contentKey(c frontier.Content) []byte       { return append([]byte{tableContent}, c[:]...) }
func exactKey(f bloomstore.Fingerprint) []byte   { return append([]byte{tableExact}, f[:]...) }

func knownKey(f bloomstore.Fingerprint) []byte  { return append([]byte{tableKnown}, f[:]...) }
func shadowKey(f bloomstore.Fingerprint) []byte { return append([]byte{tableShadow}, f[:]...) }

func journalKey(seq uint64) []byte { return binary.BigEndian.AppendUint64([]byte{tableJournal}, seq) }

// queuePos is the position of an item in its host's queue.
type queuePos struct {
	priority frontier.Priority
	seq      uint64
}

func appendQueueKey(b []byte, host string, at queuePos) []byte {
	b = append(append(append(b, tableQueue), host...), 0, byte(at.priority))
	return binary.BigEndian.AppendUint64(b, at.seq)
}

// splitQueueKey splits a key of tableQueue; host aliases key.
func splitQueueKey(key []byte) (host []byte, at queuePos, ok bool) {
	n := len(key) - 10
	if n < 1 || key[n] != 0 {
		return nil, queuePos{}, false
	}
	return key[1:n], queuePos{frontier.Priority(key[n+1]), binary.BigEndian.Uint64(key[n+2:])}, true
}

func appendDueKey(b []byte, due int64, host string) []byte {
	return append(binary.BigEndian.AppendUint64(append(b, tableDue), uint64(due)), host...)
}

func splitDueKey(key []byte) (due int64, host []byte) {
	return int64(binary.BigEndian.Uint64(key[1:9])), key[9:]
}

func expiryKey(expires int64, f bloomstore.Fingerprint) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{tableExpiry}, uint64(expires)), f[:]...)
}

func delayedKey(due int64, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte{tableDelayed}, uint64(due)), seq)
}

func failedKey(host string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append(append([]byte{tableFailed}, host...), 0), seq)
}

func hostOfFailed(key []byte) []byte { return key[1 : len(key)-9] }

// table returns the bounds of one table.
func table(letter byte) (lower, upper []byte) { return []byte{letter}, []byte{letter + 1} }

// hostRange returns the bounds of a host's rows in tableQueue or tableFailed. If host is empty,
// it returns the bounds of the whole table.
func hostRange(letter byte, host string) (lower, upper []byte) {
	if host == "" {
		return table(letter)
	}
	return append([]byte{letter}, host+"\x00"...), append([]byte{letter}, host+"\x01"...)
}
