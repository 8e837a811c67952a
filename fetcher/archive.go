package fetcher

import (
	"fmt"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Archive stores answers as they were received.
type Archive interface {
	// Wants reports whether the archive stores an answer. Many goroutines call it at once.
	Wants(answer *get.Response) bool
	// WantsRobots reports whether the archive stores the answers to requests for a robots.txt.
	WantsRobots() bool
	// Append stores an answer and returns its location. Config.Store calls Append right
	// before it writes the record that refers to the answer. The worker also calls Append
	// for each robots.txt, from many goroutines, as soon as it has received the answer. No
	// record refers to the answer of a robots.txt.
	Append(packed *warc.Packed) (warc.Location, error)
}

// finish returns the frontier.Completion that reports the outcome of the item. Its function
// Record first writes the page's answers to the archive and the page's links to Config.Edges,
// and then the record r.
func (v *visited) finish(outcome frontier.Outcome, r *record.Record) frontier.Completion {
	v.record = r
	done := v.finished(v.item, outcome, r)
	v.sayChange(r)
	if v.cfg.Edges != nil && len(v.edges) > 0 {
		write := done.Record
		done.Record = func(links frontier.LinkCounts) error {
			if err := v.cfg.Edges.AppendEdges(r, v.edges); err != nil {
				return err
			}
			return write(links)
		}
	}
	packed, err := v.pack()
	if err != nil {
		return v.giveBackAfter(err)
	}
	if packed == nil && len(v.earlier) == 0 {
		return done
	}
	if packed != nil {
		v.packed += int64(packed.Len())
	}
	write := done.Record
	done.Record = func(links frontier.LinkCounts) error {
		for _, answer := range v.earlier {
			if _, err := v.cfg.Archive.Append(answer); err != nil {
				return err
			}
		}
		if packed != nil {
			place, err := v.cfg.Archive.Append(packed)
			if err != nil {
				return err
			}
			r.WARC, r.WARCOffset = place.File, place.Offset
		}
		return write(links)
	}
	return done
}

// keepRobots keeps the answer to a request for a robots.txt. The answer becomes durable
// with the next record of any host. A crash before that record is written loses the
// answer.
func (h *holding) keepRobots(url canon.URL, answer *get.Response) error {
	if h.cfg.Archive == nil || answer.Wire == nil || !h.cfg.Archive.WantsRobots() {
		return nil
	}
	packed, err := warc.Pack(url.String(), answer.Wire)
	if err == nil {
		_, err = h.cfg.Archive.Append(packed)
	}
	if err != nil {
		return fmt.Errorf("keep %s: %w", url, err)
	}
	return nil
}
