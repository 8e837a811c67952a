package engine

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/revisit"
)

// merged reads the records of a crawl that several workers share. Each reading merges
// the files of all workers.
type merged struct {
	ctx     context.Context // of the caller that reads
	dirs    []string
	pending iter.Seq2[record.Key, error] // the URLs that the crawl has not finished
	edges   bool                         // merge the links instead of the records
	skip    func(line []byte) bool       // records that are left out; nil leaves out none
	temp    string                       // directory for temporary files; empty means the system's
}

var _ RecordSource = merged{}

// Lines implements RecordSource.
func (m merged) Lines() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		more := true
		err := m.merge(func(all record.Reader) error {
			for line, err := range WithContext(m.ctx, all.Lines()) {
				if more = yield(line, err); !more {
					break
				}
			}
			return nil
		})
		if err != nil && more {
			yield(nil, err)
		}
	}
}

// Trail implements RecordSource.
func (m merged) Trail(id string) (trail []record.Record, err error) {
	err = m.merge(func(all record.Reader) error {
		trail, err = all.Trail(id)
		return err
	})
	return trail, err
}

// merge merges the records into a temporary directory, and calls read with a reader of
// that directory.
func (m merged) merge(read func(record.Reader) error) error {
	return inTemp(m.temp, "crawler-merged-", func(dir string, f *os.File) error {
		_, err := record.Export{Dirs: m.dirs, Temp: dir, Pending: m.pending, Edges: m.edges, Skip: m.skip}.To(m.ctx, f)
		return err
	}, read)
}

// Snapshot calls read with a source whose lines are the same in each reading. If records is a
// record.Reader, Snapshot passes it on unchanged: its field End fixes the lines. Snapshot
// copies the lines of other sources to a directory below temp; an empty temp means the system's.
func Snapshot(ctx context.Context, records RecordSource, temp string, read func(RecordSource) error) error {
	readFile := func(all record.Reader) error { return read(all) }
	switch source := records.(type) {
	case record.Reader:
		return read(source)
	case merged:
		source.temp = temp
		return source.merge(readFile)
	}
	return inTemp(temp, "crawler-records-", func(_ string, f *os.File) error { return CopyLines(ctx, records.Lines(), f) }, readFile)
}

// Selection says which records Read reads.
type Selection struct {
	AllRounds bool // read all records of a URL, and not only the one of its last round
	Content   bool // read only records of pages with a body: of each URL the last one
	// ChangedSince selects records that are not older, and say that a page is new, has changed or is gone; also records that say nothing
	// of a change. Of each URL the last one is read. The zero time selects all.
	ChangedSince time.Time
	Referrers    bool   // add to each record, as "referrer", the URL of the page that named it first
	Once         bool   // the records are iterated over once, so that rows of Postgres need no copy
	Temp         string // directory for temporary files; empty means the system's
}

// Read calls the function read with the selected records. Each iteration over them yields the
// same lines, unless Once is set. The function read is called once, and Read returns its error.
func (s Selection) Read(ctx context.Context, records RecordSource, read func(record.Lines) error) error {
	if stored, are := records.(rows); are && !s.chooses() {
		stored.latest, s.AllRounds = !s.AllRounds, true // the rows are sorted by round
		if s.Once && !s.Referrers {
			return read(WithContext(ctx, stored.Lines()))
		}
		records = stored
	}
	return Snapshot(ctx, records, s.Temp, func(fixed RecordSource) (err error) {
		lines := s.content(WithContext(ctx, fixed.Lines()))
		if !s.AllRounds {
			if lines, err = record.Latest(ctx, lines, s.Temp); err != nil {
				return err
			}
		}
		if s.Referrers {
			return record.JoinReferrers(ctx, lines, s.Temp, read)
		}
		return read(lines)
	})
}

// chooses reports whether Content or ChangedSince is set.
func (s Selection) chooses() bool { return s.Content || !s.ChangedSince.IsZero() }

// content returns the lines that Content and ChangedSince select.
func (s Selection) content(lines record.Lines) record.Lines {
	if !s.chooses() {
		return lines
	}
	return func(yield func([]byte, error) bool) {
		for line, err := range lines {
			if err == nil {
				var r struct {
					Outcome   frontier.Outcome
					Bytes     int64
					Change    revisit.Change
					FetchedAt time.Time `json:"fetched_at"`
				}
				if err = json.Unmarshal(line, &r); err == nil && (s.Content && (r.Outcome != frontier.OK || r.Bytes == 0) ||
					!s.ChangedSince.IsZero() && (r.Change == revisit.Unchanged || r.FetchedAt.Before(s.ChangedSince))) {
					continue
				}
			}
			if !yield(line, err) {
				return
			}
		}
	}
}

// inTemp calls write with a directory below temp and the file of records in it. Then it
// calls read, and removes the directory.
func inTemp(temp, prefix string, write func(dir string, f *os.File) error, read func(record.Reader) error) (err error) {
	dir, err := os.MkdirTemp(temp, prefix)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := os.Create(RecordsIn(dir))
	if err != nil {
		return err
	}
	if err := errors.Join(write(dir, f), f.Close()); err != nil {
		return err
	}
	return read(record.Reader{Dir: dir})
}

// ErrNoLinks reports a crawl without files or rows of links.
var ErrNoLinks = errors.New("no links were kept: begin a new crawl, in another directory, with --links")

// EdgesOf returns the links that a crawl has kept. The argument records must be the records
// of this crawl. EdgesOf returns ErrNoLinks if the crawl kept no links, or if no page had one and the
// records are rows.
func EdgesOf(records RecordSource) (RecordSource, error) {
	switch source := records.(type) {
	case record.Reader:
		source.Series = record.Links
		if source.End = record.Links.Of(source.End); source.End == nil {
			return nil, ErrNoLinks
		}
		return source, nil
	case rows:
		source.edges = true
		has, err := source.set.HasLinks(source.ctx)
		if err != nil || has {
			return source, err
		}
	case merged:
		source.edges = true
		for _, dir := range source.dirs {
			files, err := os.ReadDir(dir)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(files, func(f os.DirEntry) bool { return record.Links.Has(f.Name()) }) {
				return source, nil
			}
		}
	}
	return nil, ErrNoLinks
}
