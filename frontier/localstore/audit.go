package localstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/bloomstore/membits"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/sizing"
)

// Recount is an audit of a crawl at one moment. The numbers of items in each state and
// of hosts are counted from rows, so that they can be compared with the counters. A
// Recount also says which records must exist; the store itself does not read the records.
type Recount struct {
	frontier.Audit                   // Failed also counts each earlier round in which an exact URL failed
	Position       frontier.Position // the end of the crawl's records

	Outcomes map[frontier.Outcome]uint64 // number of outcome rows

	// The records that must exist: one for each done URL, and one for each round in
	// which a URL failed.
	Finished, Failures RecordSum

	// Lost are records that are allowed to be missing: see AcceptLoss.
	Lost RecordLoss

	Forgotten uint64 // number of URLs that have a row, but are not in the filter
}

// maxFaults bounds the number of contradictions in a Recount.
const maxFaults = 20

// RecordSum identifies a set of records in any order, by their number and the sum of
// their ids mod 2⁶⁴.
type RecordSum struct{ Count, Sum uint64 }

// Add counts the record with this id the given number of times.
func (r *RecordSum) Add(id frontier.Referrer, times uint64) {
	var sum uint64
	for _, b := range id {
		sum = sum<<8 | uint64(b)
	}
	r.Count += times
	r.Sum += sum * times
}

func (r *RecordSum) join(s RecordSum) { r.Count, r.Sum = r.Count+s.Count, r.Sum+s.Sum }

// RecordLoss counts committed records that are missing from the files, after a user
// accepted the loss.
type RecordLoss struct {
	Records        uint64                      `json:"records"`
	Pages          uint64                      `json:"pages"` // how many of Records have a status
	Outcomes       map[frontier.Outcome]uint64 `json:"outcomes,omitempty"`
	Done, Failures RecordSum                   // like Finished and Failures of a Recount
}

// AcceptLoss sets the end of the records to position and stores loss. The stored loss replaces
// a loss that was accepted before, so it must include the earlier loss. The URLs of missing
// records keep their outcomes. The store must have been opened without an output.
func (s *Store) AcceptLoss(ctx context.Context, position frontier.Position, loss RecordLoss) error {
	return s.submit(ctx, &op{change: func(g *group) error {
		g.meta.Position, g.meta.Lost = position, &loss
		g.meta.Stats.MissingRecords = loss.Records
		g.changed = true
		return nil
	}})
}

// Audit implements frontier.Inspector.
func (s *Store) Audit(ctx context.Context) (frontier.Audit, error) {
	r, err := s.Recount(ctx)
	return r.Audit, err
}

// Recount audits the crawl. It reads all rows of items, hosts and leases. Meanwhile other
// calls continue, except while the bits of the filter are counted.
func (s *Store) Recount(ctx context.Context) (Recount, error) {
	if err := s.hold(); err != nil {
		return Recount{}, err
	}
	defer s.readers.Done()
	c := recounter{Store: s, out: Recount{Outcomes: make(map[frontier.Outcome]uint64)}}
	err := s.ask(ctx, func(g *group) {
		// The rows and the bits are read at the same moment, because the committer runs this
		// function, and no other goroutine changes them.
		c.rows, c.bits = g.db.NewSnapshot(), s.filter.Stats()
		if s.window != nil {
			c.asked = s.window.Generations()
		}
	})
	if err != nil {
		return Recount{}, err
	}
	defer c.rows.Close()
	steps := []func() error{c.readCounters, c.readLeases, c.countHosts, c.countDelayed, c.countFailed, c.countOutcomes,
		c.countExact, c.countKnown, c.countReadmitted}
	for _, step := range steps {
		if err := errors.Join(ctx.Err(), step()); err != nil {
			return Recount{}, err
		}
	}
	c.out.Done = c.out.Finished.Count
	c.estimate()
	return c.out, nil
}

// recounter is a Recount in progress.
type recounter struct {
	*Store
	rows     *pebble.Snapshot
	meta     meta
	leases   map[string]leasePositions
	delayed  uint64 // delayed items, according to the rows of hosts
	indexed  uint64 // hosts that must be in tableDue
	failed   uint64 // rows of outcomes that refer to a failed item
	renewed  int64  // how often keys were added after their first time
	expiring uint64 // rows that tableExpiry must have
	bits     membits.Stats
	asked    []membits.Generation // the generations of a window
	out      Recount
}

// leasePositions has the positions that the row of a host's lease names. The value is true for
// positions of lease.held, and false for those of lease.aside.
type leasePositions map[queuePos]bool

func (c *recounter) fault(format string, args ...any) {
	if len(c.out.Faults) < maxFaults {
		c.out.Faults = append(c.out.Faults, fmt.Sprintf(format, args...))
	}
}

// check counts the URL as forgotten if the filter does not contain it. A window must contain it only
// if it waits or has failed, or if the generation in which it was finished is still asked.
func (c *recounter) check(print bloomstore.Fingerprint) {
	has := c.filter.Has
	if c.asked != nil { // the window might have been rotated meanwhile
		has = func(print bloomstore.Fingerprint) bool {
			return slices.ContainsFunc(c.asked, func(g membits.Generation) bool { return g.Filter.Has(print) })
		}
	}
	if !has(print) {
		c.out.Forgotten++
	}
}

// checkFinished checks a finished URL.
func (c *recounter) checkFinished(print bloomstore.Fingerprint, last *outcome) {
	if c.asked == nil || last.seq != 0 || c.window.Config().Number(time.UnixMicro(last.finished)) >= c.asked[0].Number {
		c.check(print)
	}
}

func (c *recounter) readCounters() error {
	row, err := getRow(c.rows, metaKey)
	if err != nil || row == nil { // nil means that no row was ever written
		return err
	}
	if err := json.Unmarshal(row, &c.meta); err != nil {
		return fatal("read the counters", err)
	}
	c.out.Counters, c.out.Position = c.meta.Stats, c.meta.Position
	if c.meta.Lost != nil {
		c.out.Lost = *c.meta.Lost
	}
	return nil
}

func (c *recounter) readLeases() error {
	c.leases = make(map[string]leasePositions)
	return c.scanLeases(c.rows, func(_ frontier.LeaseID, row leaseRow) error {
		if c.leases[row.host] != nil {
			c.fault("%s is leased twice", row.host)
		}
		positions := make(leasePositions)
		for _, at := range row.aside {
			positions[at] = false
		}
		for _, at := range row.held {
			positions[at] = true
		}
		c.leases[row.host] = positions
		return nil
	})
}

// compareCounts compares the counts of all hosts with the counters.
func (c *recounter) compareCounts(sum frontier.HostCounts, errs uint64) {
	s, causes := &c.meta.Stats, uint64(0)
	for _, n := range s.Causes {
		causes += n
	}
	if got, want := [5]uint64{sum.Done, sum.Failed, sum.Pages, sum.Bytes, errs}, [5]uint64{s.Done, s.Failed, s.Pages, s.Bytes, causes}; got != want {
		c.fault("the counts of all hosts (done, failed, pages, bytes, errors) are %v together, the counters are %v", got, want)
	}
}

// countHosts reads host rows and queues side by side. Both are in the order of the
// host keys.
func (c *recounter) countHosts() error {
	lower, upper := table(tableQueue)
	queues, err := newIter(c.rows, lower, upper)
	if err != nil {
		return err
	}
	defer queues.Close()
	queues.First()
	var sum frontier.HostCounts
	errs := uint64(0) // the sum of all causes
	err = c.scan(c.rows, tableHost, func(key, value []byte) error {
		h := &host{key: string(key[1:])}
		if err := decodeHost(value, h); err != nil {
			return err
		}
		sum.Done, sum.Failed, sum.Pages, sum.Bytes = sum.Done+h.counts.Done, sum.Failed+h.counts.Failed, sum.Pages+h.counts.Pages, sum.Bytes+h.counts.Bytes
		errs += h.counts.Errors()
		return c.countHost(h, queues)
	})
	if err != nil {
		return err
	}
	c.compareCounts(sum, errs)
	for ; queues.Valid(); queues.Next() {
		c.fault("%q is queued, but its host has no row", queues.Key())
	}
	if err := queues.Error(); err != nil {
		return fatal("read the queues", err)
	}
	return c.countDue()
}

// hostRows counts the rows of one host's queue.
type hostRows struct {
	waiting     [frontier.Priorities]uint64
	held, aside uint64 // items of the host's lease, see leasePositions
	early       uint64 // part of waiting: rows before the queue's head, which no lease would find
}

// countHost counts the rows of a host's queue and compares them with the host's row.
func (c *recounter) countHost(h *host, queues *pebble.Iterator) error {
	lease := c.leases[h.key]
	var rows hostRows
	for ; queues.Valid(); queues.Next() {
		if c.isClosing() {
			return frontier.ErrClosed
		}
		name, at, ok := splitQueueKey(queues.Key())
		if !ok {
			return fatal("read the queues", errRow)
		}
		switch order := bytes.Compare(name, []byte(h.key)); {
		case order > 0:
			return c.settleHost(h, &rows)
		case order < 0:
			c.fault("%q is queued, but its host has no row", queues.Key())
			continue
		}
		item, err := decodeEntry(queues.Value(), h.key, c.hasher)
		if err != nil {
			return fatal("read the queue of "+h.key, err)
		}
		c.count(&item)
		switch held, leased := lease[at]; {
		case held:
			rows.held++
		case leased:
			rows.aside++
		default:
			rows.waiting[at.priority]++
			if at.seq < h.head[at.priority] {
				rows.early++
			}
		}
	}
	return c.settleHost(h, &rows)
}

// count counts an item that has no outcome in this round.
func (c *recounter) count(item *frontier.Item) {
	c.check(item.Fingerprint)
	c.out.Failures.Add(frontier.ReferrerOf(item.Fingerprint), uint64(item.Round))
}

func (c *recounter) settleHost(h *host, rows *hostRows) error {
	queued := rows.aside
	for _, n := range rows.waiting {
		queued += n
	}
	c.out.Leased += rows.held
	c.out.Queued += queued
	if frontier.IsCheck(h.key) {
		c.out.Checks.Leased += rows.held
		c.out.Checks.Queued += queued + h.delayed
	}
	if rows.waiting != h.waiting {
		c.fault("%s has %v items waiting by priority, its row says %v", h.key, rows.waiting, h.waiting)
	}
	if rows.early > 0 {
		c.fault("%s has %d items before the head of its queue", h.key, rows.early)
	}
	c.delayed += h.delayed
	if h.busy() || rows.held+rows.aside > 0 {
		c.out.Hosts++
	}
	if h.waits() == 0 || c.leases[h.key] != nil {
		return nil
	}
	c.indexed++
	row, err := getRow(c.rows, appendDueKey(nil, h.indexed, h.key))
	if err == nil && row == nil {
		c.fault("%s has items waiting, but is not among the hosts that will be due", h.key)
	}
	return err
}

func (c *recounter) countDue() error {
	due := uint64(0)
	err := c.scan(c.rows, tableDue, func(_, _ []byte) error { due++; return nil })
	if due != c.indexed {
		c.fault("%d hosts will be due, %d have waiting items and no lease", due, c.indexed)
	}
	return err
}

func (c *recounter) countDelayed() error {
	err := c.scanDelayed(c.rows, func(_ int64, item frontier.Item) bool {
		c.count(&item)
		c.out.Delayed++
		return true
	})
	c.out.Queued += c.out.Delayed
	if c.out.Delayed != c.delayed {
		c.fault("%d items are delayed, the rows of their hosts say %d", c.out.Delayed, c.delayed)
	}
	return err
}

// countFailed counts failed items. The outcome row of each failed item must refer to the
// item.
func (c *recounter) countFailed() error {
	var fault error
	err := c.scanFailed(c.rows, "", func(key []byte, item frontier.Item) bool {
		c.out.Failed++
		c.out.Failures.Add(frontier.ReferrerOf(item.Fingerprint), uint64(item.Round)+1)
		row, err := getRow(c.rows, outcomeKey(item.Fingerprint))
		if err != nil {
			fault = err
			return false
		}
		if row == nil {
			c.fault("%s has failed, but has no outcome", item.URL)
			return true
		}
		if o, err := decodeOutcome(row); err != nil || !bytes.Equal(key, failedKey(item.Host, o.seq)) {
			c.fault("%s has failed, but its outcome %q points elsewhere", item.URL, o.outcome)
		}
		return true
	})
	return errors.Join(err, fault)
}

func (c *recounter) countOutcomes() error {
	err := c.scan(c.rows, tableOutcome, func(key, value []byte) error {
		print, err := printOf(key)
		if err != nil {
			return err
		}
		o, err := decodeOutcome(value)
		if err != nil {
			return err
		}
		c.checkFinished(print, &o)
		c.out.Outcomes[o.outcome]++
		if o.outcome.State() == frontier.Failed {
			c.failed++
			return nil
		}
		c.out.Finished.Add(frontier.ReferrerOf(print), 1)
		c.out.Failures.Add(frontier.ReferrerOf(print), uint64(o.round))
		return nil
	})
	if c.failed != c.out.Failed {
		c.fault("%d outcomes are failures, %d items have failed", c.failed, c.out.Failed)
	}
	return err
}

// countExact counts the earlier rounds of exact keys, which are in no other row.
// countOutcomes and count treat all earlier rounds as failures. Therefore countExact
// corrects the sums for rounds that ended as done, and for rounds before the first one of the key. It also adds
// what is known of keys whose rows were deleted, and looks for the times at which rows will be deleted.
func (c *recounter) countExact() error {
	err := c.scan(c.rows, tableExact, func(key, value []byte) error {
		print, err := printOf(key)
		if err != nil {
			return err
		}
		row, err := decodeExact(value)
		if err != nil {
			return err
		}
		if c.asked == nil {
			c.check(print)
		}
		c.renewed += int64(row.done + row.failed)
		c.out.Failed += row.failed
		c.out.Finished.Add(frontier.ReferrerOf(print), row.done)
		c.out.Failures.Add(frontier.ReferrerOf(print), -row.done-uint64(row.first))
		return c.countExpiry(print, row.class)
	})
	swept := &c.meta.Swept
	c.renewed += int64(swept.Finished.Count+swept.Failed) - swept.Left
	c.out.Failed += swept.Failed
	c.out.Finished.join(swept.Finished)
	c.out.Failures.join(swept.Failures)
	if rows := uint64(0); err == nil {
		err = c.scan(c.rows, tableExpiry, func(_, _ []byte) error { rows++; return nil })
		if rows != c.expiring {
			c.fault("%d keys have a time at which their rows are deleted, %d must have one", rows, c.expiring)
		}
	}
	return err
}

// countExpiry looks for the row in tableExpiry of a done key whose rows will be deleted.
func (c *recounter) countExpiry(print bloomstore.Fingerprint, class frontier.Class) error {
	if !c.sweeps(class) {
		return nil
	}
	row, err := getRow(c.rows, outcomeKey(print))
	if err != nil || row == nil {
		return err
	}
	last, err := decodeOutcome(row)
	expires := c.expiry(class, &last)
	if err != nil || expires == never {
		return err
	}
	c.expiring++
	row, err = getRow(c.rows, expiryKey(expires, print))
	if err == nil && row == nil {
		c.fault("the rows of the key %x are never deleted", print[:])
	}
	return err
}

// countKnown checks the keys of MarkSeen.
func (c *recounter) countKnown() error {
	return c.scan(c.rows, tableKnown, func(key, _ []byte) error {
		print, err := printOf(key)
		if c.asked == nil {
			c.check(print)
		}
		return err
	})
}

// printOf returns the fingerprint in a key that consists of a table's letter and a
// fingerprint.
func printOf(key []byte) (print bloomstore.Fingerprint, err error) {
	if len(key) != 1+len(print) {
		return print, fatal("read a key", errRow)
	}
	return bloomstore.Fingerprint(key[1:]), nil
}

// estimate computes from the filter's fill how many URLs were added. filter.Estimate estimates
// the number of distinct keys that were offered to the filter. This number includes the false
// positives: new URLs that the filter claimed to contain, because all their bits were set
// already. Bulk URLs that were false positives were not added, but exact URLs were. So estimate
// subtracts the expected number of all false positives, and adds Stats.Recovered, which is the
// number of exact URLs among them. It also subtracts the keys of MarkSeen. An exact URL that is
// queued again in a later round counts as added again, but sets no bits. So estimate adds
// c.renewed, which is the number of these rounds.
//
// With a window, the keys of the generations that were dropped are added, as they were estimated at that time. Keys that
// got into a further generation are subtracted, because they were carried over or had been forgotten.
func (c *recounter) estimate() {
	added, variance := estimateAdded(c.bits)
	window := &c.meta.Window
	c.out.Added = added + float64(c.meta.Stats.Recovered) - float64(c.meta.Known) + float64(c.renewed) +
		window.Dropped - float64(window.Repeated)
	c.out.AddedErr = math.Sqrt(variance + window.Variance)
}

// estimateAdded estimates how many keys were added to a filter, from its fill. Both results are +Inf if it is full.
func estimateAdded(filter membits.Stats) (added, variance float64) {
	if math.IsInf(filter.Estimate, 1) {
		return math.Inf(1), math.Inf(1)
	}
	lost := 0.0
	for _, l := range filter.Layers {
		lost += l.Estimate * sizing.LostWhileFilling(uint64(math.Round(l.Estimate)), l.Bits, l.Hashes)
	}
	return filter.Estimate - lost, filter.StdErr*filter.StdErr + lost
}
