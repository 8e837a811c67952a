// Package files makes events from the record files of one directory (Outbox). It stores the
// progress of relays in the same directory (Progress): their cursors, their locks and their
// dead letters, which are events that a sink has refused for ever.
//
// The files belong to a crawl in a directory (an embedded crawl), or are the journal of one
// of many workers. Each line is a record or, in a journal, a void line, which cancels an
// earlier record. The package decides which lines count, that is, become events. In an
// embedded crawl, a line counts if it ends before the position that the crawl's store has
// committed.
//
// In a journal, records that a void line cancels do not count. A worker writes a record to
// its journal before it reports to the queue that the record's item is finished. The line
// of the record is in doubt until it is known whether the queue has accepted the report.
// The package asks the queue about lines in doubt. It owns neither the files (package
// record) nor the queue.
package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
)

// Config configures an Outbox.
type Config struct {
	Dir    string // the directory of the files
	Source string // the source of the events: events.Source of the crawl's id
	// End returns the end of the records that count now. For an embedded crawl, this is the
	// position that its store has committed. For a running worker, it is the result of
	// record.Journal.Answered. A nil position means that no process writes the journal. The
	// outbox then reads all whole lines of the journal.
	End func(ctx context.Context) (frontier.Position, error)

	Journal bool // the files are a worker's journal, and not those of an embedded crawl
	// Pending reports whether an item is queued or leased in the given round or an earlier
	// one. As long as Pending returns true, the outbox holds back the records of the item
	// that are in doubt. Pending is not used if Journal is false.
	Pending func(ctx context.Context, host, url string, item bloomstore.Fingerprint, round uint32) (bool, error)
}

// readBytes bounds the data of one Read. The last event can exceed it.
const readBytes = 8 << 20

// heldEvery is the shortest time between two checks of the lines that are held back.
const heldEvery = time.Second

// Outbox has the events of the record files of one directory. Its cursors are texts such as
// 3-1048576: the number of a file, and an uncompressed offset in it. The places of journal
// lines that are held back follow, each after a plus sign. Cursors stay valid when files
// are closed, packed, or all moved to another directory.
//
// An Outbox is safe for concurrent use. It keeps a few files open until Close.
type Outbox struct {
	cfg    Config
	reader record.Reader

	mu       sync.Mutex
	tail     *record.Tail // at the place where the last Read ended
	voids    voids
	lookHeld time.Time // held lines are not checked before this time

	lag lag
}

var _ events.Outbox = (*Outbox)(nil)

// New returns an outbox. It opens no files before the first call of another method.
func New(cfg Config) *Outbox {
	reader := record.Reader{Dir: cfg.Dir}
	tail := func() *record.Tail { return reader.Tail(record.Place{}) }
	return &Outbox{
		cfg: cfg, reader: reader, tail: tail(),
		voids: voids{tail: tail()}, lag: lag{reader: reader, front: tail(), back: tail()},
	}
}

// Close closes the files that are open. The outbox can be used again.
func (o *Outbox) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.voids.of = nil // the next Read reads the void lines again
	return errors.Join(o.tail.Close(), o.voids.tail.Close(), o.lag.close())
}

// bounds describes which lines count at one moment.
type bounds struct {
	end      record.Place
	answered record.Place // in a journal, all lines from here on are in doubt
	doubt    record.Doubt // the earlier lines that are in doubt
}

// bounds finds out where the records end, and which earlier lines are in doubt.
func (o *Outbox) bounds(ctx context.Context) (b bounds, err error) {
	position, err := o.cfg.End(ctx)
	if err != nil {
		return b, fmt.Errorf("files: ask where the records in %s end: %w", o.cfg.Dir, err)
	}
	b.end = record.Pages.EndOf(position)
	if !o.cfg.Journal {
		return b, nil
	}
	b.doubt, err = o.reader.Doubt()
	if b.answered = b.end; position == nil && err == nil {
		b.answered = b.doubt.Answered
		b.end, err = o.reader.WholeLines()
	}
	return b, err
}

// inDoubt reports whether a line of a journal is in doubt. Such a line might not count.
func (b *bounds) inDoubt(at record.Place) bool {
	return b.doubt.Has(at) || !at.Before(b.answered)
}

// Read implements events.Outbox. An event that was held back can be returned after later
// events of its host.
func (o *Outbox) Read(ctx context.Context, after events.Cursor, limit int) (all []events.Event, next events.Cursor, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c, err := parseCursor(after)
	if err != nil {
		return nil, after, err
	}
	b, err := o.bounds(ctx)
	if err == nil {
		err = o.checkEnd(c.at, b.end)
	}
	if err != nil {
		return nil, after, err
	}
	if o.cfg.Journal {
		if b.end.Before(c.at) { // an earlier Read saw no process that writes the journal, and read all whole lines
			b.end = c.at
		}
		if err := o.voids.gather(o.reader, c.first()); err != nil {
			return nil, after, o.explain(err)
		}
		if all, err = o.readHeld(ctx, &c, b, limit); err != nil {
			return nil, after, o.explain(err)
		}
	}
	all, err = o.readOn(ctx, &c, b, all, limit)
	if err != nil && len(all) == 0 {
		return nil, after, o.explain(err)
	}
	return all, c.text(), nil // if there was an error, the next Read returns it
}

// readOn reads lines from the cursor on, and moves the cursor.
func (o *Outbox) readOn(ctx context.Context, c *cursor, b bounds, all []events.Event, limit int) ([]events.Event, error) {
	if o.tail.At() != c.at {
		if err := o.tail.Seek(c.at); err != nil {
			return all, err
		}
	}
	for size := 0; len(all) < limit && size < readBytes && ctx.Err() == nil; {
		line, err := o.tail.Next(b.end)
		if errors.Is(err, io.EOF) {
			c.at = o.tail.At()
			return all, nil
		}
		if err != nil {
			return all, err
		}
		at := o.tail.At()
		at.Offset -= int64(len(line))
		e, held, err := o.judge(ctx, line, at, b)
		if err != nil || held && len(c.held) == maxHeld {
			return all, err
		}
		c.at = o.tail.At()
		if held {
			c.held = append(c.held, at)
		}
		if e != nil {
			e.Cursor = c.text()
			all, size = append(all, *e), size+len(line)
		}
	}
	return all, ctx.Err()
}

// judge returns the event of a line, or nil if the line is not an event. If held is true, it is
// not certain yet whether the line will become an event, and the caller keeps the line.
func (o *Outbox) judge(ctx context.Context, line []byte, at record.Place, b bounds) (_ *events.Event, held bool, err error) {
	if _, erased := record.Since(line); o.cfg.Journal && !erased {
		j, err := record.ParseJournalLine(line)
		if err != nil || j.Void || o.voids.of[j] { // a damaged line is never an event
			return nil, false, nil
		}
		if b.inDoubt(at) {
			var r struct{ Host, URL string }
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, false, nil
			}
			held, err := o.cfg.Pending(ctx, r.Host, r.URL, j.Item, j.Round)
			if err != nil {
				return nil, false, fmt.Errorf("files: ask the queue for %q: %w", r.URL, err)
			}
			if held {
				return nil, true, nil
			}
		}
	}
	e, err := events.FromRecord(o.cfg.Source, line)
	if err != nil {
		return nil, false, fmt.Errorf("%s, file %d, byte %d: %w", o.cfg.Dir, at.File, at.Offset, err)
	}
	return &e, false, nil
}

// readHeld checks the lines that were held back. It returns the events of the lines that
// count now. It removes these lines, and the lines that will never count, from the cursor.
func (o *Outbox) readHeld(ctx context.Context, c *cursor, b bounds, limit int) (all []events.Event, err error) {
	now := time.Now()
	if len(c.held) == 0 || now.Before(o.lookHeld) {
		return nil, nil
	}
	o.lookHeld = now.Add(heldEvery)
	tail := o.reader.Tail(c.held[0])
	defer func() { _ = tail.Close() }() // it was only read
	for i := 0; i < len(c.held); {
		if tail.At() != c.held[i] {
			if err := tail.Seek(c.held[i]); err != nil {
				return nil, err
			}
		}
		line, err := tail.Next(b.end)
		if err != nil {
			return nil, err
		}
		e, held, err := o.judge(ctx, line, c.held[i], b)
		if err != nil || len(all) == limit {
			return all, err
		}
		if held {
			i++
			continue
		}
		c.held = slices.Delete(c.held, i, i+1)
		if e != nil {
			e.Cursor = c.text()
			all = append(all, *e)
		}
	}
	return all, nil
}

// checkEnd returns an error if at is in a later file than end, which is the end of the
// records. It does not check a journal, because the end of a journal can be unknown.
func (o *Outbox) checkEnd(at, end record.Place) error {
	if o.cfg.Journal || at.File <= end.File {
		return nil
	}
	return &events.GoneError{Range: fmt.Sprintf("the part of %s from %s, where the records end, to the cursor %s",
		o.cfg.Dir, appendPlace(nil, end), appendPlace(nil, at))}
}

// explain converts a *record.GoneError to an *events.GoneError.
func (o *Outbox) explain(err error) error {
	if gone, ok := errors.AsType[*record.GoneError](err); ok {
		return &events.GoneError{Range: filepath.Join(o.cfg.Dir, gone.Range())}
	}
	return err
}

// Find implements events.Outbox. It compares t with fetched_at. All records that were
// fetched at t or later are after the cursor. Some records that were fetched shortly
// before t can also be after the cursor.
func (o *Outbox) Find(ctx context.Context, t time.Time) (events.Cursor, error) {
	b, err := o.bounds(ctx)
	if err != nil {
		return "", err
	}
	c := cursor{at: b.end}
	if t.IsZero() {
		return c.text(), nil
	}
	tail := o.reader.Tail(record.Place{File: 1})
	defer func() { _ = tail.Close() }() // it was only read
	for ctx.Err() == nil {
		if at := tail.At(); at.Offset == 0 && at.File < b.end.File && o.before(at.File, t) {
			if err := tail.Seek(record.Place{File: at.File + 1}); err != nil {
				return "", err
			}
			continue
		}
		line, err := tail.Next(b.end)
		if errors.Is(err, io.EOF) {
			return c.text(), nil
		}
		if err != nil {
			return "", o.explain(err)
		}
		if fetched, ok := fetchedAt(line); ok && !fetched.Before(t) {
			c.at = tail.At()
			c.at.Offset -= int64(len(line))
			return c.text(), nil
		}
	}
	return "", ctx.Err()
}

// before reports whether a closed file was last changed before t, or was moved away.
func (o *Outbox) before(number int, t time.Time) bool {
	name := filepath.Join(o.cfg.Dir, fmt.Sprintf("%s-%06d.jsonl", record.Pages, number))
	for _, name := range []string{name, name + ".zst"} { // in this order, because the file may be packed meanwhile
		info, err := os.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || !info.ModTime().Before(t) {
			return false
		}
	}
	return true
}

// fetchedAt returns the fetched_at of a line. The result ok is false if the line has no
// fetched_at.
func fetchedAt(line []byte) (t time.Time, ok bool) {
	_, rest, ok := bytes.Cut(line, []byte(`"fetched_at":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	t, err := time.Parse(time.RFC3339Nano, string(text))
	return t, ok && err == nil
}
