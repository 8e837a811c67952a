package localstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/frontier"
)

// Stats implements frontier.Inspector.
func (s *Store) Stats(ctx context.Context) (frontier.Stats, error) {
	stats, err := s.Counters(ctx)
	if err != nil {
		return frontier.Stats{}, err
	}
	if stats.Expired, err = s.expired(ctx); err != nil {
		return frontier.Stats{}, err
	}
	f := s.filter.Stats() // outside the committer, because it reads all bits
	stats.Filter = frontier.FilterStats{Capacity: f.Capacity, Keys: f.Keys, Layers: len(f.Layers), Bytes: f.Bytes, FPR: f.FPR}
	if s.window != nil {
		lost, err := s.lostInWindow(ctx)
		if err != nil {
			return frontier.Stats{}, err
		}
		stats.Filter.Window = &frontier.FilterWindow{Span: s.cfg.Windows[frontier.Bulk], Generations: s.cfg.Generations, Lost: lost}
	}
	return stats, nil
}

// view is the store at one moment. The database stays open until the view is closed.
type view struct {
	*pebble.Snapshot
	store  *Store
	now    int64
	meta   meta
	leases map[string]leaseRow // by host key
}

// Close closes the view. It must be called once.
func (v view) Close() error {
	defer v.store.readers.Done()
	return v.Snapshot.Close()
}

// look returns a view, which the caller must close.
func (s *Store) look(ctx context.Context) (view, error) {
	if err := s.hold(); err != nil {
		return view{}, err
	}
	v := view{store: s, leases: make(map[string]leaseRow)}
	err := s.ask(ctx, func(g *group) { v.Snapshot, v.now, v.meta = g.db.NewSnapshot(), g.now, g.meta })
	if err != nil { // the committer might still use v
		s.readers.Done()
		return view{}, err
	}
	err = s.scanLeases(v, func(_ frontier.LeaseID, row leaseRow) error {
		v.leases[row.host] = row
		return nil
	})
	if err != nil {
		return view{}, errors.Join(err, v.Close())
	}
	return v, nil
}

// holds reports whether the item at a position of a host's queue is leased.
func (v *view) holds(host string, at queuePos) bool { return slices.Contains(v.leases[host].held, at) }

// Lookup implements frontier.Inspector. If the URL has no outcome, it reads the queue of
// the URL's host, and all delayed items.
func (s *Store) Lookup(ctx context.Context, key, url string) (frontier.Status, error) {
	v, err := s.look(ctx)
	if err != nil {
		return frontier.Status{}, err
	}
	defer v.Close()
	return s.lookup(v, key, url)
}

func (s *Store) lookup(v view, key, url string) (frontier.Status, error) {
	print := s.hasher.Fingerprint(url)
	status, err := s.find(v, key, url)
	if err != nil {
		return status, err
	}
	status.InFilter = s.filter.Has(print)
	lease := v.leases[key]
	held, err := s.heldItems(v, &lease)
	if err != nil {
		return status, err
	}
	if slices.ContainsFunc(held, func(h heldItem) bool { return h.item.Fingerprint == print }) {
		status.State = frontier.Leased
	}
	row, err := getRow(v, hostKey(key))
	if err != nil || row == nil {
		return status, err
	}
	h := host{key: key}
	err = decodeHost(row, &h)
	status.HostDueIn = time.Duration(h.dueAt(v.now)-v.now) * time.Microsecond
	return status, err
}

// find returns the state of a URL from the tables only, so a leased item counts as queued.
func (s *Store) find(r pebble.Reader, host, url string) (status frontier.Status, err error) {
	print := s.hasher.Fingerprint(url)
	row, err := getRow(r, outcomeKey(print))
	if err != nil {
		return status, err
	}
	if row != nil {
		o, err := decodeOutcome(row)
		if err != nil {
			return status, err
		}
		status = frontier.Status{State: o.outcome.State(), Outcome: o.outcome, Status: o.status, Round: o.round}
		if o.seq != 0 {
			status.Item, err = s.failedItem(r, host, o.seq)
		}
		return status, err
	}
	found := func(item frontier.Item) bool {
		if item.Fingerprint == print {
			status = frontier.Status{State: frontier.Queued, Item: item, Round: item.Round}
		}
		return status.State == frontier.Unknown
	}
	err = s.scanQueue(r, host, func(_ queuePos, item frontier.Item) bool { return found(item) })
	if err == nil && status.State == frontier.Unknown {
		err = s.scanDelayed(r, func(_ int64, item frontier.Item) bool { return found(item) })
	}
	return status, err
}

// failedItem reads the failed item whose row has the number seq. host is its host key.
func (s *Store) failedItem(r pebble.Reader, host string, seq uint64) (frontier.Item, error) {
	entry, closer, err := r.Get(failedKey(host, seq))
	if err != nil {
		return frontier.Item{}, fatal("read a failed item", err)
	}
	defer closer.Close()
	return decodeFailed(entry, host, s.hasher)
}

// List implements frontier.Inspector, for Queued, Leased and Failed.
func (s *Store) List(ctx context.Context, state frontier.State, host string, visit func(frontier.Item) bool) error {
	v, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	switch state {
	case frontier.Leased:
		for key, row := range v.leases {
			if host != "" && key != host {
				continue
			}
			held, err := s.heldItems(v, &row)
			if err != nil {
				return err
			}
			for i := range held {
				if !visit(held[i].item) {
					return nil
				}
			}
		}
	case frontier.Failed:
		return s.scanFailed(v, host, func(_ []byte, item frontier.Item) bool { return visit(item) })
	case frontier.Queued:
		more := true
		err := s.scanQueue(v, host, func(at queuePos, item frontier.Item) bool {
			if !v.holds(item.Host, at) {
				more = visit(item)
			}
			return more
		})
		if err != nil || !more {
			return err
		}
		return s.scanDelayed(v, func(_ int64, item frontier.Item) bool {
			return (host != "" && item.Host != host) || visit(item)
		})
	}
	return nil
}

// Hosts implements frontier.Inspector. It reads the rows of hosts and their blobs side by side.
func (s *Store) Hosts(ctx context.Context, query frontier.HostQuery, visit func(frontier.HostState) bool) error {
	v, err := s.look(ctx)
	if err != nil {
		return err
	}
	defer v.Close()
	if query.First > 0 {
		return v.firstHosts(ctx, query.First, query.Oldest, visit)
	}
	lower, upper := table(tableHost)
	if query.Host != "" {
		lower, upper = hostKey(query.Host), hostKey(query.Host+"\x00")
	}
	blobs, err := newIter(v, append([]byte{tableBlob}, lower[1:]...), []byte{tableBlob + 1})
	if err != nil {
		return err
	}
	defer blobs.Close()
	blobs.First()
	return s.scanRange(v, lower, upper, func(key, value []byte) (bool, error) {
		h := host{key: string(key[1:])}
		if err := decodeHost(value, &h); err != nil {
			return false, err
		}
		state, err := v.stateOf(&h)
		if err == nil && query.Oldest {
			err = v.addOldest(&state, &h)
		}
		if err != nil {
			return false, err
		}
		if state.Queued+state.Leased == 0 && !(query.Finished && h.last > 0) {
			return true, ctx.Err()
		}
		for blobs.Valid() && string(blobs.Key()[1:]) < h.key {
			blobs.Next()
		}
		if blobs.Valid() && string(blobs.Key()[1:]) == h.key {
			state.Blob = bytes.Clone(blobs.Value())
		}
		if err := blobs.Error(); err != nil {
			return false, fatal("read the state of hosts", err)
		}
		return visit(state), ctx.Err()
	})
}

// firstHosts visits leased hosts, and then the others in the order in which they are due.
func (v *view) firstHosts(ctx context.Context, most int, oldest bool, visit func(frontier.HostState) bool) error {
	left := most
	see := func(key string) (bool, error) {
		h := host{key: key}
		row, err := getRow(v, hostKey(key))
		if err == nil {
			err = decodeHost(row, &h)
		}
		if err != nil {
			return false, err
		}
		state, err := v.stateOf(&h)
		if err == nil {
			state.Blob, err = getRow(v, blobKey(key))
		}
		if err == nil && oldest {
			err = v.addOldest(&state, &h)
		}
		if err != nil || state.Queued+state.Leased == 0 {
			return true, err
		}
		left--
		return visit(state) && left > 0, ctx.Err()
	}
	for key := range v.leases {
		if more, err := see(key); err != nil || !more {
			return err
		}
	}
	lower, upper := table(tableDue)
	return v.store.scanRange(v, lower, upper, func(key, _ []byte) (bool, error) {
		_, name := splitDueKey(key)
		return see(string(name))
	})
}

// stateOf returns the state of a host without its blob.
func (v *view) stateOf(h *host) (frontier.HostState, error) {
	lease := v.leases[h.key]
	items, err := v.store.heldItems(v, &lease)
	if err != nil {
		return frontier.HostState{}, err
	}
	held := len(items)
	state := frontier.HostState{
		Host: h.key, Queued: h.waits() + h.delayed + uint64(len(lease.aside)), Delayed: h.delayed, Leased: uint64(held),
		Delay: time.Duration(h.delay) * time.Microsecond, Counts: h.counts,
	}
	if h.last > 0 {
		state.Counts.Ago = time.Duration(max(v.now-h.last, 1)) * time.Microsecond
	}
	if lease.host == "" {
		state.DueIn, state.Crowded = time.Duration(h.dueAt(v.now)-v.now)*time.Microsecond, h.crowded(v.now)
	} else {
		state.Lost = v.store.mode == readOnly // the process that had the lease was killed
	}
	return state, nil
}

// addOldest sets the oldest URL of a host.
func (v *view) addOldest(state *frontier.HostState, h *host) error {
	age := v.store.age(v.now)
	lease := v.leases[h.key]
	lease.held = slices.Concat(lease.held, lease.aside)
	leased, err := v.store.heldItems(v, &lease)
	for i := range leased {
		state.LookOldest(&leased[i].item, age)
	}
	for p := range h.waiting {
		if err != nil || h.waiting[p] == 0 {
			continue
		}
		from := appendQueueKey(nil, h.key, queuePos{frontier.Priority(p), h.head[p]})
		_, to := hostRange(tableQueue, h.key)
		err = v.store.scanRange(v, from, to, func(_, value []byte) (bool, error) {
			item, err := decodeEntry(value, h.key, v.store.hasher)
			state.LookOldest(&item, age)
			return false, err
		})
	}
	return err
}

// scan calls visit for each row of a table; key and value are valid only during the call.
func (s *Store) scan(r pebble.Reader, letter byte, visit func(key, value []byte) error) error {
	lower, upper := table(letter)
	return s.scanRange(r, lower, upper, func(key, value []byte) (bool, error) { return true, visit(key, value) })
}

func newIter(r pebble.Reader, lower, upper []byte) (*pebble.Iterator, error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, fatal("read", err)
	}
	return it, nil
}

// scanRange calls visit for each row from lower to upper, until visit returns false. It
// returns ErrClosed if the store closes meanwhile. This does not apply to the committer, which
// passes the database itself as r.
func (s *Store) scanRange(r pebble.Reader, lower, upper []byte, visit func(key, value []byte) (bool, error)) error {
	it, err := newIter(r, lower, upper)
	if err != nil {
		return err
	}
	defer it.Close()
	_, committer := r.(*pebble.DB)
	for ok := it.First(); ok; ok = it.Next() {
		if !committer && s.isClosing() {
			return frontier.ErrClosed
		}
		if more, err := visit(it.Key(), it.Value()); err != nil || !more {
			return err
		}
	}
	if err := it.Error(); err != nil {
		return fatal("read", err)
	}
	return nil
}

// scanQueue visits the queue of host, or the queues of all hosts if host is empty.
func (s *Store) scanQueue(r pebble.Reader, host string, visit func(queuePos, frontier.Item) bool) error {
	lower, upper := hostRange(tableQueue, host)
	return s.scanRange(r, lower, upper, func(key, value []byte) (bool, error) {
		name, at, ok := splitQueueKey(key)
		if !ok {
			return false, fatal("read a queue", errRow)
		}
		item, err := decodeEntry(value, string(name), s.hasher)
		if err != nil {
			return false, fatal("read a queue", err)
		}
		return visit(at, item), nil
	})
}

// scanLeases visits the rows of all leases.
func (s *Store) scanLeases(r pebble.Reader, visit func(frontier.LeaseID, leaseRow) error) error {
	return s.scan(r, tableLease, func(key, value []byte) error {
		row, err := decodeLease(value)
		if err == nil && len(key) != 1+len(frontier.LeaseID{}) {
			err = fatal("read a lease", errRow)
		}
		if err != nil {
			return err
		}
		return visit(frontier.LeaseID(key[1:]), row)
	})
}

// heldItems reads the items of a lease that are not completed.
func (s *Store) heldItems(r pebble.Reader, row *leaseRow) (held []heldItem, err error) {
	for _, at := range row.held {
		entry, err := getRow(r, appendQueueKey(nil, row.host, at))
		if err != nil {
			return nil, err
		}
		if entry == nil {
			continue // completed
		}
		item, err := decodeEntry(entry, row.host, s.hasher)
		if err != nil {
			return nil, fatal("read the queue of "+row.host, err)
		}
		held = append(held, heldItem{item, at})
	}
	return held, nil
}

// scanDelayed visits the delayed items of all hosts, with the times at which they join their
// queues.
func (s *Store) scanDelayed(r pebble.Reader, visit func(due int64, item frontier.Item) bool) error {
	lower, upper := table(tableDelayed)
	return s.scanRange(r, lower, upper, func(key, value []byte) (bool, error) {
		due, item, err := s.decodeDelayed(key, value)
		if err != nil {
			return false, err
		}
		return visit(due, item), nil
	})
}

func (s *Store) decodeDelayed(key, value []byte) (due int64, item frontier.Item, err error) {
	host, entry, found := bytes.Cut(value, []byte{0})
	if !found {
		return 0, item, fatal("read a delayed item", errRow)
	}
	due, _ = splitDueKey(key)
	if item, err = decodeEntry(entry, string(host), s.hasher); err != nil {
		return 0, item, fatal("read a delayed item", err)
	}
	return due, item, nil
}

// scanWaiting visits all items that have no outcome yet.
func (s *Store) scanWaiting(r pebble.Reader, visit func(frontier.Item) bool) error {
	if err := s.scanQueue(r, "", func(_ queuePos, item frontier.Item) bool { return visit(item) }); err != nil {
		return err
	}
	return s.scanDelayed(r, func(_ int64, item frontier.Item) bool { return visit(item) })
}

func (s *Store) scanFailed(r pebble.Reader, host string, visit func(key []byte, item frontier.Item) bool) error {
	lower, upper := hostRange(tableFailed, host)
	return s.scanRange(r, lower, upper, func(key, value []byte) (bool, error) {
		item, err := decodeFailed(value, string(hostOfFailed(key)), s.hasher)
		if err != nil {
			return false, fatal("read a failed item", err)
		}
		return visit(key, item), nil
	})
}
