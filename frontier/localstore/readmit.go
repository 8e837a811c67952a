package localstore

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

var _ frontier.Readmitter = (*Store)(nil)

// maxReadmit bounds the URLs that one group readmits. It may have to read the queue of a host for each.
const maxReadmit = 200

func readmitKey(f bloomstore.Fingerprint) []byte { return append([]byte{tableReadmit}, f[:]...) }

// Readmit implements frontier.Readmitter. A row of tableReadmit has the round that the next offer begins.
func (s *Store) Readmit(ctx context.Context, urls []frontier.Offer, dry bool) (found []frontier.Readmission, err error) {
	mine := s.offers(urls)
	found = make([]frontier.Readmission, len(mine))
	for from := 0; from < len(mine); from += maxReadmit {
		to := min(from+maxReadmit, len(mine))
		err := s.submit(ctx, &op{bytes: urlBytes(urls[from:to]), change: func(g *group) error {
			for i := from; i < to; i++ {
				if found[i], err = g.readmit(&mine[i], dry); err != nil {
					return err
				}
			}
			return nil
		}})
		if err != nil {
			return nil, err
		}
		crash.Point("readmitted")
	}
	return found, nil
}

// readmit lets one URL in again. Its errors are fatal.
func (g *group) readmit(o *offer, dry bool) (frontier.Readmission, error) {
	if o.refused != "" || !g.filter.Has(o.print) {
		return frontier.NeverSeen, nil
	}
	if g.exact[o.print] { // this group queued it, or has readmitted it
		return frontier.Waits, nil
	}
	row, err := g.get(outcomeKey(o.print))
	if err != nil {
		return 0, err
	}
	round := uint32(0)
	if row != nil {
		last, err := decodeOutcome(row)
		if err != nil {
			return 0, err
		}
		if g.retried[last.seq] && last.seq != 0 {
			return frontier.Waits, nil
		}
		round = last.round + 1
	} else if waits, err := g.waits(o); err != nil || waits {
		return frontier.Waits, err
	}
	if has, err := g.hasRow(readmitKey(o.print)); err != nil || dry {
		return frontier.Readmitted, err
	} else if !has {
		g.meta.Readmitted++
	}
	g.changed = true
	g.set(readmitKey(o.print), binary.AppendUvarint(nil, uint64(round)))
	g.exact[o.print] = true // the group cannot read the row yet
	return frontier.Readmitted, nil
}

// waits reports whether a URL without an outcome is queued or leased. If it is not, MarkSeen marked it, or its bits in the
// filter are those of other URLs.
func (g *group) waits(o *offer) (bool, error) {
	if has, err := g.hasRow(exactKey(o.print)); err != nil || has {
		return has, err
	}
	for j := g.journal; len(j) >= journalAdd; j = j[journalAdd:] {
		if bloomstore.Fingerprint(j[1:journalAdd]) == o.print {
			return true, nil
		}
	}
	status, err := g.find(g.db, o.Host, o.URL)
	return status.State != frontier.Unknown, err
}

// comeBack queues an offered URL that is readmitted, and ends the readmission. Its errors are fatal.
func (g *group) comeBack(o *offer) (queued bool, err error) {
	if g.meta.Readmitted == 0 || g.exact[o.print] {
		return false, nil
	}
	key := readmitKey(o.print)
	text, err := g.get(key)
	if err != nil || text == nil {
		return false, err
	}
	r := rowReader{rest: text}
	round := uint32(r.uvarint(math.MaxUint32))
	if r.damaged {
		return false, fatal("read a readmission", errRow)
	}
	h, err := g.hostOf(o.Host)
	if err != nil {
		return false, err
	}
	row, err := g.get(outcomeKey(o.print))
	if err != nil {
		return false, err
	}
	g.remove(key)
	g.meta.Readmitted--
	if row == nil {
		if waits, err := g.waits(o); err != nil || waits || round != 0 { // it came back in another way
			g.exact[o.print] = true
			return false, err
		}
		g.meta.Stats.Recovered++ // the filter had its bits without it, or it was subtracted as known
		h.added++
		g.exact[o.print] = true
		g.admit(h, o)
		return true, nil
	}
	last, err := decodeOutcome(row)
	if err != nil || last.round+1 != round || last.seq != 0 && g.retried[last.seq] {
		g.exact[o.print] = true
		return false, err
	}
	exact, promoted, err := g.exactRow(o)
	if err != nil {
		return false, err
	}
	if last.seq == 0 {
		exact.done++
	} else { // Retry must not find the failed item
		exact.failed++
		g.remove(failedKey(h.key, last.seq))
		g.retried[last.seq] = true
	}
	if promoted && o.Class != frontier.Bulk {
		g.meta.Stats.Promoted++
	}
	if last.outcome.ByHost() {
		g.remove(blobKey(h.key)) // it would decide again
	}
	g.queueAgain(h, o, exact, last)
	return true, nil
}

// countReadmitted compares the rows of tableReadmit with their counter.
func (c *recounter) countReadmitted() error {
	n := uint64(0)
	err := c.scan(c.rows, tableReadmit, func([]byte, []byte) error { n++; return nil })
	if n != c.meta.Readmitted {
		c.fault("%d URLs are readmitted, the counter is %d", n, c.meta.Readmitted)
	}
	return err
}
