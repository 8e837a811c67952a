package files

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// cursor is a parsed events.Cursor of an Outbox. Its text is "FILE-OFFSET", followed by
// "+FILE-OFFSET" for each earlier line that is held back. An outbox holds a line back as
// long as it does not know whether the line will become an event.
type cursor struct {
	at   record.Place
	held []record.Place // in ascending order
}

// maxHeld is the largest number of lines that an outbox holds back. If it would have to hold
// back another line, it stops reading before that line.
const maxHeld = 1000

func parseCursor(text events.Cursor) (c cursor, err error) {
	if text == "" {
		return cursor{at: record.Place{File: 1}}, nil
	}
	parts := strings.Split(string(text), "+")
	if len(parts) > maxHeld+1 {
		return c, fmt.Errorf("files: the cursor has %d places, want %d at most", len(parts), maxHeld+1)
	}
	for i, part := range parts {
		at, ok := parsePlace(part)
		last := len(c.held) - 1
		if !ok || i > 0 && !at.Before(c.at) || i > 1 && !c.held[last].Before(at) {
			return c, fmt.Errorf("files: %.100q is no cursor of record files, want FILE-OFFSET such as 3-1048576", text)
		}
		if i == 0 {
			c.at = at
		} else {
			c.held = append(c.held, at)
		}
	}
	return c, nil
}

func parsePlace(text string) (at record.Place, ok bool) {
	file, offset, ok := strings.Cut(text, "-")
	n, err := strconv.ParseUint(file, 10, 31)
	m, errOffset := strconv.ParseUint(offset, 10, 63)
	at = record.Place{File: int(n), Offset: int64(m)}
	return at, ok && err == nil && errOffset == nil && n > 0 && string(appendPlace(nil, at)) == text
}

func appendPlace(b []byte, at record.Place) []byte {
	b = strconv.AppendInt(b, int64(at.File), 10)
	return strconv.AppendInt(append(b, '-'), at.Offset, 10)
}

// text returns the cursor as text.
func (c *cursor) text() events.Cursor {
	b := appendPlace(make([]byte, 0, 24), c.at)
	for _, at := range c.held {
		b = appendPlace(append(b, '+'), at)
	}
	return events.Cursor(b)
}

// first returns the place of the first line that is still to be read. It can be a held
// line.
func (c *cursor) first() record.Place {
	if len(c.held) > 0 {
		return c.held[0]
	}
	return c.at
}
