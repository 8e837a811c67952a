package fetcher

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/robots"
	"github.com/bloomfrontier/crawler/frontier"
)

// A host's blob: version, the host's politeness, then for each origin its name
// and the state of its robots.txt, each with its length before it.
const blobVersion = 1

// maxOrigins bounds the origins of one host key whose rules are remembered: each
// port of a hostile host is one.
const maxOrigins = 16

var errBlob = errors.New("fetcher: not the state of a host")

// appendBlob encodes what is known of the host; mu is held. A robots.txt that
// does not fit is left out, and asked for again with the next lease.
func (h *holding) appendBlob(b []byte) []byte {
	b = append(b, blobVersion)
	polite, _ := h.host.AppendBinary(nil)
	b = appendSized(b, polite)
	for name, state := range h.origins {
		rules, err := state.AppendBinary(nil)
		if err == nil && len(b)+len(name)+len(rules)+2*binary.MaxVarintLen32 <= frontier.MaxBlob {
			b = appendSized(appendSized(b, []byte(name)), rules)
		}
	}
	return b
}

func appendSized(b, part []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(part))), part...)
}

// readBlob is the inverse of appendBlob. On error what could be read counts.
func (h *holding) readBlob(b []byte, now time.Time) error {
	if b == nil {
		return nil
	}
	if len(b) == 0 || b[0] != blobVersion {
		return errBlob
	}
	polite, b, err := cutSized(b[1:])
	if err != nil {
		return err
	}
	if err := h.host.UnmarshalBinary(polite); err != nil {
		return err
	}
	for len(b) > 0 {
		var name, rules []byte
		if name, b, err = cutSized(b); err != nil {
			return err
		}
		if rules, b, err = cutSized(b); err != nil {
			return err
		}
		state := new(robots.State)
		if err := state.Restore(rules, now); err != nil {
			return err
		}
		h.origins[string(name)] = state
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
