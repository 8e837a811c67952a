package localstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
)

// exactKeyRow is the row that an exact key has in addition to its queue entry or its
// outcome.
type exactKeyRow struct {
	class frontier.Class // the class with which the key was last added
	// done and failed are the numbers of earlier rounds that ended as done, and as failed. A
	// failed round does not count if Retry began the next round.
	done, failed uint64
	first        uint32 // the round in which the key was added; above 0 if keys were swept before
}

func appendExact(b []byte, row exactKeyRow) []byte {
	b = append(b, byte(row.class))
	if row.done+row.failed+uint64(row.first) == 0 {
		return b
	}
	return binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, row.done), row.failed), uint64(row.first))
}

func decodeExact(b []byte) (exactKeyRow, error) {
	r := rowReader{rest: b}
	row := exactKeyRow{class: frontier.Class(r.byte())}
	if len(r.rest) > 0 {
		row.done, row.failed, row.first = r.uvarint(math.MaxUint64), r.uvarint(math.MaxUint64), uint32(r.uvarint(math.MaxUint32))
	}
	if r.damaged {
		return row, fatal("read an exact key", errRow)
	}
	return row, nil
}

// checkWindows returns the faults of Config.Windows.
func (c *Config) checkWindows() error {
	var errs []error
	for class, window := range c.Windows {
		switch {
		case window < 0:
			errs = append(errs, fmt.Errorf("localstore: the window of class %d is %v, want 0 or more", class, window))
		}
	}
	_, err := c.windowConfig()
	return errors.Join(append(errs, err)...)
}

// renew queues an exact item again, in the next round, if it is finished and its window is
// over. An item that waits or is leased stays unchanged. If the item was finished as a bulk
// item, its outcome has no time, and the window counts as over. The errors of renew are fatal.
func (g *group) renew(o *offer) (renewed bool, err error) {
	if g.cfg.Windows == [maxClass + 1]time.Duration{} {
		return false, nil
	}
	if g.exact[o.print] { // this group changed the key; the rows that can be read are older
		return false, nil
	}
	row, err := g.get(outcomeKey(o.print))
	if err != nil || row == nil {
		return false, err
	}
	last, err := decodeOutcome(row)
	if err != nil {
		return false, err
	}
	key, promoted, err := g.exactRow(o)
	if err != nil {
		return false, err
	}
	window := g.cfg.Windows[key.class]
	if window == 0 || last.finished+micros(window) > g.now {
		return false, nil
	}
	return true, g.renewRow(o, key, promoted && o.Class != frontier.Bulk, last)
}

// renewRow queues a finished item again, in the next round. key is the row of its key.
func (g *group) renewRow(o *offer, key exactKeyRow, promoted bool, last outcome) error {
	h, err := g.hostOf(o.Host)
	if err != nil {
		return err
	}
	if last.seq == 0 {
		key.done++
	} else { // Retry must not find the failed item
		key.failed++
		g.remove(failedKey(h.key, last.seq))
		g.retried[last.seq] = true
	}
	if promoted {
		g.meta.Stats.Promoted++
	}
	g.queueAgain(h, o, key, last)
	return nil
}

// queueAgain queues a finished item in the round after its last one, which counts as added once more. The row key
// must count the earlier rounds.
func (g *group) queueAgain(h *host, o *offer, key exactKeyRow, last outcome) {
	g.remove(outcomeKey(o.print))
	if expires := g.expiry(key.class, &last); expires < never {
		g.remove(expiryKey(expires, o.print))
	}
	if g.window != nil && g.remember(o.print) { // the filter had forgotten it
		g.meta.Window.Repeated++
	}
	key.class = o.Class
	g.writeExact(o.print, key)
	g.queueNew(h, o, last.round+1)
}

// exactRow returns the row of an offered exact key. promoted reports that the key has no
// row, because it was added as a bulk item.
func (g *group) exactRow(o *offer) (row exactKeyRow, promoted bool, err error) {
	text, err := g.get(exactKey(o.print))
	if err != nil || text == nil {
		return exactKeyRow{class: o.Class}, true, err
	}
	row, err = decodeExact(text)
	if row.class == frontier.Bulk { // Recheck has queued a bulk item again
		row.class, promoted = o.Class, true
	}
	return row, promoted, err
}

func (g *group) writeExact(print bloomstore.Fingerprint, row exactKeyRow) {
	g.set(exactKey(print), appendExact(nil, row))
	g.exact[print] = true
}
