// Package visits remembers the pages of a crawl that visits them again: a row for each, and when it is due.
//
// It owns the rows, their order by due time, how far they follow the records of the crawl, and the census of how often
// pages change. One batch changes all of these, so that a crash repeats at most the last step, with the same result. It
// reads no records, and queues nothing (package crawl).
package visits

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// Keys of the database. Those of rows end with the fingerprint of the page. Those of times have the time in seconds, in
// big-endian order, before it.
const (
	rowKey  = 'r'
	timeKey = 't'
	hostKey = 'h' // see hosts.go
)

var (
	stateKey  = []byte("s") // a state, as JSON
	censusKey = []byte("c")
)

const cacheBytes = 16 << 20

// dirName is the directory of the database in that of the crawl.
const dirName = "visits"

// OfferAgain is when a page that was queued counts as due once more, if no record of that visit came. To queue it again
// then does nothing while it is queued.
const OfferAgain = 24 * time.Hour

// weight is that of each page.
const weight = 1

// Row is what is remembered about a page.
type Row struct {
	revisit.Row
	Item      frontier.Finished // what queues the page again; the round is that of its last record
	Target    string            // of the redirect that the last visit with content answered
	Read      time.Time         // the last visit with content
	Archived  time.Time         // fetched_at of the last visit whose content an archive keeps whole, if there is one; to the millisecond
	NotBefore time.Time         // when the site's max-age ends
	Queued    bool              // for the visit after Item.Round
	Due       time.Time         // when that visit was due, while Queued
	Sampled   bool              // that visit measures how many pages are up to date
}

// due returns when the next visit is, or was, due.
func (r *Row) due() time.Time {
	if r.Queued && !r.Due.IsZero() {
		return r.Due
	}
	return r.Next
}

// counts reports whether the census counts the row.
func (r *Row) counts() bool { return !r.IsGone() }

// state is what the rows sum up to, and how far they follow the records.
type state struct {
	At      record.Place  `json:"at"`                // where the next record begins
	Plan    string        `json:"plan"`              // the settings by which the rows are due
	Sweep   []byte        `json:"sweep,omitempty"`   // the last row that has a time of these settings; nil if all have
	Kept    string        `json:"kept"`              // what decides which links and content are read
	KeptAt  time.Time     `json:"kept_at"`           // since when
	Figures report.Visits `json:"figures,omitempty"` // without those that depend on the time
	Hosts   bool          `json:"hosts"`             // there are rows of hosts
	Sample  mean          `json:"sample"`            // 1 for each sampled visit that found the page up to date, otherwise 0
	Late    mean          `json:"late"`              // seconds from when a visit was due until it was made
}

// mean is the mean of the last 500 to 1000 numbers.
type mean struct {
	N   int     `json:"n"`
	Sum float64 `json:"sum"`
}

func (m *mean) add(x float64) {
	if m.N == 1000 {
		m.N, m.Sum = m.N/2, m.Sum/2
	}
	m.N, m.Sum = m.N+1, m.Sum+x
}

func (m *mean) value() float64 { return m.Sum / float64(max(m.N, 1)) }

// Store has the rows of a crawl. It is safe for concurrent use. Errors of its methods are errors of the disk, or say that
// the database is damaged.
type Store struct {
	db *pebble.DB

	mu     sync.Mutex
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
	s := &Store{db: db, state: begin}
	if err := errors.Join(s.load(stateKey, func(b []byte) error {
		s.state = state{}
		return json.Unmarshal(b, &s.state)
	}),
		s.load(censusKey, s.census.UnmarshalBinary)); err != nil {
		return nil, errors.Join(fmt.Errorf("visits: %s is damaged: remove it, and the crawl reads its records again: %w", dir, err), db.Close())
	}
	if !s.state.Hosts { // the rows are those of an earlier version: the records are read again
		s.state, s.census = begin, revisit.Census{}
		if !readOnly {
			if err := db.DeleteRange([]byte{0}, []byte{0xff}, pebble.NoSync); err != nil {
				return nil, errors.Join(fmt.Errorf("visits: empty %s: %w", dir, err), db.Close())
			}
		}
	}
	return s, nil
}

// begin is the state before the first record.
var begin = state{At: record.Place{File: 1}, Hosts: true}

// load passes the value of a key to read, if there is one.
func (s *Store) load(key []byte, read func([]byte) error) error {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(read(value), closer.Close())
}

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// At returns where the next record begins that Add must be called with.
func (s *Store) At() record.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.At
}

// Row returns the row of a page. found is false if there is none.
func (s *Store) Row(item bloomstore.Fingerprint) (row Row, found bool, err error) {
	err = s.load(keyOf(item), func(b []byte) error {
		found = true
		return row.decode(b)
	})
	return row, found && err == nil, err
}

// ReadAgain reports whether a page must be read as a whole, because what decides which links and content are read has
// changed since the last visit with content, or that visit is older than a time.
func (s *Store) ReadAgain(row *Row, oldest time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !row.Read.After(s.state.KeptAt) || row.Read.Before(oldest)
}

func keyOf(item bloomstore.Fingerprint) []byte { return append([]byte{rowKey}, item[:]...) }

// timeOf returns the key of a row in the order of times.
func timeOf(at time.Time, item bloomstore.Fingerprint) []byte {
	return append(binary.BigEndian.AppendUint64([]byte{timeKey}, uint64(max(at.Unix(), 0))), item[:]...)
}

// change is one batch.
type change struct {
	s      *Store
	batch  *pebble.Batch
	rows   map[bloomstore.Fingerprint]*Row // that the batch has written; nil means deleted
	hosts  map[string]*HostSum             // that the batch has read
	state  state
	census revisit.Census
}

// change runs f with a batch, and commits what f has written together with the state. The rows are those of before f.
func (s *Store) change(name string, f func(c *change) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &change{s, s.db.NewBatch(), make(map[bloomstore.Fingerprint]*Row), make(map[string]*HostSum), s.state, s.census}
	defer func() { _ = c.batch.Close() }() // it only frees memory
	if err := f(c); err != nil {
		return err
	}
	crash.Point("visits " + name)
	text, err := json.Marshal(&c.state)
	if err := errors.Join(err, c.writeHosts()); err != nil {
		return err
	}
	census, _ := c.census.AppendBinary(nil)
	// A batch that is lost with the machine is made again: the records are synced before it, and so is what is queued.
	if err := errors.Join(c.batch.Set(stateKey, text, nil), c.batch.Set(censusKey, census, nil), c.batch.Commit(pebble.NoSync)); err != nil {
		return fmt.Errorf("visits: commit: %w", err)
	}
	crash.Point("visits " + name + " committed")
	s.state, s.census = c.state, c.census
	return nil
}

// row is Store.Row with what the batch has written.
func (c *change) row(item bloomstore.Fingerprint) (row Row, found bool, err error) {
	if written, is := c.rows[item]; is {
		if written == nil {
			return row, false, nil
		}
		return *written, true, nil
	}
	return c.s.Row(item)
}

// replace writes a row in place of an earlier one. Either can be nil.
func (c *change) replace(item bloomstore.Fingerprint, before, after *Row) error {
	c.rows[item] = after
	f := &c.state.Figures
	for _, of := range []struct {
		row *Row
		n   int
	}{{before, -1}, {after, 1}} {
		if of.row == nil {
			continue
		}
		f.Pages += int64(of.n)
		if of.row.counts() {
			c.census.Add(revisit.Rate(of.row.History), weight, of.n)
		} else {
			f.Gone += int64(of.n)
		}
		if of.row.Queued {
			f.Queued += int64(of.n)
		}
		if err := c.countHost(of.row, of.n); err != nil {
			return err
		}
	}
	if before != nil && (after == nil || !before.Next.Equal(after.Next)) {
		if err := c.batch.Delete(timeOf(before.Next, item), nil); err != nil {
			return err
		}
	}
	if after == nil {
		return c.batch.Delete(keyOf(item), nil)
	}
	value, err := after.encode()
	if err != nil {
		return err
	}
	return errors.Join(c.batch.Set(keyOf(item), value, nil), c.batch.Set(timeOf(after.Next, item), nil, nil))
}

// Visit is a record of a page.
type Visit struct {
	Fingerprint bloomstore.Fingerprint
	Item        frontier.Finished
	Target      string
	revisit.Visit
}

// Add adds visits, in the order of their records, which end before a place. A record of a round that the row has reached
// changes nothing. So the records of a crawl can be read from the beginning at any time.
func (s *Store) Add(visits []Visit, end record.Place, plan revisit.Plan) error {
	return s.change("added", func(c *change) error {
		c.state.At = end
		for i := range visits {
			if err := c.add(&visits[i], plan); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *change) add(v *Visit, plan revisit.Plan) error {
	before, found, err := c.row(v.Fingerprint)
	if err != nil || found && v.Item.Round <= before.Item.Round {
		return err
	}
	if !found && v.Answer == revisit.NoAnswer {
		return nil // it was not fetched yet
	}
	after, old := before, &before
	if !found {
		old = nil
	}
	var said revisit.Change
	after.Row, said = before.After(v.Visit, plan, weight)
	after.Item, after.Queued, after.Sampled, after.Due = v.Item, false, false, time.Time{}
	c.measure(&before, v.At, said)
	if v.Answer == revisit.Content {
		if v.Body != before.Body || !before.Archived.After(c.state.KeptAt) {
			after.Archived = v.At
		}
		after.Target, after.Read = v.Target, v.At
	}
	if v.Answer != revisit.NoAnswer {
		after.NotBefore = v.At.Add(v.MaxAge)
	}
	if v.Item.Round > 0 {
		f := &c.state.Figures
		f.Visits++
		switch said {
		case revisit.Unchanged:
			f.Unchanged++
		case revisit.Changed:
			f.Changed++
		}
	}
	return c.replace(v.Fingerprint, old, &after)
}

// measure notes how late a visit was, and whether a sampled one found the page up to date.
func (c *change) measure(before *Row, at time.Time, said revisit.Change) {
	switch {
	case !before.Queued:
	case !before.Sampled:
		c.state.Late.add(max(at.Sub(before.due()).Seconds(), 0))
	case said == revisit.Unchanged:
		c.state.Sample.add(1)
	case said == revisit.Changed:
		c.state.Sample.add(0)
	}
}

// Sample returns at most n pages at random whose next visit measures how many pages are up to date. It returns no pages that
// were not found, and none whose max-age has not ended.
func (s *Store) Sample(n int, now time.Time) (items []bloomstore.Fingerprint, rows []Row, err error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{rowKey}, UpperBound: []byte{rowKey + 1}})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for range n {
		var at, item bloomstore.Fingerprint
		binary.BigEndian.PutUint64(at[:], rand.Uint64())
		if !iter.SeekGE(keyOf(at)) && !iter.First() {
			break
		}
		copy(item[:], iter.Key()[1:])
		row := Row{}
		if err := row.decode(iter.Value()); err != nil {
			return nil, nil, err
		}
		if row.Missing == 0 && !row.NotBefore.After(now) && !slices.Contains(items, item) {
			row.Sampled = true
			items, rows = append(items, item), append(rows, row)
		}
	}
	return items, rows, iter.Error()
}

// Due returns at most n rows that are due now, the oldest first, and the time when the next one is due if there are fewer.
// The time is zero if there is none.
func (s *Store) Due(now time.Time, n int) (items []bloomstore.Fingerprint, rows []Row, next time.Time, err error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{timeKey}, UpperBound: []byte{timeKey + 1}})
	if err != nil {
		return nil, nil, next, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok && len(items) < n; ok = iter.Next() {
		at, item, err := parseTime(iter.Key())
		if err != nil {
			return nil, nil, next, err
		}
		if at.After(now) {
			return items, rows, at, nil
		}
		row, found, err := s.Row(item)
		if err != nil {
			return nil, nil, next, err
		}
		if !found {
			return nil, nil, next, fmt.Errorf("visits: %x is due, but has no row", item)
		}
		items, rows = append(items, item), append(rows, row)
	}
	return items, rows, next, iter.Error()
}

func parseTime(key []byte) (at time.Time, item bloomstore.Fingerprint, err error) {
	if len(key) != 1+8+len(item) {
		return at, item, fmt.Errorf("visits: the time %x has a wrong length", key)
	}
	copy(item[:], key[9:])
	return time.Unix(int64(binary.BigEndian.Uint64(key[1:])), 0).UTC(), item, nil
}

// Queued notes that pages were queued for the visit after a round, those with Row.Sampled as a sample. It does nothing for a page whose row has another
// round by now.
func (s *Store) Queued(items []bloomstore.Fingerprint, rows []Row, now time.Time) error {
	return s.change("queued", func(c *change) error {
		for i, item := range items {
			before, found, err := c.row(item)
			if err != nil {
				return err
			}
			if !found || before.Item.Round != rows[i].Item.Round {
				continue
			}
			after := before
			if !before.Queued {
				after.Due = before.Next
			}
			after.Queued, after.Sampled, after.Next = true, before.Sampled || rows[i].Sampled, now.Add(OfferAgain)
			if err := c.replace(item, &before, &after); err != nil {
				return err
			}
		}
		return nil
	})
}

// Purge forgets pages.
func (s *Store) Purge(items []bloomstore.Fingerprint) error {
	return s.change("purged", func(c *change) error {
		for _, item := range items {
			before, found, err := c.row(item)
			if err != nil {
				return err
			}
			if found {
				c.state.Figures.Purged++
				if err := c.replace(item, &before, nil); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// Begin notes the settings of a run. If the rows are due by others, Sweep must be called until it returns false.
func (s *Store) Begin(plan, kept string, now time.Time) error {
	s.mu.Lock()
	same := s.state.Plan == plan && s.state.Kept == kept
	s.mu.Unlock()
	if same {
		return nil
	}
	return s.change("begun", func(c *change) error {
		if c.state.Plan != plan {
			c.state.Sweep = []byte{rowKey}
		}
		if c.state.Kept != kept {
			c.state.KeptAt = now.UTC()
		}
		c.state.Plan, c.state.Kept = plan, kept
		return nil
	})
}

// Sweep gives at most n rows their time by a plan, and reports whether there are more.
func (s *Store) Sweep(plan revisit.Plan, n int) (more bool, err error) {
	s.mu.Lock()
	from := s.state.Sweep
	s.mu.Unlock()
	if from == nil {
		return false, nil
	}
	err = s.change("swept", func(c *change) (err error) {
		iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: append(from[:len(from):len(from)], 0), UpperBound: []byte{rowKey + 1}})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, iter.Close()) }()
		c.state.Sweep = nil
		done := 0
		for ok := iter.First(); ok; ok = iter.Next() {
			var before Row
			var item bloomstore.Fingerprint
			copy(item[:], iter.Key()[1:])
			if err := before.decode(iter.Value()); err != nil {
				return err
			}
			if after := before; !before.Queued {
				after.Row = before.Again(plan, weight, before.NotBefore)
				if err := c.replace(item, &before, &after); err != nil {
					return err
				}
			}
			c.state.Sweep = append([]byte(nil), iter.Key()...)
			if done++; done == n {
				return nil
			}
		}
		c.state.Sweep = nil
		return iter.Error()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Sweep != nil, err
}

// DiskBytes returns the size of the database.
func (s *Store) DiskBytes() uint64 { return s.db.Metrics().DiskSpaceUsage() }

// Census returns a copy of the census.
func (s *Store) Census() *revisit.Census {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.census
	return &c
}

// InQueue returns how many pages wait in the queue for their next visit.
func (s *Store) InQueue() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Figures.Queued
}

// mostCounted is how many rows Figures counts at most that are due.
const mostCounted = 100_000

// Figures returns what the rows sum up to, with a plan.
func (s *Store) Figures(now time.Time, plan revisit.Plan) (f report.Visits, err error) {
	s.mu.Lock()
	f = s.state.Figures
	f.Fresh, f.PerDay = s.census.Fresh(plan), s.census.Requests(plan)
	f.Sampled, f.Measured, f.MeanLate = int64(s.state.Sample.N), s.state.Sample.value(), s.state.Late.value()
	s.mu.Unlock()
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{timeKey}, UpperBound: timeOf(now.Add(time.Second), bloomstore.Fingerprint{})})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok && f.Due < mostCounted; ok = iter.Next() {
		at, _, err := parseTime(iter.Key())
		if err != nil {
			return f, err
		}
		if f.Due == 0 {
			f.Late = now.Sub(at).Seconds()
		}
		f.Due++
	}
	f.More = f.Due == mostCounted
	return f, iter.Error()
}
