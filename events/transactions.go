package events

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bloomfrontier/crawler/internal/crash"
)

// transactions is one run of a relay with a TransactionalSink. It commits one transaction
// after the other. The cursor and the dead letters are also saved in Progress, where
// status commands read them.
type transactions struct {
	*relay
	sink    TransactionalSink
	at      Cursor
	saved   Cursor
	savedAt time.Time
}

// isRefused reports whether err wraps a *RefusedError.
func isRefused(err error) bool {
	_, refused := errors.AsType[*RefusedError](err)
	return refused
}

func (t *transactions) run(ctx context.Context) error {
	t.saved = t.at
	err := t.loop(ctx)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSave)
	defer cancel()
	if saving := t.save(last, nil); err == nil {
		err = saving
	}
	return err
}

func (t *transactions) loop(ctx context.Context) error {
	for {
		var b batch
		err := t.patient(ctx, func() (err error) {
			b.events, b.next, err = t.Outbox.Read(ctx, t.at, t.Outstanding)
			return err
		})
		if err != nil {
			return fmt.Errorf("events: relay %q: %w", t.Name, err)
		}
		if len(b.events) > 0 || b.next != t.at {
			if err := t.commit(ctx, b); err != nil {
				return err
			}
			continue
		}
		if t.drain {
			return nil
		}
		if t.pause(ctx); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// commit delivers the wanted events of b, and moves the cursor to the end of b. If the sink
// refuses them, commit sends each event alone, to find the events that the sink refuses.
func (t *transactions) commit(ctx context.Context, b batch) error {
	kept := b.events[:0:0]
	for i := range b.events {
		if t.keeps(&b.events[i]) {
			kept = append(kept, b.events[i])
		}
	}
	err := t.send(ctx, kept, b.next)
	if !isRefused(err) {
		return err
	}
	for i := range kept {
		e := &kept[i]
		err := t.send(ctx, kept[i:i+1], e.Cursor)
		if refusal, refused := errors.AsType[*RefusedError](err); refused {
			t.at = e.Cursor
			err = t.save(ctx, []DeadLetter{{Event: *e, Reason: refusal.Reason, At: time.Now().UTC()}})
			if err == nil {
				err = t.send(ctx, nil, e.Cursor)
			}
		}
		if err != nil {
			return err
		}
	}
	if t.at == b.next {
		return nil
	}
	return t.send(ctx, nil, b.next)
}

// send commits events and a cursor. It tries again while the sink is unavailable, and sends
// nothing while the Hold is not valid.
func (t *transactions) send(ctx context.Context, events []Event, at Cursor) error {
	crash.Point("publish")
	err := t.repeat(ctx, isRefused, func() error {
		sending, cancel, err := t.tenure.begin(ctx)
		if err != nil {
			return err
		}
		defer cancel()
		return t.sink.Commit(sending, t.CursorKey, events, at)
	})
	if err != nil {
		return err
	}
	crash.Point("acknowledgement")
	t.at = at
	t.updateState(func(s *State) { s.Cursor = at; s.Delivered += uint64(len(events)) })
	return t.saveSoon(ctx)
}

// saveSoon saves the cursor in Progress, unless it was saved less than a second ago.
func (t *transactions) saveSoon(ctx context.Context) error {
	if time.Since(t.savedAt) < time.Second {
		return nil
	}
	return t.save(ctx, nil)
}

func (t *transactions) save(ctx context.Context, letters []DeadLetter) error {
	if t.at == t.saved && len(letters) == 0 {
		return nil
	}
	if err := t.patient(ctx, func() error { return t.relay.save(ctx, t.at, letters) }); err != nil {
		return fmt.Errorf("events: save the cursor of relay %q: %w", t.Name, err)
	}
	t.saved, t.savedAt = t.at, time.Now()
	return nil
}
