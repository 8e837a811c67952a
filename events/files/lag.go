package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher/record"
)

// lag counts the lines between a cursor and the end of the records. The cursor and the end
// move forward. lag reads each line twice: first to add the line to the count, and again to
// subtract it after the cursor has passed the line.
type lag struct {
	reader record.Reader
	limit  uint64 // bytes that one call counts; 0 means countBytes

	mu           sync.Mutex
	front, back  *record.Tail // front is at the cursor, and back is at the end
	lines, bytes uint64       // between front and back
}

// countBytes is how many bytes one call of Lag counts. That takes about a second.
const countBytes = 128 << 20

// Lag implements events.Outbox. It reads the lines after the cursor that were not counted
// yet, but at most 128 MiB. If there are more lines, it sets More. Later calls read only
// the lines that were added or delivered since. Lag counts all records of a journal,
// although some might never become events. If ctx ends, the next call continues.
func (o *Outbox) Lag(ctx context.Context, after events.Cursor) (events.Lag, error) {
	c, err := parseCursor(after)
	if err != nil {
		return events.Lag{}, err
	}
	b, err := o.bounds(ctx)
	if err == nil {
		err = o.checkEnd(c.at, b.end)
	}
	if err != nil {
		return events.Lag{}, err
	}
	if o.cfg.Journal && b.end.Before(c.at) { // see the same condition in Read
		b.end = c.at
	}
	l, err := o.lag.count(ctx, c.at, b.end)
	l.Events += uint64(len(c.held))
	return l, o.explain(err)
}

func (l *lag) count(ctx context.Context, from, end record.Place) (events.Lag, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from.Before(l.front.At()) || end.Before(l.back.At()) || l.back.At().Before(from) {
		if err := errors.Join(l.front.Seek(from), l.back.Seek(from)); err != nil {
			return events.Lag{}, err
		}
		l.lines, l.bytes = 0, 0
	}
	counted, limit := uint64(0), cmp.Or(l.limit, countBytes)
	err := visitRecords(ctx, l.back, end, func(n uint64) (more bool) {
		l.lines, l.bytes, counted = l.lines+1, l.bytes+n, counted+n
		return counted < limit
	})
	if err != nil {
		return events.Lag{}, err
	}
	err = visitRecords(ctx, l.front, from, func(n uint64) bool { l.lines, l.bytes = l.lines-1, l.bytes-n; return true })
	if err != nil {
		return events.Lag{}, err
	}
	answer := events.Lag{Events: l.lines, Bytes: l.bytes, More: counted >= limit && l.back.At().Before(end)}
	first := l.reader.Tail(from)
	defer func() { _ = first.Close() }() // it was only read
	for answer.Oldest.IsZero() {
		line, err := first.Next(end)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return answer, err
		}
		if fetched, ok := fetchedAt(line); ok {
			answer.Oldest = fetched
		}
	}
	return answer, nil
}

// visitRecords calls visit for each record between the position of tail and end, until visit
// returns false. The argument of visit is the size of the record.
func visitRecords(ctx context.Context, tail *record.Tail, end record.Place, visit func(bytes uint64) (more bool)) error {
	for ctx.Err() == nil {
		line, err := tail.Next(end)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, []byte(`{"void":`)) && !visit(uint64(len(line))) {
			return nil
		}
	}
	return ctx.Err()
}

// close closes the files that are open. The next call of count begins again.
func (l *lag) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.front.Seek(record.Place{}), l.back.Seek(record.Place{}))
}
