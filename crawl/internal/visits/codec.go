package visits

import (
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// errRow reports a damaged row.
var errRow = errors.New("visits: a row is damaged")

const codecVersion = 1

// Bits of the second byte of a row.
const (
	flagQueued  = 1 << 0
	flagSampled = 1 << 1
	flagDue     = 1 << 2 // a number with the time follows the others
	flagLater   = 1 << 3
	flagWeight  = 1 << 4 // then the bits of Row.Weight; otherwise it is 1
	flagChanged = 1 << 5 // Row.Claim, whose time follows
	flagSame    = 1 << 6
)

// encode returns the value of the row's key.
func (r *Row) encode() ([]byte, error) {
	inner, err := r.AppendBinary(nil)
	if err != nil {
		return nil, err
	}
	flags := byte(0)
	if r.Queued {
		flags |= flagQueued
	}
	if r.Sampled {
		flags |= flagSampled
	}
	if !r.Due.IsZero() {
		flags |= flagDue
	}
	if r.Later {
		flags |= flagLater
	}
	if r.Weight != 1 {
		flags |= flagWeight
	}
	switch r.Claim {
	case ClaimChanged:
		flags |= flagChanged
	case ClaimSame:
		flags |= flagSame
	}
	b := append(make([]byte, 0, len(inner)+len(r.Item.URL)+96), codecVersion, flags, byte(r.Item.Class))
	for _, n := range []uint64{uint64(r.Item.Depth), uint64(r.Item.Round), seconds(r.Read), seconds(r.NotBefore), uint64(max(r.Archived.UnixMilli(), 0))} {
		b = binary.AppendUvarint(b, n)
	}
	if !r.Due.IsZero() {
		b = binary.AppendUvarint(b, seconds(r.Due))
	}
	if r.Weight != 1 {
		b = binary.AppendUvarint(b, math.Float64bits(r.Weight))
	}
	if r.Claim != 0 {
		b = binary.AppendUvarint(b, seconds(r.Claimed))
	}
	b = append(b, r.Item.Referrer[:]...)
	for _, text := range []string{r.Item.URL, r.Item.Host, r.Item.Submission, r.Target} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	return append(b, inner...), nil
}

func seconds(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }

// decode sets r to a row that encode returned.
func (r *Row) decode(b []byte) error {
	*r = Row{}
	if len(b) < 3 || b[0] != codecVersion {
		return errRow
	}
	flags := b[1]
	r.Queued, r.Sampled, r.Item.Class = flags&flagQueued != 0, flags&flagSampled != 0, frontier.Class(b[2])
	b = b[3:]
	var n [8]uint64
	for i := range n {
		if i == 5 && flags&flagDue == 0 || i == 6 && flags&flagWeight == 0 || i == 7 && flags&(flagChanged|flagSame) == 0 {
			continue
		}
		value, size := binary.Uvarint(b)
		if size <= 0 {
			return errRow
		}
		n[i], b = value, b[size:]
	}
	r.Item.Depth, r.Item.Round = uint16(n[0]), uint32(n[1])
	r.Read, r.NotBefore, r.Archived = time.Unix(int64(n[2]), 0).UTC(), time.Unix(int64(n[3]), 0).UTC(), time.UnixMilli(int64(n[4])).UTC()
	if flags&flagDue != 0 {
		r.Due = time.Unix(int64(n[5]), 0).UTC()
	}
	if r.Weight = 1; flags&flagWeight != 0 {
		r.Weight = math.Float64frombits(n[6])
	}
	switch {
	case flags&flagChanged != 0:
		r.Claim = ClaimChanged
	case flags&flagSame != 0:
		r.Claim = ClaimSame
	}
	if r.Claim != 0 {
		r.Claimed = time.Unix(int64(n[7]), 0).UTC()
	}
	r.Later = flags&flagLater != 0
	if len(b) < len(r.Item.Referrer) {
		return errRow
	}
	b = b[copy(r.Item.Referrer[:], b):]
	for _, text := range []*string{&r.Item.URL, &r.Item.Host, &r.Item.Submission, &r.Target} {
		size, used := binary.Uvarint(b)
		if used <= 0 || size > uint64(len(b)-used) {
			return errRow
		}
		*text, b = string(b[used:used+int(size)]), b[used+int(size):]
	}
	return r.UnmarshalBinary(b)
}
