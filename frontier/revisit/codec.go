package revisit

import (
	"encoding/binary"
	"errors"
	"time"
)

// ErrRow reports bytes that are no row.
var ErrRow = errors.New("revisit: these bytes are no row")

const rowVersion = 1

// AppendBinary appends the row to b. Times are kept in seconds. A row of a page with an ETag and ten intervals takes about 140 bytes.
func (r *Row) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, rowVersion)
	for _, t := range []time.Time{r.Visited, r.Changed, r.Next, r.Since} {
		b = binary.AppendUvarint(b, seconds(t))
	}
	for _, text := range []string{r.ETag, r.LastModified} {
		b = append(binary.AppendUvarint(b, uint64(len(text))), text...)
	}
	b = append(append(b, r.Body[:]...), r.Text[:]...)
	b = append(b, byte(r.Missing), byte(len(r.History)))
	for _, i := range r.History {
		n := uint64(i.Length/time.Second) << 1
		if i.Changed {
			n |= 1
		}
		b = binary.AppendUvarint(b, n)
	}
	return b, nil
}

// seconds returns 0 for the zero time, and one more than the seconds since 1970 for others.
func seconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.Unix()) + 1
}

// UnmarshalBinary sets the row to one that AppendBinary wrote. It returns ErrRow for anything else.
func (r *Row) UnmarshalBinary(b []byte) error {
	d := decoder{b: b}
	row := Row{}
	if d.byte() != rowVersion {
		return ErrRow
	}
	for _, t := range []*time.Time{&row.Visited, &row.Changed, &row.Next, &row.Since} {
		if n := d.uvarint(); n > 0 {
			*t = time.Unix(int64(n-1), 0).UTC()
		}
	}
	for _, text := range []*string{&row.ETag, &row.LastModified} {
		*text = string(d.bytes(d.uvarint()))
	}
	copy(row.Body[:], d.bytes(uint64(len(row.Body))))
	copy(row.Text[:], d.bytes(uint64(len(row.Text))))
	row.Missing = int(d.byte())
	for range d.byte() {
		n := d.uvarint()
		row.History = append(row.History, Interval{time.Duration(n>>1) * time.Second, n&1 == 1})
	}
	if d.bad || len(d.b) > 0 || len(row.History) > MaxIntervals {
		return ErrRow
	}
	*r = row
	return nil
}

// decoder reads from b. After the first fault it returns zeros, and bad is true.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) bytes(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	some := d.b[:n]
	d.b = d.b[n:]
	return some
}

func (d *decoder) byte() byte {
	if b := d.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	n, size := binary.Uvarint(d.b)
	if d.bad || size <= 0 || n > 1<<52 {
		d.bad = true
		return 0
	}
	d.b = d.b[size:]
	return n
}
