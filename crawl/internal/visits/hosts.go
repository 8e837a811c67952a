package visits

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// HostSum is what the rows of a host sum up to.
type HostSum struct {
	Host   string // its key
	Pages  int64
	Queued int64
	PerDay float64 // visits, if each page is visited when it is due
}

// perDay returns how often the row wants to be visited.
func (r *Row) perDay() float64 {
	if !r.counts() || r.Missing > 0 || !r.due().After(r.Visited) {
		return 0
	}
	return 24 * 3600 / r.due().Sub(r.Visited).Seconds()
}

// countHost adds a row n times to the sums of its host.
func (c *change) countHost(r *Row, n int) error {
	sum := c.hosts[r.Item.Host]
	if sum == nil {
		read, err := c.s.Host(r.Item.Host)
		if err != nil {
			return err
		}
		sum = &read
		c.hosts[r.Item.Host] = sum
	}
	sum.Pages += int64(n)
	sum.PerDay += float64(n) * r.perDay()
	if r.Queued {
		sum.Queued += int64(n)
	}
	return nil
}

func (c *change) writeHosts() (err error) {
	for host, sum := range c.hosts {
		key := append([]byte{hostKey}, host...)
		if sum.Pages <= 0 {
			err = errors.Join(err, c.batch.Delete(key, nil))
			continue
		}
		value := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(sum.Pages)), uint64(max(sum.Queued, 0)))
		err = errors.Join(err, c.batch.Set(key, binary.BigEndian.AppendUint64(value, math.Float64bits(max(sum.PerDay, 0))), nil))
	}
	return err
}

// decode sets the sums to those that writeHosts wrote.
func (h *HostSum) decode(b []byte) error {
	for _, n := range []*int64{&h.Pages, &h.Queued} {
		value, size := binary.Uvarint(b)
		if size <= 0 {
			return errRow
		}
		*n, b = int64(value), b[size:]
	}
	if len(b) != 8 {
		return errRow
	}
	h.PerDay = math.Float64frombits(binary.BigEndian.Uint64(b))
	return nil
}

// Host returns the sums of a host, which are zero if it has no rows.
func (s *Store) Host(host string) (sum HostSum, err error) {
	sum.Host = host
	err = s.load(append([]byte{hostKey}, host...), sum.decode)
	return sum, err
}

// Busiest returns the n hosts that want the most visits, those with the most first. It reads the sums of all hosts.
func (s *Store) Busiest(n int) (hosts []HostSum, err error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{hostKey}, UpperBound: []byte{hostKey + 1}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	first := func() {
		slices.SortFunc(hosts, func(a, b HostSum) int { return cmp.Or(cmp.Compare(b.PerDay, a.PerDay), cmp.Compare(a.Host, b.Host)) })
		hosts = hosts[:min(n, len(hosts))]
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		sum := HostSum{Host: string(iter.Key()[1:])}
		if err := sum.decode(iter.Value()); err != nil {
			return nil, err
		}
		if hosts = append(hosts, sum); len(hosts) > 2*n+1000 {
			first()
		}
	}
	first()
	return hosts, iter.Error()
}
