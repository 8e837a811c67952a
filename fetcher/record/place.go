package record

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
)

// Place is where a line begins, or the last one ends: an offset, uncompressed, in
// the file of a number. The active file has the number that it will be closed
// with. The first place is {1, 0}. It stays the same when files are closed, packed
// or, together, moved to another directory.
type Place struct {
	File   int   `json:"file"`
	Offset int64 `json:"offset"`
}

// Before reports whether p lies before q.
func (p Place) Before(q Place) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

// everything is behind the last record: all whole lines of the last file count.
var everything = Place{File: 1 << 30, Offset: -1}

// EndOf returns the place where the records of a position end.
func (s Series) EndOf(position frontier.Position) Place {
	end := Place{File: 1}
	for _, f := range position {
		if n, ok := s.number(f.File); ok {
			end.File = max(end.File, n+1)
		} else if f.File == s.active() {
			end.Offset = f.Length
		}
	}
	return end
}

// position returns the position that ends at a place.
func (s Series) position(end Place) frontier.Position {
	position := frontier.Position{{File: s.active(), Length: end.Offset}}
	if end.File > 1 {
		position = append(position, frontier.FileLength{File: s.closed(end.File - 1)})
	}
	return position
}

// WholeLines returns where the whole lines end that are in the reader's directory
// now, whatever a store committed.
func (r Reader) WholeLines() (Place, error) {
	for {
		before, err := r.closedNumbers()
		if err != nil {
			return Place{}, err
		}
		position, err := wholeLines(vfs.Default, r.Dir, r.Series)
		if err != nil {
			return Place{}, err
		}
		after, err := r.closedNumbers()
		if err != nil || slices.Equal(before, after) { // else the length may be that of another file
			return r.Series.EndOf(position), err
		}
	}
}

// GoneError reports lines that were committed and are not there any more.
type GoneError struct {
	File     string // its name, or the first of several
	Last     string // the name of the last file that is missing as a whole; empty if File is the only one
	From, To int64  // bytes of File, uncompressed; To is -1 for its end
}

// Error implements error.
func (e *GoneError) Error() string { return "record: " + e.Range() + " is gone" }

// Range says what is missing.
func (e *GoneError) Range() string {
	switch {
	case e.Last != "":
		return fmt.Sprintf("%s from byte %d to the end of %s", e.File, e.From, e.Last)
	case e.To < 0:
		return fmt.Sprintf("%s from byte %d", e.File, e.From)
	}
	return fmt.Sprintf("%s from byte %d to %d", e.File, e.From, e.To)
}
