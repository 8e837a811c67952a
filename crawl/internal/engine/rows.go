package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// rowSink writes records and their links as rows of a Postgres. A row is written before its item is
// completed, and is never deleted. rows.completed leaves out the rows of items that
// were not completed. It is safe for concurrent use.
type rowSink struct {
	*exact.Output
	links *sync.Map // lines of links by the *record.Record that is appended next
}

func newRowSink(output *exact.Output) rowSink { return rowSink{output, new(sync.Map)} }

// AppendEdges implements record.EdgeSink. The links go with the record, in its transaction.
func (s rowSink) AppendEdges(r *record.Record, edges []record.Edge) error {
	lines, err := r.EdgeLines(edges)
	if err == nil {
		s.links.Store(r, lines)
	}
	return err
}

var _ recordFiles = rowFiles{}

// Append implements record.Sink.
func (s rowSink) Append(r *record.Record) error {
	line, err := r.AppendLine(nil)
	if err != nil {
		return err
	}
	var links [][]byte
	if lines, kept := s.links.LoadAndDelete(r); kept {
		links = lines.([][]byte)
	}
	s.Output.Append(exact.Row{
		Ref: exact.Ref{Fingerprint: r.Item, Round: uint32(r.Round)}, URL: r.URL, Fetched: r.FetchedAt,
		Outcome: frontier.Outcome(r.Outcome), Status: r.Status, Record: bytes.TrimSuffix(line, []byte("\n")),
		Links: links,
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
	ctx   context.Context // of the caller that reads
	set   *pgstore.Store
	skip  map[exact.Ref]bool // rows of items that are not finished
	edges bool               // read the links of the records instead
	// latest leaves out the rows of a URL that have a later round. It must not be set together with skip.
	latest bool
	hidden func(line []byte) bool // lines that are left out; nil leaves out none
}

var _ RecordSource = rows{}

// Lines implements RecordSource.
func (r rows) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		enough := errors.New("enough")
		err := r.each(func(page exact.Ref, line []byte) error {
			if !r.skip[page] && (r.hidden == nil || !r.hidden(line)) && !yield(append(line, '\n'), nil) {
				return enough
			}
			return nil
		})
		if err != nil && !errors.Is(err, enough) {
			yield(nil, err)
		}
	}
}

// each calls the function visit for the lines of records or of links.
func (r rows) each(visit func(page exact.Ref, line []byte) error) error {
	record := func(row exact.Row) error { return visit(row.Ref, row.Record) }
	switch {
	case r.edges:
		return r.set.EachLinks(r.ctx, visit)
	case r.latest:
		return r.set.EachLatestRecord(r.ctx, record)
	}
	return r.set.EachRecord(r.ctx, record)
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
