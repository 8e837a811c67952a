package inbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

var proof = flag.Bool("proof", false, "run the tests at full size")

// commonServer is started by the first test that needs a database.
var commonServer = sync.OnceValues(func() (*servers.PostgresServer, error) {
	started.Store(true)
	return servers.StartPostgres(context.Background(), servers.PostgresOptions{
		Config: map[string]string{"max_connections": "400"},
	})
})

var started atomic.Bool

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(childVariable) != "" {
		child()
	}
	if f := flag.Lookup("rapid.checks"); f != nil && !*proof && f.Value.String() == "100" {
		_ = flag.Set("rapid.checks", "25")
	}
	if err := servers.FindPostgres(); err != nil && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		fmt.Fprintln(os.Stderr, "the examples are skipped:", err)
		_ = flag.Set("test.skip", "^Example")
	}
	code := m.Run()
	if started.Load() {
		if server, err := commonServer(); err == nil {
			_ = server.Close() // an error leaves only files in the system's temporary folder
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// database returns a pool with a new schema for the test. The schema has the tables of an
// inbox and a table of effects. Without Postgres the test is skipped, or it fails if Postgres
// is required.
func database(t testing.TB) *pgxpool.Pool {
	t.Helper()
	server, err := commonServer()
	if errors.Is(err, servers.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	must(t, err)
	return prepare(t, server.DSN())
}

var schemas atomic.Int32

// prepare creates a schema with the tables.
func prepare(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	schema := fmt.Sprint("test", schemas.Add(1))
	pool := connect(t, dsn+"&application_name="+schema+"&search_path="+schema)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	_, err := inbox.Migrate(t.Context(), db, schema+".")
	must(t, err)
	_, err = pool.Exec(t.Context(), "CREATE TABLE effect (grp text, id text)")
	must(t, err)
	return pool
}

func connect(t testing.TB, dsn string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	must(t, err)
	config.MaxConns = 12
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// configOf returns the configuration of the group "mail".
func configOf(pool *pgxpool.Pool) inbox.Config {
	return inbox.Config{DB: pool, Group: "mail", Prefix: pool.Config().ConnConfig.RuntimeParams["search_path"] + "."}
}

// open returns the inbox of the group "mail".
func open(t testing.TB, pool *pgxpool.Pool, change ...func(*inbox.Config)) *inbox.Inbox {
	t.Helper()
	cfg := configOf(pool)
	for _, f := range change {
		f(&cfg)
	}
	i, err := inbox.Open(t.Context(), cfg)
	must(t, err)
	return i
}

// effect writes the effect of a handler of the group "mail".
func effect(ctx context.Context, tx pgx.Tx, id string) error {
	_, err := tx.Exec(ctx, "INSERT INTO effect (grp, id) VALUES ('mail', $1)", id)
	return err
}

func effects(t testing.TB, pool *pgxpool.Pool, id string) (n int) {
	t.Helper()
	must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM effect WHERE id = $1", id).Scan(&n))
	return n
}

func wantEffects(t testing.TB, pool *pgxpool.Pool, id string, want int) {
	t.Helper()
	if n := effects(t, pool, id); n != want {
		t.Errorf("event %q has %d effects, want %d", id, n, want)
	}
}

// A test starts its own binary as a child process. The handler in the child kills the
// child.
const (
	childVariable = "INBOX_TEST_CHILD" // the action of the child, a key of children
	childDSN      = "INBOX_TEST_DSN"
)

// children has the actions of child processes, by name. Each action handles one event with
// the id "k".
var children = map[string]func(ctx context.Context, pool *pgxpool.Pool) error{
	"once": func(ctx context.Context, pool *pgxpool.Pool) error {
		i, err := inbox.Open(ctx, configOf(pool))
		if err != nil {
			return err
		}
		_, err = i.Once(ctx, "k", func(ctx context.Context, tx pgx.Tx) error { return dieAfterEffect(ctx, tx) })
		return err
	},
	"once, killed behind the commit": func(ctx context.Context, pool *pgxpool.Pool) error {
		i, err := inbox.Open(ctx, configOf(pool))
		if err != nil {
			return err
		}
		if _, err := i.Once(ctx, "k", func(ctx context.Context, tx pgx.Tx) error { return effect(ctx, tx, "k") }); err != nil {
			return err
		}
		die()
		return nil
	},
	"work": func(ctx context.Context, pool *pgxpool.Pool) error {
		i, err := inbox.Open(ctx, configOf(pool))
		if err != nil {
			return err
		}
		cfg := quick(func(ctx context.Context, tx pgx.Tx, e inbox.Event) error { return dieAfterEffect(ctx, tx) })
		found, err := i.Round(ctx, cfg)
		if err == nil && !found {
			err = errors.New("no event is due")
		}
		return err
	},
	"mark first": func(ctx context.Context, pool *pgxpool.Pool) error {
		return markFirst(ctx, pool, "k", func(ctx context.Context, tx pgx.Tx) error { return dieAfterEffect(ctx, tx) })
	},
}

func dieAfterEffect(ctx context.Context, tx pgx.Tx) error {
	if err := effect(ctx, tx, "k"); err != nil {
		return err
	}
	die()
	return nil
}

func die() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }

// The function child performs the action of a child process. If the handler does not kill
// the process, the process exits with 0, or with 1 after an error.
func child() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, os.Getenv(childDSN))
	if err == nil {
		err = children[os.Getenv(childVariable)](ctx, pool)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runChild runs a child process to its end and reports whether its handler killed it.
func runChild(t testing.TB, pool *pgxpool.Pool, what string) (killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+what, childDSN+"="+pool.Config().ConnString())
	said, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if err != nil && (!ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("child process %q: %v, and it printed %s", what, err, said)
	}
	// The server might notice late that the process has ended, and keeps the process's
	// transaction open until then. The test waits for the end of the transaction.
	for err != nil {
		var busy bool
		must(t, pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE application_name = current_schema AND state = 'idle in transaction')`).Scan(&busy))
		if !busy {
			break
		}
	}
	return err != nil
}

// quick returns a configuration of Work for events of type "mail", with nearly no back-off.
func quick(handler inbox.Handler) inbox.WorkConfig {
	return inbox.WorkConfig{
		Handlers: map[string]inbox.Handler{"mail": handler},
		Attempts: 3, Backoff: time.Microsecond, MaxBackoff: time.Microsecond, Poll: time.Millisecond,
	}
}
