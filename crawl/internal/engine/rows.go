package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// rowSink writes records as rows of a Postgres. A row is written before its item is
// completed, and is never deleted. rows.completed leaves out the rows of items that
// were not completed.
type rowSink struct{ *exact.Output }

var _ recordFiles = rowFiles{}

// Append implements record.Sink.
func (s rowSink) Append(r *record.Record) error {
	line, err := r.AppendLine(nil)
	if err != nil {
		return err
	}
	s.Output.Append(exact.Row{
		Ref: exact.Ref{Fingerprint: r.Item, Round: uint32(r.Round)}, URL: r.URL, Fetched: r.FetchedAt,
		Outcome: frontier.Outcome(r.Outcome), Status: r.Status, Record: bytes.TrimSuffix(line, []byte("\n")),
	})
	return nil
}

// rowFiles is a rowSink with the journal that locks the worker's directory.
type rowFiles struct {
	rowSink
	io.Closer
}

// rows are the records of a crawl in Postgres.
type rows struct {
	ctx  context.Context // of the caller that reads
	set  *pgstore.Store
	skip map[exact.Ref]bool // rows of items that are not finished
	// latest leaves out the rows of a URL that have a later round. It must not be set together with skip.
	latest bool
}

var _ RecordSource = rows{}

// Lines implements RecordSource.
func (r rows) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		enough := errors.New("enough")
		each := r.set.EachRecord
		if r.latest {
			each = r.set.EachLatestRecord
		}
		err := each(r.ctx, func(row exact.Row) error {
			if !r.skip[row.Ref] && !yield(append(row.Record, '\n'), nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(nil, err)
		}
	}
}

// Trail implements RecordSource.
func (r rows) Trail(id string) (trail []record.Record, err error) {
	err = inTemp("", "crawler-rows-", func(_ string, f *os.File) error { return CopyLines(r.ctx, r.Lines(), f) }, func(all record.Reader) error {
		trail, err = all.Trail(id)
		return err
	})
	return trail, err
}

// completed returns the rows without those of unfinished items. A row is written
// before its item is completed. If the worker dies between the two steps, another
// worker fetches the item again, and the row stays as it is.
func (r rows) completed(store frontier.Inspector) (rows, error) {
	r.skip = make(map[exact.Ref]bool)
	for _, state := range []frontier.State{frontier.Leased, frontier.Queued} {
		err := store.List(r.ctx, state, "", func(item frontier.Item) bool {
			if state == frontier.Leased || item.Deliveries > 0 {
				r.skip[exact.Ref{Fingerprint: item.Fingerprint, Round: item.Round}] = true
			}
			return true
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}
