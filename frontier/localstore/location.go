package localstore

import (
	"context"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
)

// Location is the state of one URL, its queue and its host, at one moment.
type Location struct {
	frontier.Status

	// Waiting is the number of items of the URL's host that wait, including delayed ones.
	// Ahead is the number of those that will be leased before the URL. If the URL does not
	// wait, Ahead is equal to Waiting. Leased items are not counted.
	Ahead, Waiting uint64
	Delay          time.Duration // until the URL joins the queue; 0 means that it is not delayed

	HostAdded uint64 // items ever added to its host
	HostMost  uint64 // maximum of HostAdded; 0 means no limit
	HostBlob  []byte // of the last HostUpdate; nil means none

	Claims   []bool            // which layers of the filter claim to contain the URL, oldest first
	Known    uint64            // number of keys that MarkSeen put into the filter; their URLs were never queued
	Position frontier.Position // where the records end; never nil
}

// Locate returns the location of a canonical URL whose host key is key. It reads the host's
// queue, and if needed all delayed items.
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
	h := host{key: key}
	if err := decodeHost(row, &h); err != nil {
		return l, err
	}
	if l.HostMost, err = s.hostMost(v, key); err != nil {
		return l, err
	}
	l.HostAdded = h.added
	if l.HostBlob, err = getRow(v, blobKey(key)); err != nil {
		return l, err
	}
	err = s.countAhead(v, key, &l)
	if err == nil && h.delayed > 0 {
		err = s.countDelayedAhead(v, key, &l)
	}
	if l.State != frontier.Queued {
		l.Ahead = l.Waiting
	}
	return l, err
}

// hostMost returns the maximum number of items of a host; 0 means no limit.
func (s *Store) hostMost(v view, key string) (uint64, error) {
	own := s.cfg.Policy().Host(key)
	if !own.UnlessSeed {
		return own.MaxItems, nil
	}
	row, err := getRow(v, scopeKey(frontier.SeedHost(key)))
	if row != nil {
		return 0, err
	}
	return own.MaxItems, err
}

// Position returns the end of the records. It is nil only if there is an error.
func (s *Store) Position(ctx context.Context) (frontier.Position, error) {
	position := frontier.Position{}
	err := s.ask(ctx, func(g *group) { position = append(position, g.meta.Position...) })
	if err != nil { // the committer might still use position
		return nil, err
	}
	return position, nil
}

// countAhead counts the items ahead of a URL in its host's queue. A delayed item comes
// after the queued items of its priority.
func (s *Store) countAhead(v view, key string, l *Location) error {
	passed := false
	return s.scanQueue(v, key, func(at queuePos, item frontier.Item) bool {
		if v.holds(key, at) {
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

// countDelayedAhead counts the delayed items of a host. If the URL is delayed itself,
// countDelayedAhead also counts the delayed items that come before the URL.
func (s *Store) countDelayedAhead(v view, key string, l *Location) error {
	earlier := uint64(0)
	return s.scanDelayed(v, func(due int64, item frontier.Item) bool {
		if item.Host != key {
			return true
		}
		l.Waiting++
		if item.Fingerprint == l.Item.Fingerprint {
			l.Delay = time.Duration(max(due-v.now, 0)) * time.Microsecond
			l.Ahead += earlier
		} else if item.Priority <= l.Item.Priority {
			earlier++
		}
		return true
	})
}
