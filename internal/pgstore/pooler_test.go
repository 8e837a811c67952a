package pgstore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// poolModes are the modes of pgbouncer in which a Store works.
var poolModes = []string{"session", "transaction"}

// pooler returns a pgbouncer in front of the common server.
func pooler(t *testing.T, mode string) *servers.PgBouncerServer {
	t.Helper()
	server, err := commonServer()
	if errors.Is(err, servers.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	must(t, err)
	return servers.PgBouncer(t, server, servers.PgBouncerOptions{Mode: mode, Config: "default_pool_size = 100"})
}

// TestSetPassesSuiteThroughPooler runs the tests that every exact.Set must pass, and random calls,
// through a pgbouncer as Debian ships it.
func TestSetPassesSuiteThroughPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range poolModes {
		t.Run("pool_mode="+mode, func(t *testing.T) {
			sets := setsOn(pooler(t, mode).Through(database(t)))
			exacttest.RunSet(t, sets)
			exacttest.ModelSet(t, sets, rng(t).Uint64(), 200)
		})
	}
}

// TestPoolerIsKilled: callers whose pooler is killed, or whose server is killed behind it, repeat
// their calls.
func TestPoolerIsKilled(t *testing.T) {
	t.Parallel()
	for _, mode := range poolModes {
		t.Run("pool_mode="+mode, func(t *testing.T) {
			server := servers.Postgres(t, servers.PostgresOptions{FSync: true})
			bouncer := servers.PgBouncer(t, server, servers.PgBouncerOptions{Mode: mode, Config: "server_login_retry = 1"})
			throughUnderLoad(t, bouncer.Through(server.DSN()), server.DSN(), func(*rand.Rand) {
				progress(t, server.DSN())
				time.Sleep(rand.N(20 * time.Millisecond)) // so that the kill comes at a random moment
				must(t, bouncer.Kill())
				must(t, bouncer.Restart())
				progress(t, server.DSN())
				time.Sleep(rand.N(20 * time.Millisecond))
				must(t, server.Kill())
				must(t, server.Restart())
				progress(t, server.DSN())
			})
		})
	}
}

// TestPooledSettingsStayInTransactions: through a pooler in transaction mode each statement has the
// settings of the Store and those of its URL, and sessions of the server keep none of them.
func TestPooledSettingsStayInTransactions(t *testing.T) {
	t.Parallel()
	bouncer, direct := pooler(t, "transaction"), database(t)
	cfg := anyCrawl(bouncer.Through(direct) + "&deadlock_timeout=7s")
	cfg.LockTimeout = 20 * time.Millisecond
	set := open(t, cfg)
	_, err := set.Decide(t.Context(), keys(0, 2))
	must(t, err)
	cfg.DSN = direct
	other, err := pgx.Connect(t.Context(), direct)
	must(t, err)
	defer other.Close(t.Context())
	tx, err := other.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), fmt.Sprintf("SELECT FROM %s WHERE fingerprint = $1 FOR UPDATE", table(t, cfg, "exact_key")),
		[16]byte(key(1).Fingerprint))
	must(t, err)
	if err := set.Finish(t.Context(), finishedOK(0, keys(0, 2)...), nil); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Finish of a locked key: %v, want ErrUnavailable after the lock timeout", err)
	}
	must(t, tx.Rollback(t.Context()))
	must(t, set.Queued(t.Context(), refs(0, keys(0, 2)...)))
	for range 20 {
		if got := query[string](t, bouncer.Through(direct)+"&default_query_exec_mode=exec",
			"SELECT current_setting('lock_timeout') || ' ' || current_setting('enable_seqscan') || ' ' || current_setting('deadlock_timeout')"); got != "0 on 1s" {
			t.Fatalf("another client of the pooler has the settings %q, want those of the server", got)
		}
	}
}

// TestURLSettingsThroughPooler: settings in the URL hold in both modes, and a setting that does
// not exist is an error that names it.
func TestURLSettingsThroughPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range poolModes {
		bouncer, direct := pooler(t, mode), database(t)
		set := open(t, anyCrawl(bouncer.Through(direct)+"&default_transaction_read_only=off&work_mem=64kB"))
		must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, "")}))
		set.Close()
		_, err := pgstore.Open(t.Context(), anyCrawl(bouncer.Through(direct)+"&no_such_setting=1"))
		if err == nil || errors.Is(err, frontier.ErrUnavailable) {
			t.Errorf("%s mode: Open with an unknown setting: %v, want an error that is not ErrUnavailable", mode, err)
		}
	}
}

// TestRelaysThroughPooler: Outbox passes its tests, and the tests of events.Progress, through a pooler in
// transaction mode.
func TestRelaysThroughPooler(t *testing.T) {
	t.Parallel()
	bouncer := pooler(t, "transaction")
	t.Run("outbox", func(t *testing.T) {
		eventstest.RunOutbox(t, func(t *testing.T) eventstest.OutboxUnderTest { return outboxOf(t, bouncer.Through(database(t))) })
	})
	t.Run("progress", func(t *testing.T) {
		eventstest.RunProgress(t, func(t *testing.T) eventstest.ProgressUnderTest {
			direct := database(t)
			cfg := anyCrawl(bouncer.Through(direct))
			cfg.HoldTime = 10 * time.Second
			reopen := func() events.Progress { return pgstore.Outbox{Store: open(t, cfg)} }
			return eventstest.ProgressUnderTest{
				Progress: reopen(), Reopen: reopen,
				EndHold: func(name string) {
					execute(t, direct, "UPDATE crawler.relay SET holder = '' WHERE name = '"+name+"'")
				},
			}
		})
	})
}

// TestPooledStoreHoldsNoLocks: through a pooler in transaction mode no advisory lock and no LISTEN is left in a
// session of the server, where it would belong to any client.
func TestPooledStoreHoldsNoLocks(t *testing.T) {
	t.Parallel()
	bouncer, direct := pooler(t, "transaction"), database(t)
	set := open(t, anyCrawl(bouncer.Through(direct)))
	<-set.Changed() // at the beginning
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, "")}))
	if n := query[int](t, direct, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"); n != 0 {
		t.Errorf("%d sessions have an advisory lock, want none", n)
	}
	sessions := query[int](t, direct, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	seen := map[int]bool{}
	for range sessions { // a transaction in each of them
		conn, err := pgx.Connect(t.Context(), bouncer.Through(direct)+"&default_query_exec_mode=exec")
		must(t, err)
		defer conn.Close(t.Context())
		tx, err := conn.Begin(t.Context())
		must(t, err)
		var pid, channels int
		must(t, tx.QueryRow(t.Context(), "SELECT pg_backend_pid(), (SELECT count(*) FROM pg_listening_channels())").Scan(&pid, &channels))
		if channels != 0 || seen[pid] {
			t.Errorf("session %d listens to %d channels, want none; seen before: %t", pid, channels, seen[pid])
		}
		seen[pid] = true
	}
}
