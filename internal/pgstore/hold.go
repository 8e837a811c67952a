package pgstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events"
)

// A relay's name is held by the row of the relay, and not by a lock of a session, because a
// session can end without the knowledge of its client. A hold works like a lease, but no clock
// of the server is used:
//
//   - Each acquisition increments the term of the row. Save and Renew change the row only if it
//     still has the term of the caller, and increment its beat.
//   - Another caller can take over the name only after it has seen the same term and beat for
//     the duration Config.HoldTime, by its own monotonic clock.
//   - The holder sends nothing if its last successful Renew began longer ago than HoldTime, by
//     its own clock.
//
// So the old holder has stopped before the new one begins, even if one of the two was suspended,
// if the clock of the server jumps, or if the server restarts.

// holdLooks is how often Acquire reads the row of a relay that another caller holds, within
// Config.HoldTime.
const holdLooks = 10

// hold implements events.Hold.
type hold struct {
	Outbox
	name   string
	holder string // a unique text that also names this process to people
	term   int64
}

// heldRow is the part of a relay's row that shows whether its holder lives.
type heldRow struct {
	term, beat int64
	holder     string // empty if the name is free
}

// Acquire implements events.Progress. If another caller holds the name, Acquire watches the row
// of the relay for at most Config.HoldTime. It returns ErrLocked as soon as the row changes.
func (o Outbox) Acquire(ctx context.Context, name string) (events.Hold, error) {
	host, _ := os.Hostname()
	h := &hold{Outbox: o, name: name, holder: fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])}
	var seen heldRow
	var since, last time.Time
	for {
		err := o.queryRow(ctx, "acquire a relay", o.sql("acquire_relay"), []any{o.crawl, name, h.holder, seen.term, seen.beat}, &h.term)
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return nil, err
		}
		for since, last = time.Now(), time.Now(); ; pause(ctx, o.cfg.HoldTime/holdLooks) {
			now, err := o.heldBy(ctx, name)
			switch {
			case err != nil:
				return nil, err
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case seen != heldRow{} && now != seen && now.holder != "":
				return nil, fmt.Errorf("%w (%s)", events.ErrLocked, now.holder)
			case now != seen, time.Since(last) > o.cfg.HoldTime/2:
				// After an outage of the server, the holder gets the whole time again.
				seen, since = now, time.Now()
			}
			last = time.Now()
			if seen.holder == "" || time.Since(since) >= o.cfg.HoldTime {
				break
			}
		}
	}
}

func (o Outbox) heldBy(ctx context.Context, name string) (row heldRow, err error) {
	err = o.queryRow(ctx, "read who runs a relay", o.sql("held_relay"), []any{o.crawl, name}, &row.term, &row.beat, &row.holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return heldRow{}, nil
	}
	return row, err
}

// Term implements events.Hold.
func (h *hold) Term() uint64 { return uint64(h.term) }

// Renew implements events.Hold.
func (h *hold) Renew(ctx context.Context) (time.Duration, error) {
	return h.cfg.HoldTime, h.checked(ctx, "renew the hold of a relay", h.sql("renew_relay"), h.crawl, h.name, h.term)
}

// Release implements events.Hold.
func (h *hold) Release(ctx context.Context) error {
	return h.checked(ctx, "release a relay", h.sql("release_relay"), h.crawl, h.name, h.term)
}

// Save implements events.Hold. If an event has several dead letters, the first is kept.
// Save returns ErrNoCrawl if the crawl was deleted.
func (h *hold) Save(ctx context.Context, at events.Cursor, dead []events.DeadLetter) error {
	var ids, texts, reasons []string
	var times []time.Time
	for _, l := range dead {
		text, err := l.Event.MarshalJSON()
		if err != nil {
			return err
		}
		ids, texts = append(ids, l.Event.ID), append(texts, string(text))
		reasons, times = append(reasons, storable(l.Reason)), append(times, l.At)
	}
	return h.checked(ctx, "save a relay's cursor", h.sql("save_relay"), h.crawl, h.name, h.term, string(at), ids, texts, reasons, times)
}

// checked executes a statement that changes the row of the relay if the row has the term of h.
// The statement returns whether it has changed the row, and whether the crawl exists.
func (h *hold) checked(ctx context.Context, call, sql string, args ...any) error {
	var changed, exists bool
	err := h.queryRow(ctx, call, sql, args, &changed, &exists)
	switch {
	case err != nil:
		return err
	case !exists:
		return fmt.Errorf("%w: %s", ErrNoCrawl, call)
	case !changed:
		return fmt.Errorf("%w: pgstore: %s: term %d is over", events.ErrSuperseded, call, h.term)
	}
	return nil
}
