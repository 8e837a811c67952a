package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bloomfrontier/crawler/events"
)

// Load implements events.Progress.
func (o Outbox) Load(ctx context.Context, name string) (saved events.Saved, known bool, err error) {
	err = o.queryRow(ctx, "read a relay's cursor", o.sql("relay"), []any{o.crawl, name}, &saved.Cursor, &saved.At, &saved.Dead, &saved.Resend)
	if errors.Is(err, pgx.ErrNoRows) {
		return events.Saved{}, false, nil
	}
	saved.At = saved.At.UTC()
	return saved, err == nil, err
}

// storable makes text valid for a column of the type text: it removes zero bytes and
// replaces invalid UTF-8.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\ufffd")
}

// Names implements events.Progress.
func (o Outbox) Names(ctx context.Context) (names []string, err error) {
	names, err = query(ctx, o.Store, "list relays", o.sql("relay_names"), pgx.RowTo[string], o.crawl)
	slices.Sort(names) // because the order of the database depends on its collation
	return names, err
}

// Dead implements events.Progress.
func (o Outbox) Dead(ctx context.Context, name string) ([]events.DeadLetter, error) {
	return query(ctx, o.Store, "read dead letters", o.sql("dead_letters"), scanLetter, o.crawl, name)
}

func scanLetter(row pgx.CollectableRow) (l events.DeadLetter, err error) {
	err = row.Scan(&l.Event, &l.Reason, &l.At, &l.Resend)
	l.At = l.At.UTC()
	return l, err
}

// Revise implements events.Progress.
func (o Outbox) Revise(ctx context.Context, name string, dead []events.DeadLetter) error {
	ids, reasons := make([]string, len(dead)), make([]string, len(dead))
	times, marks := make([]time.Time, len(dead)), make([]bool, len(dead))
	for i, l := range dead {
		ids[i], reasons[i], times[i], marks[i] = l.Event.ID, storable(l.Reason), l.At, l.Resend
	}
	return o.exec(ctx, "revise dead letters", o.sql("revise_letters"), o.crawl, name, ids, reasons, times, marks)
}

// Discard implements events.Progress.
func (o Outbox) Discard(ctx context.Context, name string, ids ...string) (removed int, err error) {
	return o.letters(ctx, "discard dead letters", o.sql("discard_letters"), name, ids)
}

// Resend implements events.Progress.
func (o Outbox) Resend(ctx context.Context, name string, ids ...string) (marked int, err error) {
	return o.letters(ctx, "send dead letters again", o.sql("resend_letters"), name, ids)
}

// letters executes a statement for dead letters of a relay, and returns for how many.
func (o Outbox) letters(ctx context.Context, what, statement, name string, ids []string) (n int, err error) {
	if len(ids) == 0 {
		ids = nil // which stands for all dead letters of the relay
	}
	err = o.try(ctx, what, func(ctx context.Context) error {
		var batch pgx.Batch
		batch.Queue(statement, o.crawl, name, ids).Exec(func(done pgconn.CommandTag) error {
			n = int(done.RowsAffected())
			return nil
		})
		return o.send(ctx, &batch)
	})
	return n, err
}
