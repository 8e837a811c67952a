package crawl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/frontier"
)

// Outbox has the events of a crawl, or those of one worker of a crawl in Redis,
// and the progress of the relays that deliver them.
type Outbox = engine.Outbox

// Outboxes are the outboxes of a crawl. If the crawl is in Redis and its records are in
// files, there is one outbox for each directory of a worker. Otherwise there is one
// outbox. Outboxes are safe for concurrent use.
type Outboxes struct {
	list    func(ctx context.Context) ([]Outbox, error)
	release func() error
	engine  *engine.Engine // nil means that there are no journals
	at      Location
}

// outboxesOf returns the outboxes of an open crawl.
func outboxesOf(e *engine.Engine, at Location, release func() error) *Outboxes {
	return &Outboxes{list: e.Outboxes, release: release, engine: e, at: at}
}

// Outboxes opens the outboxes of the crawl, whether a process runs it or not. With
// Redis and records in files, these are the outboxes of the workers whose directories
// are in Location.Dir.
func (h *Handle) Outboxes(ctx context.Context) (*Outboxes, error) {
	none := func() error { return nil }
	if h.own != nil {
		return outboxesOf(h.own.engine, h.location, none), nil
	}
	if h.place.OneProcess() {
		stored, err := h.place.Stored(ctx)
		if err != nil {
			return nil, err
		}
		end := &committedEnd{handle: h}
		box, release, err := h.place.Outbox(ctx, stored.InRows(), end.position)
		if err != nil {
			return nil, err
		}
		list := func(context.Context) ([]Outbox, error) { return []Outbox{box}, nil }
		return &Outboxes{list: list, release: release, at: h.location}, nil
	}
	ses, err := h.openStored(ctx, engine.ToLook)
	if err != nil {
		return nil, err
	}
	return outboxesOf(ses.engine, h.location, ses.close), nil
}

// List returns the current outboxes. A new worker can add one.
func (o *Outboxes) List(ctx context.Context) ([]Outbox, error) { return o.list(ctx) }

// Close releases the resources of the outboxes. Relays must not use the outboxes after
// that.
func (o *Outboxes) Close() error { return o.release() }

// Relays returns how far each registered relay is behind. For a crawl in Redis with records in
// files, the result also has relays of workers whose directories are not on this machine, if
// events of these workers are perhaps not delivered.
func (o *Outboxes) Relays(ctx context.Context) (relays []report.RelayStatus, err error) {
	if relays, err = o.readRelays(ctx); err != nil || o.engine == nil {
		return relays, err
	}
	journals, err := o.engine.Journals(ctx)
	return addJournals(relays, journals, o.at.sendCommand), err
}

// GiveUp accepts the loss of the events that a relay has not delivered from one worker's directory,
// for example because the directory is lost. journal is the id of the directory, or its path. From
// then on, the events do not count as missing. GiveUp returns what is given up. It returns an error
// if there is no such journal, or if a process delivers its events.
func (o *Outboxes) GiveUp(ctx context.Context, relay, journal string) (report.RelayStatus, error) {
	var journals []engine.Journal
	var err error
	if o.engine != nil {
		journals, err = o.engine.Journals(ctx)
	}
	if err != nil {
		return report.RelayStatus{}, err
	}
	var found []engine.Journal
	for _, j := range journals {
		if j.Relay == relay && (j.ID == journal || j.Dir == journal) {
			found = append(found, j)
		}
	}
	switch {
	case len(found) == 0:
		return report.RelayStatus{}, fmt.Errorf("relay %s has no events left in %q: see crawler relay status", relay, journal)
	case len(found) > 1:
		return report.RelayStatus{}, fmt.Errorf("%d machines have a directory %q: name its id, which crawler relay status prints", len(found), journal)
	case !found[0].Left():
		return report.RelayStatus{}, fmt.Errorf("a process delivers the events in %q", journal)
	}
	j := found[0]
	j.GivenUp, j.Ended = true, true
	given := addJournals(nil, []engine.Journal{j}, o.at.sendCommand)[0]
	return given, o.engine.ReportJournal(ctx, j)
}

// readRelays reads how far each relay of these outboxes is behind.
func (o *Outboxes) readRelays(ctx context.Context) (relays []report.RelayStatus, err error) {
	boxes, err := o.list(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	for _, box := range boxes {
		names, err := box.Names(ctx)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			relays = append(relays, lagOf(ctx, box, name, now))
		}
	}
	return relays, nil
}

// lagOf returns how far behind one relay is.
func lagOf(ctx context.Context, box Outbox, name string, now time.Time) report.RelayStatus {
	r := report.RelayStatus{Name: name, Worker: box.Worker, Journal: box.Journal, Dir: box.Dir}
	saved, _, err := box.Load(ctx, name)
	var lag events.Lag
	if err == nil {
		r.Dead = saved.Dead
		if box.Journal != "" {
			r.Delivered = string(saved.Cursor)
		}
		lag, err = box.Lag(ctx, saved.Cursor)
	}
	if err != nil {
		r.Fault = err.Error()
		return r
	}
	r.Events, r.Bytes, r.More, r.Seconds = lag.Events, lag.Bytes, lag.More, ageOf(lag, now)
	return r
}

// ageOf returns the age of the oldest event that was not delivered, in seconds.
func ageOf(lag events.Lag, now time.Time) float64 {
	if lag.Oldest.IsZero() {
		return 0
	}
	return max(now.Sub(lag.Oldest).Seconds(), 0)
}

// committedEnd finds the end of the committed records of a crawl in a directory. This process
// does not run the crawl. If no other process runs it either, the method position opens the
// store, and so locks it for a moment. To do this rarely, position keeps the end until the
// directory changes.
type committedEnd struct {
	handle *Handle

	mu      sync.Mutex
	lastEnd frontier.Position // the end that was read last; nil if there is none
	// changed is the modification time that the directory had when lastEnd was read from
	// the store. It is zero if lastEnd is the answer of a process that ran the crawl, or of
	// the session that Handle.Keep opened.
	changed time.Time
}

// position returns the end. The end cannot be read while a process opens the crawl, closes
// it or dies, or while another call of the handle has the crawl open. In these cases,
// position returns the end that it read last. If it has not read an end before, it tries
// again until it can read one. If the process that runs the crawl does not answer,
// the error wraps frontier.ErrUnavailable.
func (e *committedEnd) position(ctx context.Context) (frontier.Position, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		err := e.read(ctx)
		passes := errors.Is(err, frontier.ErrLocked) || errors.Is(err, frontier.ErrUnavailable)
		if err == nil || e.lastEnd != nil && passes {
			return e.lastEnd, nil
		}
		if !errors.Is(err, frontier.ErrLocked) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (e *committedEnd) read(ctx context.Context) error {
	dir := e.handle.location.Dir
	if control.Listens(ctx, dir) {
		var end frontier.Position
		err := askPosition(ctx, dir, &end)
		if err == nil {
			e.lastEnd, e.changed = end, time.Time{}
		}
		if err == nil || control.Listens(ctx, dir) {
			return err
		} // the process has just ended
	}
	select {
	case e.handle.turn <- struct{}{}:
		defer e.handle.unlock()
	default: // another call has the crawl open, or uses the session that Keep opened
		return frontier.ErrLocked
	}
	if kept := e.handle.kept; kept != nil {
		end, err := kept.engine.Position(ctx)
		if err == nil {
			e.lastEnd, e.changed = end, time.Time{}
		}
		return err
	}
	// Each run changes the directory, because it creates the socket there.
	info, err := os.Stat(dir)
	if err != nil || e.lastEnd != nil && info.ModTime().Equal(e.changed) {
		return err
	}
	end, err := engine.StoredPosition(dir)
	if err == nil {
		e.lastEnd, e.changed = end, info.ModTime()
	}
	return err
}

// workerEnd returns the end of the completed records of the worker in dir. It returns
// nil if no process runs there.
func workerEnd(ctx context.Context, dir string) (end frontier.Position, err error) {
	if !control.Listens(ctx, dir) {
		return nil, nil
	}
	if err = askPosition(ctx, dir, &end); err != nil && !control.Listens(ctx, dir) {
		return nil, nil // the process has just ended
	}
	return end, err
}

// askPosition asks the crawl that runs in dir where its records end. A process that is
// killed meanwhile can still seem to listen. So the error of a broken call wraps
// frontier.ErrUnavailable, and relays ask again.
func askPosition(ctx context.Context, dir string, end *frontier.Position) error {
	err := control.Call(ctx, dir, verbPosition.Name, nothing{}, end)
	if broken, is := errors.AsType[*control.BrokenCallError](err); is {
		return fmt.Errorf("%w (%w)", broken, frontier.ErrUnavailable)
	}
	return err
}
