package redisstore

import (
	"encoding/binary"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
)

// A value in a host's list of failed items is a byte for the outcome, two for the HTTP
// status, big-endian, and the entry.
const failedPrefix = 3

// failedOutcomes are numbered by their index, which must never change.
var failedOutcomes = []frontier.Outcome{
	frontier.ServerError, frontier.Throttled, frontier.Network,
	frontier.HostDead, frontier.WorkerLost, frontier.Handler,
}

// appendFailed appends the bytes that come before the entry of a failed item.
func appendFailed(b []byte, outcome frontier.Outcome, status int) []byte {
	b = append(b, byte(slices.Index(failedOutcomes, outcome)))
	return binary.BigEndian.AppendUint16(b, uint16(min(max(status, 0), 1<<16-1)))
}

// splitFailed splits the value of a failed item, which is the inverse of appendFailed, and
// returns its entry.
func splitFailed(value string) (outcome frontier.Outcome, status int, entry string, err error) {
	if len(value) < failedPrefix || int(value[0]) >= len(failedOutcomes) {
		return "", 0, "", errEntry
	}
	return failedOutcomes[value[0]], int(value[1])<<8 | int(value[2]), value[failedPrefix:], nil
}
