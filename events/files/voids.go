package files

import (
	"bytes"
	"errors"
	"io"

	"github.com/bloomfrontier/crawler/fetcher/record"
)

// voids has the records that the void lines of a journal cancel. A void line can come long
// after the line of its record. So gather reads ahead to the end of the journal. It reads
// each line only once, unless a later call begins at an earlier place.
type voids struct {
	from record.Place
	tail *record.Tail                // at the end of the lines that were read
	of   map[record.JournalLine]bool // nil means that no lines were read
}

// gather reads the lines from a place up to the last whole line on disk.
func (v *voids) gather(reader record.Reader, from record.Place) error {
	if v.of == nil || from.Before(v.from) {
		if err := v.tail.Seek(from); err != nil {
			return err
		}
		v.from, v.of = from, make(map[record.JournalLine]bool)
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
