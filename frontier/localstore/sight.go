package localstore

import (
	"bytes"
	"context"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Location is where one URL stands, and what stands around it, as of one moment.
type Location struct {
	frontier.Status

	// Ahead of Waiting items of its host are handed out before it, all of them
	// if it does not wait itself. Those in a worker's hands are not counted.
	Ahead, Waiting uint64
	Delay          time.Duration // it joins the queue in so long; 0: it is there, or is not delayed

	HostAdded uint64 // items ever added to its host
	HostMost  uint64 // that may be; 0: no limit
	HostBlob  []byte // what the last HostUpdate left; nil: nothing

	Claims   []bool            // which layers of the filter claim to know it, oldest first
	Known    uint64            // keys of the filter that were never added: see Know
	Position frontier.Position // where the records end; never nil
}

// Locate says where a canonical URL of host stands. It reads its host's queue.
func (s *Store) Locate(ctx context.Context, key, url string) (Location, error) {
	v, err := s.look(ctx)
	if err != nil {
		return Location{}, err
	}
	defer v.Close()
	l := Location{Known: v.meta.Known, Position: append(frontier.Position{}, v.meta.Position...)}
	l.Claims = s.filter.Claims(s.hasher.Fingerprint(url))
	if l.Status, err = s.lookup(v, key, url); err != nil {
		return l, err
	}
	row, err := getRow(v, hostKey(key))
	if err != nil || row == nil {
		return l, err
	}
	var h host
	if err := decodeHost(row, &h); err != nil {
		return l, fatal("read host "+key, err)
	}
	_, l.HostMost = s.cfg.limits(key)
	l.HostAdded = h.added
	if l.HostBlob, err = getRow(v, blobKey(key)); err != nil {
		return l, err
	}
	err = s.place(v, key, &l)
	if err == nil && h.delayed > 0 {
		err = s.placeDelayed(v, key, &l)
	}
	if l.State != frontier.Queued {
		l.Ahead = l.Waiting
	}
	return l, err
}

// Position returns where the records end; without an error it is never nil.
func (s *Store) Position(ctx context.Context) (frontier.Position, error) {
	position := frontier.Position{}
	err := s.ask(ctx, func(g *group) { position = append(position, g.meta.Position...) })
	if err != nil { // the committer may still be at it
		return nil, err
	}
	return position, nil
}

// place counts the items of a host's queue. A delayed one comes behind those of
// its priority.
func (s *Store) place(v view, key string, l *Location) error {
	held := map[place]bool{}
	if lease := v.leased[key]; lease != nil {
		held = lease.places
	}
	passed := false
	return s.scanQueue(v, key, func(at place, item frontier.Item) bool {
		if held[at] {
			return true
		}
		l.Waiting++
		if item.Fingerprint == l.Item.Fingerprint {
			passed = true
		}
		if !passed && at.priority <= l.Item.Priority {
			l.Ahead++
		}
		return true
	})
}

// placeDelayed counts the delayed items of a host, in the order of their times.
func (s *Store) placeDelayed(v view, key string, l *Location) error {
	lower, upper := table(tableDelayed)
	earlier := uint64(0)
	return s.scanRange(v, lower, upper, func(row, value []byte) (bool, error) {
		name, entry, ok := bytes.Cut(value, []byte{0})
		if !ok {
			return false, fatal("read a delayed item", errRow)
		}
		if string(name) != key {
			return true, nil
		}
		item, err := decodeEntry(entry, key, s.hasher)
		if err != nil {
			return false, fatal("read a delayed item", err)
		}
		l.Waiting++
		if item.Fingerprint == l.Item.Fingerprint {
			due, _ := splitDueKey(row)
			l.Delay = time.Duration(max(due-v.now, 0)) * time.Microsecond
			l.Ahead += earlier
		} else if item.Priority <= l.Item.Priority {
			earlier++
		}
		return true, nil
	})
}
