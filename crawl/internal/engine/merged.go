package engine

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// merged are the records of a crawl that workers share, merged when they are
// asked for.
type merged struct {
	ctx     context.Context // of whoever asked for them
	dirs    []string
	pending iter.Seq2[record.Key, error] // what the crawl has not finished
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

// merge merges the records into a directory that is removed after read.
func (m merged) merge(read func(record.Reader) error) (err error) {
	dir, err := os.MkdirTemp("", "crawler-merged-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	f, err := os.Create(filepath.Join(dir, filepath.Base(RecordsIn(dir))))
	if err != nil {
		return err
	}
	_, err = record.Export{Dirs: m.dirs, Temp: dir, Pending: m.pending}.To(m.ctx, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return read(record.Reader{Dir: dir})
}
