package visits

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// Keys of the database. Those of rows end with the fingerprint of the page. Those of times have the time in seconds, in
// big-endian order, before it.
const (
	rowKey  = 'r'
	timeKey = 't'
	hostKey = 'h' // followed by the host
)

var (
	stateKey  = []byte("s") // a state, as JSON
	censusKey = []byte("c")
)

const cacheBytes = 16 << 20

// dirName is the directory of the database in that of the crawl.
const dirName = "visits"

// directory is a database in a directory.
type directory struct {
	db *pebble.DB

	mu     sync.Mutex // guards what follows, which is that of the last change
	state  state
	census revisit.Census
}

type silent struct{}

func (silent) Infof(string, ...any)  {}
func (silent) Errorf(string, ...any) {}
func (silent) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}

// Open opens the rows of the crawl in dir, and creates the database if there is none. If readOnly is true, it creates
// nothing, and returns nil if there is none.
func Open(dir string, readOnly bool) (*Store, error) {
	dir = filepath.Join(dir, dirName)
	if _, err := os.Stat(dir); readOnly && errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	options := &pebble.Options{ReadOnly: readOnly, Logger: silent{}, FormatMajorVersion: pebble.FormatNewest, MemTableSize: 8 << 20, Cache: cache}
	options.EnsureDefaults()
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // most rows of a first round are new
	}
	db, err := pebble.Open(dir, options)
	if err != nil {
		return nil, fmt.Errorf("visits: open %s: %w", dir, err)
	}
	d := &directory{db: db, state: begin}
	if err := errors.Join(d.get(stateKey, func(b []byte) error {
		d.state = state{}
		return json.Unmarshal(b, &d.state)
	}),
		d.get(censusKey, d.census.UnmarshalBinary)); err != nil {
		return nil, errors.Join(fmt.Errorf("visits: %s is damaged: remove it, and the crawl reads its records again: %w", dir, err), db.Close())
	}
	if !d.state.Hosts { // the rows are those of an earlier version: the records are read again
		d.state, d.census = begin, revisit.Census{}
		if !readOnly {
			if err := db.DeleteRange([]byte{0}, []byte{0xff}, pebble.NoSync); err != nil {
				return nil, errors.Join(fmt.Errorf("visits: empty %s: %w", dir, err), db.Close())
			}
		}
	}
	return newStore(d)
}

// begin is the state before the first record.
var begin = state{At: record.Place{File: 1}, Hosts: true}

// get passes the value of a key to read, if there is one.
func (d *directory) get(key []byte, read func([]byte) error) error {
	value, closer, err := d.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(read(value), closer.Close())
}

func (d *directory) Close() error        { return d.db.Close() }
func (d *directory) diskBytes() uint64   { return d.db.Metrics().DiskSpaceUsage() }
func (d *directory) lead() (bool, error) { return true, nil }

func (d *directory) load() (state, revisit.Census, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state, d.census, nil
}

func keyOf(item bloomstore.Fingerprint) []byte { return append([]byte{rowKey}, item[:]...) }

// timeOf returns the key of a row in the order of times.
func timeOf(at time.Time, item bloomstore.Fingerprint) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{timeKey}, uint64(max(at.Unix(), 0))), item[:]...)
}

func parseTime(key []byte) (at time.Time, item bloomstore.Fingerprint, err error) {
	if len(key) != 1+8+len(item) {
		return at, item, fmt.Errorf("visits: the time %x has a wrong length", key)
	}
	copy(item[:], key[9:])
	return time.Unix(int64(binary.BigEndian.Uint64(key[1:])), 0).UTC(), item, nil
}

// parse sets a row to its value.
func (r *stored) parse(value []byte) error {
	r.row = new(Row)
	err := r.row.decode(value)
	r.row.Reached = r.row.Item.Round
	r.reached = r.row.Reached
	return err
}

func (d *directory) rows(items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]stored, error) {
	found := make(map[bloomstore.Fingerprint]stored, len(items))
	for _, item := range items {
		err := d.get(keyOf(item), func(b []byte) error {
			row := stored{item: item}
			err := row.parse(b)
			found[item] = row
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (d *directory) after(item []byte, n int) (rows []stored, err error) {
	from := []byte{rowKey}
	if item != nil {
		from = append(append(from, item...), 0)
	}
	err = d.each(from, []byte{rowKey + 1}, func(key []byte, value func() []byte) (bool, error) {
		row := stored{item: bloomstore.Fingerprint(key[1:])}
		err := row.parse(value())
		rows = append(rows, row)
		return len(rows) < n, err
	})
	return rows, err
}

// each calls f for the keys from one to another, until it returns false.
func (d *directory) each(from, to []byte, f func(key []byte, value func() []byte) (bool, error)) (err error) {
	iter, err := d.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		if more, err := f(iter.Key(), iter.Value); err != nil || !more {
			return err
		}
	}
	return iter.Error()
}

func (d *directory) due(by time.Time, n int) (rows []stored, next time.Time, err error) {
	var items []bloomstore.Fingerprint
	err = d.each([]byte{timeKey}, []byte{timeKey + 1}, func(key []byte, _ func() []byte) (bool, error) {
		at, item, err := parseTime(key)
		if err != nil || len(items) == n {
			return false, err
		}
		if at.After(by) {
			next = at
			return false, nil
		}
		items = append(items, item)
		return true, nil
	})
	if err != nil {
		return nil, next, err
	}
	found, err := d.rows(items)
	for _, item := range items {
		row, has := found[item]
		if !has && err == nil {
			err = fmt.Errorf("visits: %x is due, but has no row", item)
		}
		rows = append(rows, row)
	}
	if err != nil {
		return nil, next, err
	}
	return rows, next, nil
}

func (d *directory) countDue(by time.Time, most int64) (n int64, first time.Time, err error) {
	err = d.each([]byte{timeKey}, timeOf(by.Add(time.Second), bloomstore.Fingerprint{}), func(key []byte, _ func() []byte) (_ bool, err error) {
		if n == 0 {
			first, _, err = parseTime(key)
		}
		n++
		return n < most, err
	})
	return n, first, err
}

func (d *directory) host(host string) (sum HostSum, err error) {
	sum.Host = host
	err = d.get(append([]byte{hostKey}, host...), sum.decode)
	return sum, err
}

func (d *directory) busiest(n int) (hosts []HostSum, err error) {
	first := func() {
		slices.SortFunc(hosts, func(a, b HostSum) int { return cmp.Or(cmp.Compare(b.PerDay, a.PerDay), cmp.Compare(a.Host, b.Host)) })
		hosts = hosts[:min(n, len(hosts))]
	}
	err = d.each([]byte{hostKey}, []byte{hostKey + 1}, func(key []byte, value func() []byte) (bool, error) {
		sum := HostSum{Host: string(key[1:])}
		if err := sum.decode(value()); err != nil {
			return false, err
		}
		if hosts = append(hosts, sum); len(hosts) > 2*n+1000 {
			first()
		}
		return true, nil
	})
	first()
	return hosts, err
}

// batch is a transaction of a directory.
type batch struct {
	*directory
	*pebble.Batch
}

func (d *directory) change(f func(transaction) error) error {
	b := batch{d, d.db.NewBatch()}
	defer func() { _ = b.Batch.Close() }() // it only frees memory
	return f(b)
}

func (b batch) write(c *change) error {
	for item, due := range c.wrote {
		after := c.rows[item]
		if due != nil && (after == nil || !due.Equal(after.Next)) {
			if err := b.Delete(timeOf(*due, item), nil); err != nil {
				return err
			}
		}
		if after == nil {
			if err := b.Delete(keyOf(item), nil); err != nil {
				return err
			}
			continue
		}
		value, err := after.encode()
		if err := errors.Join(err, b.Set(keyOf(item), value, nil), b.Set(timeOf(after.Next, item), nil, nil)); err != nil {
			return err
		}
	}
	for _, more := range c.hosts {
		if err := b.addHost(more); err != nil {
			return err
		}
	}
	text, err := json.Marshal(&c.state)
	census, _ := c.census.AppendBinary(nil)
	// A batch that is lost with the machine is made again: the records are synced before it, and so is what is queued.
	if err := errors.Join(err, b.Set(stateKey, text, nil), b.Set(censusKey, census, nil), b.Commit(pebble.NoSync)); err != nil {
		return fmt.Errorf("visits: commit: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.census = c.state, c.census
	return nil
}

func (b batch) addHost(more *HostSum) error {
	sum, err := b.host(more.Host)
	if err != nil {
		return err
	}
	key := append([]byte{hostKey}, more.Host...)
	if sum.Pages += more.Pages; sum.Pages <= 0 {
		return b.Delete(key, nil)
	}
	value := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(sum.Pages)), uint64(max(sum.Queued+more.Queued, 0)))
	value = binary.BigEndian.AppendUint64(value, math.Float64bits(max(sum.PerDay+more.PerDay, 0)))
	for _, n := range [...]int64{sum.Right + more.Right, sum.Wrong + more.Wrong, sum.Missed + more.Missed} {
		value = binary.AppendUvarint(value, uint64(n))
	}
	return b.Set(key, value, nil)
}

// decode sets the sums to those that addHost wrote.
func (h *HostSum) decode(b []byte) error {
	for _, n := range []*int64{&h.Pages, &h.Queued} {
		value, size := binary.Uvarint(b)
		if size <= 0 {
			return errRow
		}
		*n, b = int64(value), b[size:]
	}
	if len(b) < 8 {
		return errRow
	}
	h.PerDay, b = math.Float64frombits(binary.BigEndian.Uint64(b)), b[8:]
	if len(b) == 0 {
		return nil // of an earlier version
	}
	for _, n := range []*int64{&h.Right, &h.Wrong, &h.Missed} {
		value, size := binary.Uvarint(b)
		if size <= 0 {
			return errRow
		}
		*n, b = int64(value), b[size:]
	}
	return nil
}
