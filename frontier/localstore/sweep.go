package localstore

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// A done exact key whose window is over is new if it is offered again. So sweep deletes the rows of such keys, if their
// class is pure (see Config). It adds to meta.Swept what the audit must know of them. Failed keys keep their rows, so that
// Retry finds them.

// sweptKeys describes the keys whose rows were deleted.
type sweptKeys struct {
	// Round is a round that none of them has had. Exact keys that are added without a row begin with it. 0 means that
	// no key was swept.
	Round    uint32    `json:"round"`
	Failed   uint64    `json:"failed"`   // earlier rounds that ended as failed, as exactKeyRow counts them
	Finished RecordSum `json:"finished"` // the records of done rounds
	Failures RecordSum `json:"failures"` // the records of failed rounds
	// Left is how many of them the filter contains and were not added again. New keys that the filter claimed to contain
	// are subtracted, because they look the same.
	Left int64 `json:"left"`
}

// The committer sweeps at most maxSwept keys at once, and then none for sweepPause, in µs, so that other calls do not wait
// for long.
const (
	maxSwept   = 500
	sweepPause = 50_000
)

// sweeps reports whether the rows of done keys of a class are deleted.
func (s *Store) sweeps(class frontier.Class) bool {
	return class != frontier.Bulk && s.cfg.Windows[class] > 0 && s.cfg.Pure(class)
}

// expiry returns when the rows of a key with this class and outcome are deleted, or never.
func (s *Store) expiry(class frontier.Class, o *outcome) int64 {
	if o.seq != 0 || o.finished == 0 || !s.sweeps(class) {
		return never
	}
	return o.finished + micros(s.cfg.Windows[class])
}

// sweep deletes the rows of keys whose windows are over. It must follow the changes of the group: a key that one of them
// has renewed is in g.exact. Its errors are fatal.
func (g *group) sweep() error {
	if g.now < g.nextSweep {
		return nil
	}
	swept := 0
	g.nextSweep = never
	lower, upper := expiryKey(g.sweepFloor, bloomstore.Fingerprint{}), []byte{tableExpiry + 1}
	g.sweepFloor = g.now
	return g.scanRange(g.db, lower, upper, func(key, _ []byte) (bool, error) {
		expires, print := splitExpiryKey(key)
		if expires > g.now || swept == maxSwept {
			g.nextSweep, g.sweepFloor = max(expires, g.now+sweepPause), min(expires, g.now)
			return false, nil
		}
		if g.exact[print] {
			return true, nil
		}
		swept++
		g.remove(key)
		return true, g.sweepKey(expires, print)
	})
}

// sweepKey deletes the rows of a key, unless it has no outcome that expires at this time.
func (g *group) sweepKey(expires int64, print bloomstore.Fingerprint) error {
	text, err := g.get(outcomeKey(print))
	if err != nil || text == nil {
		return err
	}
	last, err := decodeOutcome(text)
	if err != nil {
		return err
	}
	if text, err = g.get(exactKey(print)); err != nil || text == nil {
		return err
	}
	row, err := decodeExact(text)
	if err != nil || g.expiry(row.class, &last) != expires {
		return err
	}
	id, swept := frontier.ReferrerOf(print), &g.meta.Swept
	swept.Round = max(swept.Round, last.round+1)
	swept.Failed += row.failed
	swept.Finished.Add(id, row.done+1)
	swept.Failures.Add(id, uint64(last.round-row.first)-row.done)
	swept.Left++
	g.remove(outcomeKey(print))
	g.remove(exactKey(print))
	return nil
}

func splitExpiryKey(key []byte) (expires int64, print bloomstore.Fingerprint) {
	copy(print[:], key[9:])
	return int64(binary.BigEndian.Uint64(key[1:9])), print
}

// expired counts the keys that sweep has to delete. It reads a row of each.
func (s *Store) expired(ctx context.Context) (e frontier.Expired, err error) {
	v, err := s.look(ctx)
	if err != nil {
		return e, err
	}
	defer v.Close()
	return e, s.scanRange(v, []byte{tableExpiry}, expiryKey(v.now+1, bloomstore.Fingerprint{}), func(key, _ []byte) (bool, error) {
		expires, _ := splitExpiryKey(key)
		e.Due, e.Lag = e.Due+1, max(e.Lag, time.Duration(v.now-expires)*time.Microsecond)
		return true, ctx.Err()
	})
}
