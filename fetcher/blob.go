package fetcher

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/robots"
)

// A host's blob is the state that the store keeps for the next lease of the host. It consists
// of a version, the state of the host's politeness and, for each origin, its name and the
// state of its robots.txt. The length of each part, except the version, comes before the
// part. If the host does not answer, an entry with an empty name has the reason. The entry
// seriesPart has the state of package series, and samePart a sameText. The entry errorPart has the last failure: its time, s since 1970, and its
// text. An entry whose name begins with tdmPart has the tdmrep.json of an origin.
const blobVersion = 1

const (
	seriesPart = "series"
	samePart   = "same"
	errorPart  = "error"
)

// maxOrigins is the largest number of origins of one host key whose rules are remembered.
// A hostile host can have an origin for each port.
const maxOrigins = 16

var errBlob = errors.New("fetcher: not the state of a host")

// appendBlob encodes the state of the host. The caller must hold mu. A robots.txt that
// does not fit is left out, and requested again with the next lease.
func (h *holding) appendBlob(b []byte) []byte {
	b = append(b, blobVersion)
	polite, _ := h.host.AppendBinary(nil)
	b = appendSized(b, polite)
	add := func(name string, part []byte) {
		if len(b)+len(name)+len(part)+2*binary.MaxVarintLen32 <= frontier.MaxBlob {
			b = appendSized(appendSized(b, []byte(name)), part)
		}
	}
	if known, _ := h.known.AppendBinary(nil); len(known) > 0 {
		add(seriesPart, known)
	}
	if h.same.pages > 0 {
		add(samePart, h.same.appendBinary(nil))
	}
	if e := h.lastError; e != nil {
		add(errorPart, append(binary.AppendVarint(nil, e.Time.Unix()), e.Error...))
	}
	causes := 0
	for name, state := range h.origins {
		if state.Cause() != "" {
			if causes++; causes > maxOrigins { // without its cause, a failure needs less room in the blob
				state = state.WithoutCause()
			}
		}
		if rules, err := state.AppendBinary(nil); err == nil {
			add(name, rules)
		}
	}
	for name, state := range h.tdm {
		if part := state.appendBinary(nil); part != nil {
			add(tdmPart+name, part)
		}
	}
	if h.cause != "" {
		add("", []byte(h.cause))
	}
	return b
}

func appendSized(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// readBlob is the inverse of appendBlob. If it returns an error, h keeps the parts of the blob
// that were read before the error.
func (h *holding) readBlob(b []byte, now time.Time) error {
	if b == nil {
		return nil
	}
	polite, origins, err := openBlob(b)
	if err != nil {
		return err
	}
	if err := h.host.UnmarshalBinary(polite); err != nil {
		return err
	}
	return readOrigins(origins, func(name string, rules []byte) error {
		switch name {
		case "":
			h.cause = clip(string(rules))
			return nil
		case errorPart:
			h.lastError = decodeError(rules)
			return nil
		case samePart:
			h.same = readSame(rules)
			return nil
		case seriesPart:
			return h.known.UnmarshalBinary(rules)
		}
		if origin, is := strings.CutPrefix(name, tdmPart); is {
			if state := readTDM(rules, now); state != nil {
				h.tdm[origin] = state
			}
			return nil
		}
		state := new(robots.State)
		if err := state.Restore(rules, h.rules.token, now); err != nil {
			return err
		}
		h.origins[name] = state
		return nil
	})
}

// decodeError decodes an entry with the name errorPart. It returns nil if there is none.
func decodeError(part []byte) *LastError {
	at, n := binary.Varint(part)
	if n <= 0 {
		return nil
	}
	return &LastError{Time: time.Unix(at, 0).UTC(), Error: clip(string(part[n:]))}
}

// RobotsOf returns the robots.txt of an origin from a host's blob in the store. It returns
// nil if the blob has none, and the zero State if it has only rules for another product token.
func RobotsOf(blob []byte, origin, productToken string, now time.Time) (*robots.State, error) {
	rules, err := originOf(blob, origin)
	if err != nil || rules == nil {
		return nil, err
	}
	state := new(robots.State)
	if err := state.Restore(rules, productToken, now); err != nil {
		return nil, err
	}
	return state, nil
}

// CauseOf returns why a host does not answer requests for pages, according to its blob.
// The cause is empty if the host answers, or if the blob names no cause.
func CauseOf(blob []byte) (cause string, err error) {
	text, err := originOf(blob, "")
	return clip(string(text)), err
}

// originOf returns the part of a blob with this name, or nil if there is none.
func originOf(blob []byte, name string) (part []byte, err error) {
	if blob == nil {
		return nil, nil
	}
	_, origins, err := openBlob(blob)
	if err != nil {
		return nil, err
	}
	err = readOrigins(origins, func(has string, is []byte) error {
		if has == name {
			part = is
		}
		return nil
	})
	return part, err
}

// openBlob splits a blob into the host's politeness and the origins.
func openBlob(b []byte) (polite, origins []byte, err error) {
	if len(b) == 0 || b[0] != blobVersion {
		return nil, nil, errBlob
	}
	return cutSized(b[1:])
}

func readOrigins(b []byte, visit func(name string, rules []byte) error) (err error) {
	for len(b) > 0 {
		var name, rules []byte
		if name, b, err = cutSized(b); err != nil {
			return err
		}
		if rules, b, err = cutSized(b); err != nil {
			return err
		}
		if err := visit(string(name), rules); err != nil {
			return err
		}
	}
	return nil
}

func cutSized(b []byte) (part, rest []byte, err error) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return nil, nil, errBlob
	}
	return b[w : w+int(n)], b[w+int(n):], nil
}
