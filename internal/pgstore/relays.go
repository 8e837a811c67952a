package pgstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events"
)

// Load implements events.Progress.
func (o Outbox) Load(ctx context.Context, name string) (saved events.Saved, known bool, err error) {
	err = o.queryRow(ctx, "read a relay's cursor", o.sql("relay"), []any{o.crawl, name}, &saved.Cursor, &saved.At, &saved.Dead)
	if errors.Is(err, pgx.ErrNoRows) {
		return events.Saved{}, false, nil
	}
	saved.At = saved.At.UTC()
	return saved, err == nil, err
}

// Save implements events.Progress. If an event has several dead letters, the first is kept.
// Save returns ErrNoCrawl if the crawl was deleted.
func (o Outbox) Save(ctx context.Context, name string, at events.Cursor, dead []events.DeadLetter) error {
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
	return o.exec(ctx, "save a relay's cursor", o.sql("save_relay"), o.crawl, name, string(at), ids, texts, reasons, times)
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
	err = row.Scan(&l.Event, &l.Reason, &l.At)
	l.At = l.At.UTC()
	return l, err
}

// Revise implements events.Progress.
func (o Outbox) Revise(ctx context.Context, name string, dead []events.DeadLetter) error {
	ids, reasons, times := make([]string, len(dead)), make([]string, len(dead)), make([]time.Time, len(dead))
	for i, l := range dead {
		ids[i], reasons[i], times[i] = l.Event.ID, storable(l.Reason), l.At
	}
	return o.exec(ctx, "revise dead letters", o.sql("revise_letters"), o.crawl, name, ids, reasons, times)
}

// Discard implements events.Progress.
func (o Outbox) Discard(ctx context.Context, name string, ids ...string) (removed int, err error) {
	if len(ids) == 0 {
		ids = nil // the statement then removes all dead letters of the relay
	}
	err = o.try(ctx, "discard dead letters", func(ctx context.Context) error {
		done, err := o.pool.Exec(ctx, o.sql("discard_letters"), o.crawl, name, ids)
		removed = int(done.RowsAffected())
		return err
	})
	return removed, err
}

// lockWait is how long Lock waits for a locked name. If the process that had the lock was killed,
// the server needs some time to end its session.
const lockWait = 3 * time.Second

// Lock implements events.Progress. The lock also ends if its connection to the server
// breaks. The caller must unlock it before Close.
func (o Outbox) Lock(ctx context.Context, name string) (unlock func() error, err error) {
	var conn *pgx.Conn
	var locked bool
	err = o.try(ctx, "lock a relay", func(ctx context.Context) (err error) {
		if conn, err = o.dial(ctx); err != nil {
			return err
		}
		for end := time.Now().Add(lockWait); ; pause(ctx, lockWait/20) {
			err = conn.QueryRow(ctx, o.sql("lock_relay"), o.crawl, name).Scan(&locked)
			if err != nil || locked || time.Now().After(end) {
				break
			}
		}
		if err != nil || !locked {
			hangUp(conn)
		}
		return err
	})
	if err == nil && !locked {
		err = events.ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return func() error { endLock(conn); return nil }, nil
}

// endLock ends the locks of a connection that dial returned, and closes the connection.
// Closing alone would not do: the server ends the session and its locks some time later.
func endLock(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, _ = conn.Exec(ctx, "SELECT pg_advisory_unlock_all()") // if this fails, the end of the session ends the locks
	hangUp(conn)
}

// dial returns a connection that does not belong to the pool.
func (s *Store) dial(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig.Copy())
}

// hangUp closes a connection that dial returned.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // an error does not matter: the server ends the session in any case
}
