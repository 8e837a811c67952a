package files

import (
	"bytes"
	"errors"
	"io"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// voids are the records that lines of a journal take back. Such a line may stand
// far behind its record, so all lines on disk are looked through, once.
type voids struct {
	from record.Place
	tail *record.Tail // the end of what was looked through
	of   map[record.JournalLine]bool
}

// gather looks through the lines from a place to the last that is on disk.
func (v *voids) gather(reader record.Reader, from record.Place) error {
	if v.tail == nil || from.Before(v.from) {
		if err := v.close(); err != nil {
			return err
		}
		v.from, v.tail, v.of = from, reader.Tail(from), make(map[record.JournalLine]bool)
	}
	end, err := reader.WholeLines()
	if err != nil {
		return err
	}
	for {
		line, err := v.tail.Next(end)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, []byte(`{"void":`)) {
			continue
		}
		if j, err := record.ParseJournalLine(line); err == nil && j.Void {
			j.Void = false
			v.of[j] = true
		}
	}
}

// has reports whether a record is taken back.
func (v *voids) has(j record.JournalLine) bool { return v.of[j] }

func (v *voids) close() error {
	if v.tail == nil {
		return nil
	}
	tail := v.tail
	v.tail = nil
	return tail.Close()
}
