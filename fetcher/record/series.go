package record

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/bloomfrontier/crawler/frontier"
)

// Series is the base name of the files of an output. Lines are written to the active file,
// NAME.jsonl. Rotation renames it to NAME-000001.jsonl and so on. The names of packed files
// end with .zst. The empty Series is Pages.
type Series string

// The series of a crawl.
const (
	Pages Series = "pages" // records
	Links Series = "links" // see PageLinks
)

const (
	fileSuffix = ".jsonl"
	zstdSuffix = ".zst"
)

func (s Series) name() string { return string(cmp.Or(s, Pages)) }

// active returns the name of the file to which lines are written.
func (s Series) active() string { return s.name() + fileSuffix }

// lock returns the name of the file that keeps a second process out of a journal.
func (s Series) lock() string { return s.name() + ".lock" }

// prefix returns the beginning of the names of closed files.
func (s Series) prefix() string { return s.name() + "-" }

// closed returns the name of the n-th closed file. The first one has number 1.
func (s Series) closed(n int) string { return fmt.Sprintf("%s%06d%s", s.prefix(), n, fileSuffix) }

// number returns the number in the name of a closed file, packed or not.
func (s Series) number(name string) (int, bool) {
	digits, ok := strings.CutPrefix(strings.TrimSuffix(name, zstdSuffix), s.prefix())
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, fileSuffix)
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n > 0
}

// Has reports whether name is the name of a closed file or of the active file.
func (s Series) Has(name string) bool {
	_, closed := s.number(name)
	return closed || name == s.active()
}

// Of returns the entries of a position that belong to files of the series.
func (s Series) Of(position frontier.Position) (part frontier.Position) {
	for _, at := range position {
		if s.Has(at.File) {
			part = append(part, at)
		}
	}
	return part
}
