// Package visits remembers the pages of a crawl that visits them again: a row for each, and when it is due.
//
// It owns the rows, their order by due time, how far they follow the records of the crawl, and the census of how often
// pages change. One batch changes all of these, so that a crash repeats at most the last step, with the same result. It
// reads no records, and queues nothing (package crawl).
package visits

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
	"github.com/bloomfrontier/crawler/internal/crash"
)

// OfferAgain is when a page that was queued counts as due once more, if no record of that visit came. To queue it again
// then does nothing while it is queued.
const OfferAgain = 24 * time.Hour

// sweepMark begins state.Sweep.
const sweepMark = 'r'

// Plans says how the pages of a host are visited again. It is safe for concurrent use.
type Plans func(host string) HostPlan

// HostPlan is how the pages of a host are visited again.
type HostPlan struct {
	Plan   revisit.Plan
	Weight float64 // of a page beside others
	Own    bool    // the host has a plan of its own, so the estimate of what is up to date leaves it out
}

// Everywhere returns a plan for all hosts.
func Everywhere(plan revisit.Plan) Plans {
	return func(string) HostPlan { return HostPlan{Plan: plan, Weight: 1} }
}

// counted returns the weight of a page in the census.
func (p *HostPlan) counted() float64 {
	if p.Own {
		return 0
	}
	return p.Weight
}

// Row is what is remembered about a page.
type Row struct {
	revisit.Row
	Item      frontier.Finished // what queues the page again; the round is that of its last record
	Target    string            // of the redirect that the last visit with content answered
	Read      time.Time         // the last visit with content
	Archived  time.Time         // fetched_at of the last visit whose content an archive keeps whole, if there is one; to the millisecond
	NotBefore time.Time         // when the site's max-age ends
	Weight    float64           // in the census; 0 means that it is not counted
	Queued    bool              // for the visit after Item.Round, or after Reached
	Later     bool              // it is due, but its host has enough in the queue; Next is when it is looked at again
	Due       time.Time         // when the visit was due, while Queued or Later
	Sampled   bool              // that visit measures how many pages are up to date
	// Reached is the latest round that was completed. It can be more than Item.Round until the record of that round is
	// read, and for ever if that record is lost.
	Reached uint32

	Claim   Claim     // what a sitemap said of the page since its last visit
	Claimed time.Time // when
}

// Claim is what a sitemap says of a page: whether it was modified since its last visit.
type Claim uint8

// The claims. 0 means that there is none.
const (
	ClaimChanged Claim = iota + 1
	ClaimSame
)

// due returns when the next visit is, or was, due.
func (r *Row) due() time.Time {
	if (r.Queued || r.Later) && !r.Due.IsZero() {
		return r.Due
	}
	return r.Next
}

// counts reports whether the row wants visits at the rate of its plan.
func (r *Row) counts() bool { return !r.IsGone() }

// state is what the rows sum up to, and how far they follow the records.
type state struct {
	At      record.Place  `json:"at,omitzero"`       // where the next record begins, if there is one reader of the records
	Plan    string        `json:"plan"`              // the settings by which the rows are due
	Sweep   []byte        `json:"sweep,omitempty"`   // a mark, and the last row that has a time of these settings; nil if all have
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

// Store has the rows of a crawl. It is safe for concurrent use. Errors of its methods are errors of the disk or of the
// server, or say that the database is damaged.
type Store struct {
	db database

	mu     sync.Mutex // held during a change
	state  state      // of the last change or Refresh
	census revisit.Census
}

// database keeps rows, sums of hosts and a state. The other methods see what the last call of change wrote.
type database interface {
	reader
	load() (state, revisit.Census, error)
	// change calls f, which reads and writes with one transaction. No other change runs meanwhile. If the transaction failed
	// or its answer was lost, f can be called again.
	change(f func(transaction) error) error
	host(key string) (HostSum, error)
	busiest(n int) ([]HostSum, error)
	// due returns at most n rows whose Next is not after a time, and the next one's time if there are fewer. countDue counts them,
	// up to most, and returns the first one's time.
	due(by time.Time, n int) (rows []stored, next time.Time, err error)
	countDue(by time.Time, most int64) (n int64, first time.Time, err error)
	// lead reports whether the caller should queue what is due. Others can be told so, too: it only saves work.
	lead() (bool, error)
	diskBytes() uint64
	Close() error
}

type reader interface {
	rows(items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]stored, error)
	// after returns the next n rows after a fingerprint, in their order; nil is before the first.
	after(item []byte, n int) ([]stored, error)
}

type transaction interface {
	reader
	load() (state, revisit.Census, error)
	write(c *change) error
}

// stored is what is known of an item.
type stored struct {
	item    bloomstore.Fingerprint
	row     *Row   // nil if only Reached is known, because the page is forgotten
	reached uint32 // see Row.Reached
}

// newStore returns a Store over a database.
func newStore(db database) (*Store, error) {
	s := &Store{db: db}
	return s, s.Refresh()
}

// Refresh reads the state again, which other processes can have changed.
func (s *Store) Refresh() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.census, err = s.db.load()
	return err
}

// Close closes the database, unless it is shared.
func (s *Store) Close() error { return s.db.Close() }

// Leads reports whether the caller should queue what is due. If several processes share the rows, it is one of them, apart from one
// that was suspended meanwhile.
func (s *Store) Leads() (bool, error) { return s.db.lead() }

// At returns where the next record begins that Add must be called with.
func (s *Store) At() record.Place {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.At
}

// Row returns the row of a page. found is false if there is none.
func (s *Store) Row(item bloomstore.Fingerprint) (row Row, found bool, err error) {
	all, err := s.Rows([]bloomstore.Fingerprint{item})
	row, found = all[item]
	return row, found && !row.Visited.IsZero(), err
}

// Rows returns the rows that there are. A row of which only Reached is set is that of a page that is forgotten.
func (s *Store) Rows(items []bloomstore.Fingerprint) (map[bloomstore.Fingerprint]Row, error) {
	found, err := s.db.rows(items)
	all := make(map[bloomstore.Fingerprint]Row, len(found))
	for item, one := range found {
		row := Row{}
		if one.row != nil {
			row = *one.row
		}
		row.Reached = one.reached
		all[item] = row
	}
	return all, err
}

// ReadAgain reports whether a page must be read as a whole, because what decides which links and content are read has
// changed since the last visit with content, or that visit is older than a time.
func (s *Store) ReadAgain(row *Row, oldest time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !row.Read.After(s.state.KeptAt) || row.Read.Before(oldest)
}

// change is one transaction.
type change struct {
	read   reader
	rows   map[bloomstore.Fingerprint]*Row       // that were read or written; nil means that there is none
	wrote  map[bloomstore.Fingerprint]*time.Time // when the rows that were written were due before; nil if they were not there
	hosts  map[string]*HostSum                   // what the sums of hosts grow by
	cursor Cursor                                // if it is set
	state  state
	census revisit.Census
}

// change runs f with the rows of items, and commits what f has written together with the state.
func (s *Store) change(name string, items []bloomstore.Fingerprint, f func(c *change) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var c *change
	err := s.db.change(func(tx transaction) error {
		c = &change{
			read: tx, rows: make(map[bloomstore.Fingerprint]*Row, len(items)), wrote: make(map[bloomstore.Fingerprint]*time.Time, len(items)),
			hosts: make(map[string]*HostSum),
		}
		var err error
		if c.state, c.census, err = tx.load(); err != nil {
			return err
		}
		found, err := tx.rows(items)
		if err != nil {
			return err
		}
		for item, one := range found {
			c.rows[item] = one.row
		}
		if err := f(c); err != nil {
			return err
		}
		crash.Point("visits " + name)
		return tx.write(c)
	})
	if err != nil {
		return err
	}
	crash.Point("visits " + name + " committed")
	s.state, s.census = c.state, c.census
	return nil
}

// row returns a row of which change was told.
func (c *change) row(item bloomstore.Fingerprint) (row Row, found bool) {
	if known := c.rows[item]; known != nil {
		return *known, true
	}
	return row, false
}

// replace writes a row in place of an earlier one. Either can be nil.
func (c *change) replace(item bloomstore.Fingerprint, before, after *Row) {
	if _, is := c.wrote[item]; !is {
		c.wrote[item] = nil
		if before != nil {
			c.wrote[item] = &before.Next
		}
	}
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
		switch {
		case !of.row.counts():
			f.Gone += int64(of.n)
		case of.row.Weight > 0:
			c.census.Add(revisit.Rate(of.row.History), of.row.Weight, of.n)
		}
		if of.row.Queued {
			f.Queued += int64(of.n)
		}
		if of.row.Later {
			f.Later += int64(of.n)
		}
		c.countHost(of.row, of.n)
	}
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
func (s *Store) Add(visits []Visit, end record.Place, plans Plans) error {
	return s.add(visits, plans, func(c *change) { c.state.At = end })
}

// Cursor says how far one of several readers has read the records that it follows.
type Cursor struct{ Source, At string }

// AddFrom is Add for rows that several processes share.
func (s *Store) AddFrom(visits []Visit, end Cursor, plans Plans) error {
	return s.add(visits, plans, func(c *change) { c.cursor = end })
}

func (s *Store) add(visits []Visit, plans Plans, note func(*change)) error {
	items := make([]bloomstore.Fingerprint, len(visits))
	for i := range visits {
		items[i] = visits[i].Fingerprint
	}
	return s.change("added", items, func(c *change) error {
		note(c)
		for i := range visits {
			c.add(&visits[i], plans)
		}
		return nil
	})
}

func (c *change) add(v *Visit, plans Plans) {
	before, found := c.row(v.Fingerprint)
	if found && v.Item.Round <= before.Item.Round || !found && v.Answer == revisit.NoAnswer { // the latter was not fetched yet
		return
	}
	after, old := before, &before
	if !found {
		old = nil
	}
	var said revisit.Change
	own := plans(v.Item.Host)
	after.Row, said = before.After(v.Visit, own.Plan, own.Weight)
	after.Item, after.Queued, after.Later, after.Sampled, after.Due, after.Weight = v.Item, false, false, false, time.Time{}, own.counted()
	after.Reached = max(before.Reached, v.Item.Round)
	c.measure(&before, v.At, said)
	if v.Answer == revisit.Content {
		if v.Body != before.Body || !before.Archived.After(c.state.KeptAt) {
			after.Archived = v.At
		}
		after.Target, after.Read = v.Target, v.At
	}
	if v.Answer != revisit.NoAnswer {
		c.judge(&before, v.At, said)
		after.NotBefore, after.Claim, after.Claimed = v.At.Add(v.MaxAge), 0, time.Time{}
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
	c.replace(v.Fingerprint, old, &after)
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
	for range n {
		var at bloomstore.Fingerprint
		binary.BigEndian.PutUint64(at[:], rand.Uint64())
		found, err := s.db.after(at[:], 1)
		if len(found) == 0 && err == nil {
			found, err = s.db.after(nil, 1)
		}
		if err != nil || len(found) == 0 {
			return items, rows, err
		}
		if row := *found[0].row; row.Missing == 0 && !row.NotBefore.After(now) && !slices.Contains(items, found[0].item) {
			row.Sampled = true
			items, rows = append(items, found[0].item), append(rows, row)
		}
	}
	return items, rows, nil
}

// Due returns at most n rows that are due now, the oldest first, and the time when the next one is due if there are fewer.
// The time is zero if there is none.
func (s *Store) Due(now time.Time, n int) (items []bloomstore.Fingerprint, rows []Row, next time.Time, err error) {
	found, next, err := s.db.due(now, n)
	for i := range found {
		items, rows = append(items, found[i].item), append(rows, *found[i].row)
	}
	return items, rows, next, err
}

// Queued notes that pages were queued for the visit after a round, those with Row.Sampled as a sample. It does nothing for a
// page whose row has another round by now.
func (s *Store) Queued(items []bloomstore.Fingerprint, rows []Row, now time.Time) error {
	return s.edit("queued", items, rows, func(i int, row *Row) {
		if !row.Queued && !row.Later {
			row.Due = row.Next
		}
		row.Queued, row.Later, row.Sampled, row.Next = true, false, row.Sampled || rows[i].Sampled, now.Add(OfferAgain)
	})
}

// soonest is when a page whose host has enough in the queue is looked at again. The time grows with how late the page is,
// so that many pages of a slow host are not looked at all the time.
const soonest = time.Minute

// Postpone notes that pages are due, but that their hosts have enough in the queue for now. It does nothing for a page that is
// queued, or whose row has another round by now.
func (s *Store) Postpone(items []bloomstore.Fingerprint, rows []Row, now time.Time) error {
	return s.edit("postponed", items, rows, func(_ int, row *Row) {
		if row.Queued {
			return
		}
		if !row.Later {
			row.Due = row.Next
		}
		row.Later, row.Next = true, now.Add(max(soonest, now.Sub(row.Due)/4))
	})
}

// Skip notes that pages that are due are not visited now, and are looked at again at a time. It does nothing for a page that is
// queued, or whose row has another round by now.
func (s *Store) Skip(items []bloomstore.Fingerprint, rows []Row, until time.Time) error {
	return s.edit("skipped", items, rows, func(_ int, row *Row) {
		if !row.Queued {
			row.Later, row.Due, row.Next = false, time.Time{}, until
		}
	})
}

// edit calls f with the rows of items, except those that have another round than rows by now, and writes what it changes.
func (s *Store) edit(name string, items []bloomstore.Fingerprint, rows []Row, f func(i int, row *Row)) error {
	return s.change(name, items, func(c *change) error {
		for i, item := range items {
			before, found := c.row(item)
			if !found || before.Item.Round != rows[i].Item.Round {
				continue
			}
			after := before
			f(i, &after)
			c.replace(item, &before, &after)
		}
		return nil
	})
}

// Purge forgets pages.
func (s *Store) Purge(items []bloomstore.Fingerprint) error {
	return s.change("purged", items, func(c *change) error {
		for _, item := range items {
			if before, found := c.row(item); found {
				c.state.Figures.Purged++
				c.replace(item, &before, nil)
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
	return s.change("begun", nil, func(c *change) error {
		if c.state.Plan != plan {
			c.state.Sweep = []byte{sweepMark}
		}
		if c.state.Kept != kept {
			c.state.KeptAt = now.UTC()
		}
		c.state.Plan, c.state.Kept = plan, kept
		return nil
	})
}

// Sweep gives at most n rows their time and weight by their plans, and reports whether there are more.
func (s *Store) Sweep(plans Plans, n int) (more bool, err error) {
	s.mu.Lock()
	done := s.state.Sweep == nil
	s.mu.Unlock()
	if done {
		return false, nil
	}
	err = s.change("swept", nil, func(c *change) (err error) {
		if c.state.Sweep == nil {
			return nil // another process has done it
		}
		found, err := c.read.after(c.state.Sweep[1:], n)
		if err != nil {
			return err
		}
		c.state.Sweep = nil
		for i := range found {
			before, item := *found[i].row, found[i].item
			own, after := plans(before.Item.Host), before
			if after.Weight = own.counted(); !before.Queued {
				after.Row = before.Again(own.Plan, own.Weight, before.NotBefore)
				after.Later, after.Due = false, time.Time{}
			}
			c.replace(item, &before, &after)
			if i == n-1 {
				c.state.Sweep = append([]byte{sweepMark}, item[:]...)
			}
		}
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.Sweep != nil, err
}

// DiskBytes returns the size of the database.
func (s *Store) DiskBytes() uint64 { return s.db.diskBytes() }

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
	due, first, err := s.db.countDue(now, mostCounted)
	if err != nil {
		return f, err
	}
	if f.Due, f.More = due, due == mostCounted; due > 0 {
		f.Late = now.Sub(first).Seconds()
	}
	return f, nil
}

// Host returns the sums of a host, which are zero if it has no rows.
func (s *Store) Host(host string) (HostSum, error) { return s.db.host(host) }

// Busiest returns the n hosts that want the most visits, those with the most first. It reads the sums of all hosts.
func (s *Store) Busiest(n int) ([]HostSum, error) { return s.db.busiest(n) }
