package fetcher

import (
	"fmt"

	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
)

// Archive keeps answers as they were on the wire.
type Archive interface {
	// Wants reports whether an answer is kept. It is called by many goroutines
	// at once.
	Wants(answer *get.Response) bool
	// Append keeps an answer and says where. The store calls it as it does
	// with records: from one goroutine at a time, right before the record.
	Append(packed *warc.Packed) (warc.Place, error)
}

// finish ends the item with a record; its answer goes into the archive.
func (v *visited) finish(outcome frontier.Outcome, r *record.Record) frontier.Completion {
	done := v.finished(v.item, outcome, r)
	if v.cfg.Archive == nil || v.answer == nil || v.answer.Wire == nil || !v.cfg.Archive.Wants(v.answer) {
		return done
	}
	packed, err := warc.Pack(v.item.URL, v.answer.Wire)
	if err != nil {
		return v.storeFailed(fmt.Errorf("pack the answer of %s: %w", v.item.URL, err))
	}
	write := done.Record
	done.Record = func(links frontier.LinkCounts) error {
		place, err := v.cfg.Archive.Append(packed)
		if err != nil {
			return err
		}
		r.WARC, r.WARCOffset = place.File, place.Offset
		return write(links)
	}
	return done
}
