package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrRelayInUse reports a relay that another process runs.
var ErrRelayInUse = errors.New("pgstore: another process runs this relay")

// Letter is a dead letter: an event that the sink of a relay refused permanently.
type Letter struct {
	ID     string // the id of the event
	Event  []byte // JSON
	Reason string
	At     time.Time // when it was refused, UTC
}

// Relay is the progress of a relay that delivers the records of a crawl.
type Relay struct {
	Cursor string
	Moved  time.Time // when Cursor was saved, UTC
	Dead   uint64    // number of dead letters
}

// Relay returns the saved progress of a relay. The second result is false if no progress is
// saved.
func (s *Store) Relay(ctx context.Context, name string) (r Relay, known bool, err error) {
	err = s.queryRow(ctx, "read a relay's cursor", s.sql("relay"), []any{s.crawl, name}, &r.Cursor, &r.Moved, &r.Dead)
	if errors.Is(err, pgx.ErrNoRows) {
		return Relay{}, false, nil
	}
	r.Moved = r.Moved.UTC()
	return r, err == nil, err
}

// SaveRelay stores the cursor of a relay and adds dead letters, in one transaction. If an
// event has several letters, the first one is kept. SaveRelay returns ErrNoCrawl if the
// crawl was deleted.
func (s *Store) SaveRelay(ctx context.Context, name, cursor string, letters []Letter) error {
	var ids, events, reasons []string
	var times []time.Time
	for _, l := range letters {
		ids, events = append(ids, l.ID), append(events, string(l.Event))
		reasons, times = append(reasons, storable(l.Reason)), append(times, l.At)
	}
	return s.exec(ctx, "save a relay's cursor", s.sql("save_relay"), s.crawl, name, cursor, ids, events, reasons, times)
}

// storable makes text valid for a column of the type text: it removes zero bytes and
// replaces invalid UTF-8.
func storable(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\ufffd")
}

// Relays returns the names of the relays that have a cursor, sorted.
func (s *Store) Relays(ctx context.Context) (names []string, err error) {
	names, err = query(ctx, s, "list relays", s.sql("relay_names"), pgx.RowTo[string], s.crawl)
	slices.Sort(names) // because the order of the database depends on its collation
	return names, err
}

// Letters returns the dead letters of a relay, oldest first.
func (s *Store) Letters(ctx context.Context, name string) ([]Letter, error) {
	return query(ctx, s, "read dead letters", s.sql("dead_letters"), scanLetter, s.crawl, name)
}

func scanLetter(row pgx.CollectableRow) (l Letter, err error) {
	err = row.Scan(&l.ID, &l.Event, &l.Reason, &l.At)
	l.At = l.At.UTC()
	return l, err
}

// ReviseLetters changes the reason and the time of dead letters of a relay. It ignores
// letters that the relay does not have.
func (s *Store) ReviseLetters(ctx context.Context, name string, letters []Letter) error {
	ids, reasons, times := make([]string, len(letters)), make([]string, len(letters)), make([]time.Time, len(letters))
	for i, l := range letters {
		ids[i], reasons[i], times[i] = l.ID, storable(l.Reason), l.At
	}
	return s.exec(ctx, "revise dead letters", s.sql("revise_letters"), s.crawl, name, ids, reasons, times)
}

// DiscardLetters removes the dead letters with these event ids from a relay, or all if
// ids is nil. It returns the number of removed letters.
func (s *Store) DiscardLetters(ctx context.Context, name string, ids []string) (removed int, err error) {
	err = s.try(ctx, "discard dead letters", func(ctx context.Context) error {
		done, err := s.pool.Exec(ctx, s.sql("discard_letters"), s.crawl, name, ids)
		removed = int(done.RowsAffected())
		return err
	})
	return removed, err
}

// LockRelay locks a relay for this process, until the function release is called or the
// connection of the lock breaks. The caller must call release before Close. If
// another process has the lock, LockRelay returns ErrRelayInUse.
func (s *Store) LockRelay(ctx context.Context, name string) (release func(), err error) {
	var conn *pgx.Conn
	var locked bool
	err = s.try(ctx, "lock a relay", func(ctx context.Context) (err error) {
		if conn, err = s.dial(ctx); err != nil {
			return err
		}
		if err = conn.QueryRow(ctx, s.sql("lock_relay"), s.crawl, name).Scan(&locked); err != nil || !locked {
			hangUp(conn)
		}
		return err
	})
	if err == nil && !locked {
		err = fmt.Errorf("%w: %q", ErrRelayInUse, name)
	}
	if err != nil {
		return nil, err
	}
	return func() { hangUp(conn) }, nil
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
