package inbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
)

// Event is an event that Store keeps until a handler of Work has handled it.
type Event struct {
	ID   string // identifies the event, like the parameter id of Once
	Type string // selects the handler
	Data []byte // the event as it was received; the inbox does not read it

	// Stored and Attempt are set by the inbox.
	Stored  time.Time // when the event was stored
	Attempt int       // 1 for the first attempt
}

// CloudEvent returns the event of a document, which must be a CloudEvent of version 1.0 in
// the JSON format, as the relays of the crawler send it. The ID of the Event is the source,
// a space and the id, because an id is unique only within its source. A source contains no
// space. The Data of the Event is the whole document. Every error wraps ErrInvalid.
func CloudEvent(document []byte) (Event, error) {
	var attributes struct {
		SpecVersion string `json:"specversion"`
		Source      string `json:"source"`
		ID          string `json:"id"`
		Type        string `json:"type"`
	}
	if err := json.Unmarshal(document, &attributes); err != nil {
		return Event{}, fmt.Errorf("%w: it is no CloudEvent: %w", ErrInvalid, err)
	}
	a := &attributes
	if a.SpecVersion != "1.0" || a.Source == "" || strings.Contains(a.Source, " ") || a.ID == "" || a.Type == "" {
		return Event{}, fmt.Errorf("%w: it is no CloudEvent: specversion %q, source %.40q, id %.40q, type %.40q; want 1.0 and three texts",
			ErrInvalid, a.SpecVersion, a.Source, a.ID, a.Type)
	}
	e := Event{ID: a.Source + " " + a.ID, Type: a.Type, Data: document}
	return e, errors.Join(checkID(e.ID), checkText("type", e.Type))
}

// Store stores an event and returns Done. After that the event can be acknowledged to the
// broker. Work handles it later, in any process. Store returns Duplicate if the group has
// handled or stored an event with this id within the window.
//
// The window begins with Store. If the event is still pending or is a dead letter, a repeat
// is a Duplicate even after the window.
func (i *Inbox) Store(ctx context.Context, e Event) (Result, error) {
	return i.keep(ctx, e, OutcomeStored, nil, 0)
}

// Bury stores an event as a dead letter, as Work does after the last attempt. It is for
// programs that call Once and whose broker counts the deliveries. It returns Duplicate if
// the group has handled or stored the event.
func (i *Inbox) Bury(ctx context.Context, e Event, reason error) (Result, error) {
	text := printable(reason)
	return i.keep(ctx, e, OutcomeDead, &text, e.Attempt)
}

// keep stores an event. If reason is not nil, the event is stored as a dead letter.
func (i *Inbox) keep(ctx context.Context, e Event, outcome Outcome, reason *string, attempts int) (Result, error) {
	if err := errors.Join(checkID(e.ID), checkText("type", e.Type)); err != nil {
		return 0, err
	}
	if e.Data == nil {
		e.Data = []byte{}
	}
	return i.unlessCached(ctx, e, outcome, func() (Result, error) {
		var kept bool
		err := i.cfg.DB.QueryRow(ctx, i.statement(storeSQL), i.cfg.Group, e.ID, e.Type, e.Data, i.window(e), i.clock(), reason, attempts).Scan(&kept)
		result, err := resultOfScan(err, pgx.ErrNoRows)
		if err != nil {
			return 0, fmt.Errorf("inbox: keep event %q of group %q: %w", e.ID, i.cfg.Group, err)
		}
		select {
		case i.wake <- struct{}{}:
		default:
		}
		return result, nil
	})
}

// printable returns the text of an error as Postgres can store it, at most 4 KiB.
func printable(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), 4096)], "?"), "\x00", "?")
}

// A DeadLetter is an event for which workers make no further attempts.
type DeadLetter struct {
	Event  Event
	Reason string    // why the last attempt failed
	At     time.Time // when it became a dead letter
}

// Dead returns at most limit dead letters of the group, oldest first.
func (i *Inbox) Dead(ctx context.Context, limit int) ([]DeadLetter, error) {
	rows, err := i.cfg.DB.Query(ctx, i.statement(deadSQL), i.cfg.Group, limit)
	if err != nil {
		return nil, fmt.Errorf("inbox: dead letters of group %q: %w", i.cfg.Group, explain(err))
	}
	letters, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (d DeadLetter, err error) {
		e := &d.Event
		err = row.Scan(&e.ID, &e.Type, &e.Data, &e.Stored, &e.Attempt, &d.At, &d.Reason)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: dead letters of group %q: %w", i.cfg.Group, explain(err))
	}
	return letters, nil
}

// Retry makes dead letters pending again and returns their number. Their attempts are
// counted from 0 again. Without ids it retries all dead letters of the group.
func (i *Inbox) Retry(ctx context.Context, ids ...string) (int, error) {
	return i.change(ctx, "retry", i.statement(retrySQL), ids, i.clock())
}

// Discard deletes dead letters and returns their number. Without ids it deletes all dead
// letters of the group. A repeat of a deleted event is still a Duplicate until its window ends.
func (i *Inbox) Discard(ctx context.Context, ids ...string) (int, error) {
	return i.change(ctx, "discard", i.statement(discardSQL), ids)
}

func (i *Inbox) change(ctx context.Context, what, statement string, ids []string, more ...any) (int, error) {
	if ids == nil {
		ids = []string{}
	}
	tag, err := i.cfg.DB.Exec(ctx, statement, append([]any{i.cfg.Group, ids}, more...)...)
	if err != nil {
		return 0, fmt.Errorf("inbox: %s dead letters of group %q: %w", what, i.cfg.Group, explain(err))
	}
	return int(tag.RowsAffected()), nil
}

// Stats counts the stored events of a group.
type Stats struct {
	Pending int64     // events that wait for a handler, or are being handled
	Dead    int64     // dead letters
	Oldest  time.Time // when the oldest pending event was stored; zero if there is none
	// SweepLag is how far Sweep is behind. Sweep deletes the row of a handled event after the
	// event's window has ended. SweepLag is the time since the earliest such end, in any group,
	// for a row that still exists. It is 0 if there is no such row.
	SweepLag time.Duration
	// SweepDue is the number of rows that Sweep has to delete, in all groups.
	SweepDue int64
}

// Stats counts the stored events of the group. It reads all of them, and all rows that Sweep has to delete.
func (i *Inbox) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	var lag zeronull.Int8 // microseconds
	err := i.cfg.DB.QueryRow(ctx, i.statement(statsSQL), i.cfg.Group, i.clock()).
		Scan(&s.Pending, &s.Dead, (*zeronull.Timestamptz)(&s.Oldest), &lag, &s.SweepDue)
	if err != nil {
		return Stats{}, fmt.Errorf("inbox: count events of group %q: %w", i.cfg.Group, explain(err))
	}
	s.SweepLag = time.Duration(lag) * time.Microsecond
	return s, nil
}
