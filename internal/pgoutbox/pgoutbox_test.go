package pgoutbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgoutbox"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

var (
	lastCrawl    atomic.Int32
	started      atomic.Bool
	commonServer = sync.OnceValues(func() (*servers.PostgresServer, error) {
		started.Store(true)
		return servers.StartPostgres(context.Background(), servers.PostgresOptions{})
	})
)

func TestMain(m *testing.M) {
	code := m.Run()
	if started.Load() {
		if server, err := commonServer(); err == nil {
			_ = server.Close() // its files are below the system's temporary folder
		}
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// anyCrawl returns the config of a new crawl on a server that several tests share. No test
// is allowed to break that server.
func anyCrawl(t testing.TB) pgstore.Config {
	t.Helper()
	server, err := commonServer()
	if errors.Is(err, servers.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	must(t, err)
	return pgstore.Config{DSN: server.DSN(), Crawl: fmt.Sprintf("crawl-%d", lastCrawl.Add(1)), Identity: "x7Yz01", MaxConns: 4}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, cfg pgstore.Config) *pgstore.Store {
	t.Helper()
	set, err := pgstore.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(set.Close)
	return set
}

// rows returns records in the form in which a crawl passes them to Postgres.
func rows(t testing.TB, records ...*record.Record) []exact.Row {
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

func outboxOf(t testing.TB) eventstest.OutboxUnderTest {
	cfg := anyCrawl(t)
	set := open(t, cfg)
	return eventstest.OutboxUnderTest{
		Outbox: pgoutbox.New(set),
		Commit: func(records ...*record.Record) error {
			if err := set.Finish(t.Context(), nil, rows(t, records...)); err != nil {
				return err
			}
			for { // until no older transaction runs; the server itself sometimes runs one
				at, err := set.Since(t.Context(), time.Time{})
				if err != nil {
					return err
				}
				if behind, err := set.Behind(t.Context(), at); err != nil || behind.Records == 0 {
					return err
				}
			}
		},
		Reopen: func() events.Outbox { return pgoutbox.New(open(t, cfg)) },
	}
}

// TestOutboxPassesSuite: the table of records is an Outbox.
func TestOutboxPassesSuite(t *testing.T) {
	eventstest.RunOutbox(t, func(t *testing.T) eventstest.OutboxUnderTest { return outboxOf(t) })
}

// TestProgressPassesSuite: the tables of relays are a Progress.
func TestProgressPassesSuite(t *testing.T) {
	eventstest.RunProgress(t, func(t *testing.T) (events.Progress, func() events.Progress) {
		cfg := anyCrawl(t)
		return pgoutbox.New(open(t, cfg)), func() events.Progress { return pgoutbox.New(open(t, cfg)) }
	})
}

// TestForeignCursorsAreRefused: the outbox refuses a cursor with a text that it did not
// make.
func TestForeignCursorsAreRefused(t *testing.T) {
	outbox := pgoutbox.New(open(t, anyCrawl(t)))
	for _, text := range []events.Cursor{"x", "1", "1/", "/1", "1/1/1", "-1/1", "1/-1", "+1/1", "01/1", "0/0", "1/4294967296", "18446744073709551616/1", " 1/1"} {
		if _, _, err := outbox.Read(t.Context(), text, 1); err == nil || !strings.Contains(err.Error(), "XID/SEQUENCE") {
			t.Errorf("Read behind %q: %v, want an error that says what a cursor is", text, err)
		}
		if _, err := outbox.Lag(t.Context(), text); err == nil {
			t.Errorf("Lag behind %q: no error", text)
		}
	}
}

// BenchmarkRead reads an outbox from its beginning to its end.
func BenchmarkRead(b *testing.B) {
	eventstest.BenchOutbox(b, outboxOf(b), 20_000)
}
