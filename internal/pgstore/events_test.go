package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	pagerecord "github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// rows returns records in the form in which a crawl passes them to Postgres.
func rows(t testing.TB, records ...*pagerecord.Record) []exact.Row {
	t.Helper()
	all := make([]exact.Row, len(records))
	for i, r := range records {
		line, err := r.AppendLine(nil)
		must(t, err)
		all[i] = exact.Row{
			Ref: exact.Ref{Fingerprint: r.Item, Round: uint32(r.Round)}, URL: r.URL, Fetched: r.FetchedAt,
			Outcome: frontier.Outcome(r.Outcome), Status: r.Status, Record: bytes.TrimSuffix(line, []byte("\n")),
		}
	}
	return all
}

func outboxOf(t testing.TB, dsn string) eventstest.OutboxUnderTest {
	cfg := anyCrawl(dsn)
	set := open(t, cfg)
	return eventstest.OutboxUnderTest{
		Outbox: pgstore.Outbox{Store: set},
		Commit: func(records ...*pagerecord.Record) error {
			if err := set.Finish(t.Context(), nil, rows(t, records...)); err != nil {
				return err
			}
			for { // wait until no older transaction runs; the server itself sometimes runs one
				at, err := set.Since(t.Context(), time.Time{})
				if err != nil {
					return err
				}
				if behind, err := set.Behind(t.Context(), at); err != nil || behind.Events == 0 {
					return err
				}
			}
		},
		Reopen: func() events.Outbox { return pgstore.Outbox{Store: open(t, cfg)} },
	}
}

// TestOutboxPassesSuite: Outbox passes the tests that every events.Outbox must pass.
func TestOutboxPassesSuite(t *testing.T) {
	eventstest.RunOutbox(t, func(t *testing.T) eventstest.OutboxUnderTest { return outboxOf(t, database(t)) })
}

// TestProgressPassesSuite: Outbox passes the tests that every events.Progress must pass.
func TestProgressPassesSuite(t *testing.T) {
	eventstest.RunProgress(t, func(t *testing.T) eventstest.ProgressUnderTest {
		cfg := anyCrawl(database(t))
		cfg.HoldTime = 10 * time.Second // a holder on a busy machine may renew its hold late
		p := pgstore.Outbox{Store: open(t, cfg)}
		return eventstest.ProgressUnderTest{
			Progress: p, Reopen: func() events.Progress { return pgstore.Outbox{Store: open(t, cfg)} },
			EndHold: func(name string) {
				execute(t, cfg.DSN, "UPDATE crawler.relay SET holder = '' WHERE name = '"+name+"'")
			},
		}
	})
}

// TestHoldEnds: a name whose holder does not renew its hold is free after Config.HoldTime, and not before.
func TestHoldEnds(t *testing.T) {
	t.Parallel()
	cfg := anyCrawl(database(t))
	cfg.HoldTime = 500 * time.Millisecond
	old, err := pgstore.Outbox{Store: open(t, cfg)}.Acquire(t.Context(), "a")
	must(t, err)
	began := time.Now()
	next, err := pgstore.Outbox{Store: open(t, cfg)}.Acquire(t.Context(), "a")
	if took := time.Since(began); err != nil || next.Term() <= old.Term() || took < cfg.HoldTime {
		t.Errorf("Acquire of a name whose holder is dead: %v after %v, want a larger term after %v", err, took, cfg.HoldTime)
	}
	if _, err := old.Renew(t.Context()); !errors.Is(err, events.ErrSuperseded) {
		t.Errorf("Renew after that: %v, want ErrSuperseded", err)
	}
}

// TestHoldOutlivesSessions: a relay keeps its name when the server ends all its sessions. While
// the relay renews its hold, no other process gets the name.
func TestHoldOutlivesSessions(t *testing.T) {
	t.Parallel()
	cfg := anyCrawl(database(t))
	cfg.HoldTime = 10 * time.Second
	p, other := pgstore.Outbox{Store: open(t, cfg)}, pgstore.Outbox{Store: open(t, cfg)}
	hold, err := p.Acquire(t.Context(), "a")
	must(t, err)
	conn, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer conn.Close(context.Background())
	for range 5 {
		_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		must(t, err)
		_, err = hold.Renew(t.Context())
		must(t, err)
		locked := make(chan error, 1)
		go func() {
			_, err := other.Acquire(t.Context(), "a")
			locked <- err
		}()
		for done := false; !done; {
			select {
			case err := <-locked:
				if !errors.Is(err, events.ErrLocked) {
					t.Fatalf("Acquire of another process: %v, want ErrLocked", err)
				}
				done = true
			case <-time.After(10 * time.Millisecond):
				_, err = hold.Renew(t.Context())
				must(t, err)
			}
		}
		must(t, hold.Save(t.Context(), "", nil))
	}
	if hold.Term() != 1 {
		t.Errorf("the term is %d, want still the first", hold.Term())
	}
}

// TestForeignCursorsAreRefused: the outbox refuses a cursor with a text that it did not
// make.
func TestForeignCursorsAreRefused(t *testing.T) {
	outbox := pgstore.Outbox{Store: open(t, anyCrawl(database(t)))}
	for _, text := range []events.Cursor{"x", "1", "1/", "/1", "1/1/1", "-1/1", "1/-1", "+1/1", "01/1", "0/0", "1/4294967296", "18446744073709551616/1", " 1/1"} {
		if _, _, err := outbox.Read(t.Context(), text, 1); err == nil || !strings.Contains(err.Error(), "XID/SEQUENCE") {
			t.Errorf("Read after %q: %v, want an error that names XID/SEQUENCE", text, err)
		}
		if _, err := outbox.Lag(t.Context(), text); err == nil {
			t.Errorf("Lag after %q: no error", text)
		}
	}
}

// BenchmarkRead reads an outbox from its beginning to its end.
func BenchmarkRead(b *testing.B) {
	eventstest.BenchOutbox(b, outboxOf(b, database(b)), 20_000)
}
