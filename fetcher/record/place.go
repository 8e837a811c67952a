package record

import (
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/frontier"
)

// Place is the place where a line begins or where the last line ends. It consists of the
// number of a file and an uncompressed offset in it. The active file has the number that it
// gets when it is closed. The first place is {1, 0}. Places stay the same when files are
// closed, packed, or all moved to another directory.
type Place struct {
	File   int   `json:"file"`
	Offset int64 `json:"offset"`
}

// Before reports whether p lies before q.
func (p Place) Before(q Place) bool {
	return p.File < q.File || p.File == q.File && p.Offset < q.Offset
}

// noLimit is a place after every line. A reader with this limit reads all whole lines.
var noLimit = Place{File: 1 << 30, Offset: math.MaxInt64}

// EndOf returns the place where the lines of the series end according to position.
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

// position returns the position of an output whose lines end at the place end.
func (s Series) position(end Place) frontier.Position {
	position := frontier.Position{{File: s.active(), Length: end.Offset}}
	if end.File > 1 {
		position = append(position, frontier.FileLength{File: s.closed(end.File - 1)})
	}
	return position
}

// WholeLines returns where the last whole line in the reader's directory ends now. It
// ignores Reader.End.
func (r Reader) WholeLines() (Place, error) {
	for {
		before, err := r.closedNumbers()
		if err != nil {
			return Place{}, err
		}
		end, err := wholeLines(vfs.Default, r.Dir, r.Series)
		if err != nil {
			return Place{}, err
		}
		after, err := r.closedNumbers()
		if err != nil || slices.Equal(before, after) { // otherwise a rotation may have made end wrong
			return end, err
		}
	}
}

// GoneError reports committed lines that are missing.
type GoneError struct {
	File     string // name of the first file with missing lines
	Last     string // name of the last missing file, if the files after File are missing too; otherwise empty
	From, To int64  // missing bytes of File, uncompressed; To is -1 for the end of File
}

// Error implements error.
func (e *GoneError) Error() string { return "record: " + e.Range() + " is gone" }

// Range returns the missing files and bytes, in words.
func (e *GoneError) Range() string {
	switch {
	case e.Last != "":
		return fmt.Sprintf("%s from byte %d to the end of %s", e.File, e.From, e.Last)
	case e.To < 0:
		return fmt.Sprintf("%s from byte %d", e.File, e.From)
	}
	return fmt.Sprintf("%s from byte %d to %d", e.File, e.From, e.To)
}
