package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/crash"
)

const (
	// windowEvents times Outstanding limits the number of events in the window. The window
	// contains the events that were read and that the cursor has not passed yet. The limit is
	// large, so that the window has events of many hosts. The last read can exceed this limit.
	windowEvents = 16
	// windowBytes limits the data of the events in the window. The last read can exceed
	// this limit.
	windowBytes = 32 << 20
	// saveEvery is the shortest time between two saves of the cursor. After a crash, the
	// events that were acknowledged since the last save are sent again.
	saveEvery = 100 * time.Millisecond
	// lastSave limits the time for saving the cursor when the relay ends.
	lastSave = 5 * time.Second
)

// delivery is one run of a relay whose Sink is not a TransactionalSink. The cursor moves when
// the sink acknowledges events. Only the goroutine that calls the method run uses the fields.
// Reads and sends have goroutines of their own.
type delivery struct {
	*relay
	at     Cursor // all events up to this position are settled (see entry)
	saved  Cursor // the cursor in Progress
	read   Cursor // the end of the events that were read
	window []*entry
	bytes  int // the size of the data in the window and in dead letters that are not saved yet
	lanes  map[string]*lane
	ready  []*lane // lanes that have an event to send, and no event that is being sent
	letter []DeadLetter

	sending, calls int // numbers of events that are being sent, and of calls of Send that have not returned
	reading        bool
	atEnd          bool      // the last read found nothing
	nextRead       time.Time // no read begins before this time, which is set after an error of the outbox
	nextSend       time.Time // no call begins before this time, which is set while the sink is away
	nextSave       time.Time // no save begins before this time
	outboxAway     bool      // the last read found the outbox unavailable
	progressAway   bool      // the last save found the progress unavailable

	sends chan sent
	reads chan batch
}

// entry is an event in the window.
type entry struct {
	event   Event
	settled bool // acknowledged, refused, or excluded by Config.Keep
	letter  *DeadLetter
}

// lane has the events of one host, in order. If busy is set, the first event is being sent.
type lane struct {
	queue []*entry
	busy  bool
}

// sent is the result of one call of Send.
type sent struct {
	lanes []*lane
	errs  []error
}

// batch is the result of one call of Read.
type batch struct {
	events []Event
	next   Cursor
	err    error
}

func (d *delivery) run(ctx context.Context) error {
	d.saved, d.sends, d.reads = d.at, make(chan sent), make(chan batch)
	work, cancel := context.WithCancel(ctx)
	err := d.loop(ctx, work)
	cancel()
	for d.calls > 0 || d.reading {
		select {
		case s := <-d.sends:
			d.settle(s)
		case <-d.reads:
			d.reading = false
		}
	}
	d.pass()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	if saving := d.save(last); err == nil && !errors.Is(saving, frontier.ErrUnavailable) {
		err = saving
	}
	return err
}

// loop returns nil when ctx has ended. If drain is set, it also returns nil when all events
// were delivered.
func (d *delivery) loop(ctx, work context.Context) error {
	for ctx.Err() == nil {
		d.pass()
		now := time.Now()
		if !now.Before(d.nextSave) {
			if err := d.save(ctx); errors.Is(err, frontier.ErrUnavailable) {
				d.progressAway, d.nextSave = true, now.Add(d.awayFrom(err))
			} else if err != nil {
				return err
			}
		}
		if d.drain && d.atEnd && len(d.window) == 0 && d.at == d.saved {
			return nil
		}
		d.startRead(work, now)
		d.startSends(work, now)
		select {
		case <-ctx.Done():
		case <-time.After(d.wait(now)):
		case s := <-d.sends:
			d.settle(s)
		case b := <-d.reads:
			if err := d.take(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// wait returns the time until the next step is due, at most Poll. A step is a read, a call of
// Send, or a save.
func (d *delivery) wait(now time.Time) time.Duration {
	next := now.Add(d.Poll)
	for _, at := range []struct {
		due  time.Time
		does bool
	}{
		{d.nextRead, !d.reading && d.hasRoom()},
		{d.nextSend, len(d.ready) > 0 && d.calls == 0 && !d.progressAway},
		{d.nextSave, d.at != d.saved},
	} {
		if at.does && at.due.Before(next) {
			next = at.due
		}
	}
	return next.Sub(now)
}

func (d *delivery) hasRoom() bool {
	return len(d.window) < windowEvents*d.Outstanding && d.bytes < windowBytes
}

func (d *delivery) startRead(ctx context.Context, now time.Time) {
	if d.reading || !d.hasRoom() || now.Before(d.nextRead) {
		return
	}
	d.reading = true
	after, limit, wait := d.read, d.Outstanding, d.atEnd
	go func() {
		if wait {
			d.pause(ctx)
		}
		events, next, err := d.Outbox.Read(ctx, after, limit)
		d.reads <- batch{events, next, err}
	}()
}

// take adds the events of a Read to the window.
func (d *delivery) take(b batch) error {
	d.reading = false
	if errors.Is(b.err, frontier.ErrUnavailable) {
		d.outboxAway, d.nextRead = true, time.Now().Add(d.awayFrom(b.err))
		return nil
	}
	if b.err != nil {
		return fmt.Errorf("events: relay %q: %w", d.Name, b.err)
	}
	d.outboxAway = false
	d.clearAwayIfAllAnswer()
	if d.atEnd = len(b.events) == 0 && b.next == d.read; d.atEnd {
		return nil
	}
	d.read = b.next
	for i := range b.events {
		d.add(&entry{event: b.events[i]})
	}
	if n := len(b.events); n == 0 || b.events[n-1].Cursor != b.next {
		d.add(&entry{event: Event{Cursor: b.next}, settled: true}) // moves the cursor past lines that are not events
	}
	return nil
}

func (d *delivery) add(e *entry) {
	d.window = append(d.window, e)
	if e.settled || !d.keeps(&e.event) {
		e.settled, e.event.Data = true, nil
		return
	}
	d.bytes += len(e.event.Data)
	l := d.lanes[e.event.Host]
	if l == nil {
		l = new(lane)
		d.lanes[e.event.Host] = l
	}
	l.queue = append(l.queue, e)
	if !l.busy && len(l.queue) == 1 {
		d.ready = append(d.ready, l)
	}
}

// startSends passes events to the sink. During a pause, and while the cursor cannot be saved, it
// sends none: otherwise many events would be sent again if another process took over the relay.
// After a pause it makes only one call until the sink has answered. Otherwise it sends as many
// events as Outstanding allows.
func (d *delivery) startSends(ctx context.Context, now time.Time) {
	for !d.progressAway && len(d.ready) > 0 && d.sending < d.Outstanding && !now.Before(d.nextSend) {
		if d.away.last > 0 && d.calls > 0 {
			return
		}
		n := min(len(d.ready), d.Batch, d.Outstanding-d.sending)
		lanes := d.ready[:n:n]
		d.ready = d.ready[n:]
		events := make([]Event, n)
		for i, l := range lanes {
			l.busy = true
			events[i] = l.queue[0].event
		}
		d.sending += n
		d.calls++
		go func() {
			crash.Point("publish")
			errs := d.send(ctx, events)
			crash.Point("acknowledgement")
			d.sends <- sent{lanes, errs}
		}()
	}
}

// settle handles the answers of one call of Send. Events that must be sent again stay
// first in their lanes, and these lanes move to the front of ready.
func (d *delivery) settle(s sent) {
	d.calls--
	d.sending -= len(s.lanes)
	delivered, refused := uint64(0), uint64(0)
	var away error
	var again []*lane
	for i, l := range s.lanes {
		e := l.queue[0]
		l.busy = false
		var err error
		if i < len(s.errs) {
			err = s.errs[i]
		} else {
			err = fmt.Errorf("the sink answered %d of %d events", len(s.errs), len(s.lanes))
		}
		if refusal, ok := errors.AsType[*RefusedError](err); ok {
			e.letter = &DeadLetter{Event: e.event, Reason: refusal.Reason, At: time.Now().UTC()}
			refused++
		} else if err != nil {
			away = moreAway(away, err)
			again = append(again, l)
			continue
		} else {
			delivered++
		}
		e.settled = true
		if e.letter == nil {
			d.bytes -= len(e.event.Data)
		}
		e.event.Data = nil
		if l.queue = l.queue[1:]; len(l.queue) > 0 {
			d.ready = append(d.ready, l)
		} else {
			delete(d.lanes, e.event.Host)
		}
	}
	if delivered+refused > 0 {
		d.clearAway()
		d.nextSend = time.Time{}
	}
	if away != nil {
		d.ready = append(again, d.ready...)
		if pause := time.Now().Add(d.awayFrom(away)); pause.After(d.nextSend) {
			d.nextSend = pause
		}
	}
	d.updateState(func(s *State) {
		s.Delivered += delivered
		if sink, counts := d.Sink.(DuplicatesSink); counts {
			s.Duplicates = sink.Duplicates()
		}
	})
}

// moreAway returns a or b, whichever asks for the longer pause. The error a can be nil.
func moreAway(a, b error) error {
	x, _ := errors.AsType[*AwayError](a)
	y, _ := errors.AsType[*AwayError](b)
	if a == nil || y != nil && (x == nil || y.After > x.After) {
		return b
	}
	return a
}

// pass moves the cursor past the settled events at the beginning of the window.
func (d *delivery) pass() {
	n := 0
	for n < len(d.window) && d.window[n].settled {
		if l := d.window[n].letter; l != nil {
			d.letter = append(d.letter, *l)
		}
		d.at = d.window[n].event.Cursor
		d.window[n] = nil
		n++
	}
	d.window = d.window[n:]
}

// save saves the cursor, and the dead letters of the events that the cursor has passed.
func (d *delivery) save(ctx context.Context) error {
	if d.at == d.saved && len(d.letter) == 0 {
		return nil
	}
	if err := d.relay.save(ctx, d.at, d.letter); err != nil {
		return fmt.Errorf("events: save the cursor of relay %q: %w", d.Name, err)
	}
	for _, l := range d.letter {
		d.bytes -= len(l.Event.Data)
	}
	d.saved, d.letter, d.nextSave, d.progressAway = d.at, nil, time.Now().Add(saveEvery), false
	d.clearAwayIfAllAnswer()
	return nil
}

// clearAwayIfAllAnswer clears Away if the outbox, the progress and the sink are all
// available. It is called after a successful call of the outbox or the progress.
func (d *delivery) clearAwayIfAllAnswer() {
	if !d.outboxAway && !d.progressAway && d.nextSend.IsZero() {
		d.clearAway()
	}
}
