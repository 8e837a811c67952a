package files

import (
	"bytes"
	"errors"
	"io"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// voids are the records that the void lines of a journal take back. A void line may be far
// behind its record, so all lines on disk are read, once.
type voids struct {
	from record.Place
	tail *record.Tail // at the end of the lines that were read
	of   map[record.JournalLine]bool
}

// gather reads the lines from a place up to the last whole line on disk.
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
