package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// load is a group of workers that take keys through their states and record the answers,
// while the test disturbs the server.
type load struct {
	set  *pgstore.Store
	mu   sync.Mutex
	new  map[bloomstore.Fingerprint]int // how often each key was new to a caller
	done map[bloomstore.Fingerprint]bool
}

func newLoad(set *pgstore.Store) *load {
	return &load{set: set, new: map[bloomstore.Fingerprint]int{}, done: map[bloomstore.Fingerprint]bool{}}
}

// work makes calls until ctx ends. It returns any error except ErrUnavailable.
func (l *load) work(ctx context.Context, r *rand.Rand, all int) error {
	for ctx.Err() == nil {
		asked := make([]exact.Key, 50)
		for i := range asked {
			asked[i] = key(r.IntN(all))
		}
		answers, err := l.set.Decide(ctx, asked)
		var own []exact.Key
		for i, a := range answers {
			if a.New {
				own = append(own, asked[i])
			}
		}
		l.mu.Lock()
		for _, k := range own {
			l.new[k.Fingerprint]++
		}
		l.mu.Unlock()
		if err == nil {
			err = l.set.Queued(ctx, refs(0, own...))
		}
		if half := own[:len(own)/2]; err == nil && len(half) > 0 {
			var rows []exact.Row
			for _, k := range half {
				rows = append(rows, record(k, 0, "load"))
			}
			if err = l.set.Finish(ctx, finishedOK(0, half...), rows); err == nil {
				l.mu.Lock()
				for _, k := range half {
					l.done[k.Fingerprint] = true
				}
				l.mu.Unlock()
			}
		}
		if err != nil && !errors.Is(err, frontier.ErrUnavailable) && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// verify checks that the changes of all successful calls are stored, and that each key was
// new to only one caller.
func (l *load) verify(t *testing.T, cfg pgstore.Config) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT fingerprint, outcome IS NOT NULL FROM "+table(t, cfg, "exact_key"))
	must(t, err)
	var print [16]byte
	var isDone bool
	states := map[bloomstore.Fingerprint]bool{}
	_, err = pgx.ForEachRow(rows, []any{&print, &isDone}, func() error {
		states[print] = isDone
		return nil
	})
	must(t, err)
	for print, times := range l.new {
		isDone, known := states[print]
		if times > 1 || !known || l.done[print] && !isDone {
			t.Fatalf("key %x: answered new %d times, finished by a caller: %t; stored as known: %t, as done: %t", print, times, l.done[print], known, isDone)
		}
	}
	// One statement reads both numbers, because calls that were running when the
	// workers ended might still be committed.
	var records, finished int
	must(t, conn.QueryRow(t.Context(), fmt.Sprintf("SELECT (SELECT count(*) FROM %s), (SELECT count(*) FROM %s WHERE outcome IS NOT NULL)",
		table(t, cfg, "record"), table(t, cfg, "exact_key"))).Scan(&records, &finished))
	if records != finished {
		t.Errorf("%d records and %d finished keys, want the same number", records, finished)
	}
	t.Logf("%d keys decided, %d finished", len(l.new), finished)
}

// underLoad runs workers while it calls disturb, which disturbs the server. Then it verifies
// the keys of the workers.
func underLoad(t *testing.T, dsn string, disturb func(r *rand.Rand)) {
	t.Helper()
	throughUnderLoad(t, dsn, dsn, disturb)
}

// throughUnderLoad does the same with workers that connect to through. dsn is the database itself.
func throughUnderLoad(t *testing.T, through, dsn string, disturb func(r *rand.Rand)) {
	t.Helper()
	const workers, all = 6, 40_000
	cfg := anyCrawl(through)
	cfg.MaxConns = workers
	l := newLoad(open(t, cfg))
	ctx, cancel := context.WithCancel(t.Context())
	r := rng(t)
	var group sync.WaitGroup
	for range workers {
		r := rand.New(rand.NewPCG(r.Uint64(), 3))
		group.Go(func() {
			if err := l.work(ctx, r, all); err != nil {
				t.Error(err)
			}
		})
	}
	disturb(r)
	cancel()
	group.Wait()
	if len(l.new) == 0 || len(l.done) == 0 {
		t.Fatalf("%d keys were decided and %d finished, want more than 0 of both", len(l.new), len(l.done))
	}
	cfg.DSN = dsn
	l.verify(t, cfg)
}

// progress waits until the server has committed 200 more transactions.
func progress(t *testing.T, dsn string) {
	t.Helper()
	const sum = "SELECT coalesce(sum(xact_commit), 0) FROM pg_stat_database WHERE datname = current_database()"
	before := query[int64](t, dsn, sum)
	for query[int64](t, dsn, sum) < before+200 {
		time.Sleep(time.Millisecond)
	}
}

// TestServerIsKilled kills the server with SIGKILL and restarts it, again and again under
// load.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	rounds := 2
	if *proof {
		rounds = 20
	}
	server := servers.Postgres(t, servers.PostgresOptions{FSync: true})
	underLoad(t, server.DSN(), func(r *rand.Rand) {
		for range rounds {
			progress(t, server.DSN())
			time.Sleep(rand.N(20 * time.Millisecond)) // so that the kill comes at a random moment
			must(t, server.Kill())
			must(t, server.Restart())
		}
		progress(t, server.DSN())
	})
}

// TestBackendsAreKilled: a caller that loses its connection repeats the call on
// another one.
func TestBackendsAreKilled(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	rounds := 30
	if *proof {
		rounds = 500
	}
	underLoad(t, dsn, func(r *rand.Rand) {
		for range rounds {
			query[int](t, dsn, `SELECT count(pg_terminate_backend(pid)) FROM (
				SELECT pid FROM pg_stat_activity WHERE application_name = 'crawler' AND datname = current_database() ORDER BY random() LIMIT 3) AS victims`)
		}
		progress(t, dsn)
	})
}

// TestUnavailableServer: if the server is down or does not answer, calls return an
// ErrUnavailable within a limited time. The store works again afterwards.
func TestUnavailableServer(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	cfg := anyCrawl(server.DSN())
	open(t, cfg).Close() // the migration may take longer than the timeouts
	cfg.ConnectTimeout, cfg.StatementTimeout = time.Second, time.Second
	set := open(t, cfg)
	wantAway := func(what string) {
		t.Helper()
		began := time.Now()
		_, err := set.Decide(t.Context(), keys(0, 3))
		if took := time.Since(began); !errors.Is(err, frontier.ErrUnavailable) || suite.TooLong(took, 20*time.Second) {
			t.Errorf("Decide with a server that is %s: %v after %v, want ErrUnavailable within 20 s", what, err, took)
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
			t.Errorf("Decide with a server that is %s: %v, which wraps a context error although the caller's context has not ended", what, err)
		}
	}
	must(t, server.Pause())
	wantAway("paused")
	must(t, server.Resume())
	must(t, server.Kill())
	wantAway("down")
	if _, err := pgstore.Open(t.Context(), cfg); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Open of a server that is down: %v, want ErrUnavailable", err)
	}
	must(t, server.Restart())
	answers, err := set.Decide(t.Context(), keys(10, 11))
	for n, until := 11, time.Now().Add(time.Minute); errors.Is(err, frontier.ErrUnavailable) && time.Now().Before(until); n++ {
		answers, err = set.Decide(t.Context(), keys(n, n+1)) // the server was too busy for the timeouts
	}
	if err != nil || !answers[0].New {
		t.Errorf("Decide after the restart = %+v, %v; want a new key", answers, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, err := set.Decide(ctx, keys(0, 1)); !errors.Is(err, why) {
		t.Errorf("Decide with a context that has ended: %v, want its cause", err)
	}
	set.Close()
	if err := set.Queued(t.Context(), refs(0, key(0))); !errors.Is(err, frontier.ErrClosed) {
		t.Errorf("Queued of a closed store: %v, want ErrClosed", err)
	}
}

// TestConnectionLimit: the error of a role, a database or a server without a free connection says how many are needed.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	cfg := anyCrawl(server.DSN())
	open(t, cfg).Close()
	execute(t, server.DSN(), "CREATE ROLE few LOGIN CONNECTION LIMIT 0")
	execute(t, server.DSN(), "CREATE DATABASE crowded CONNECTION LIMIT 0")
	for what, dsn := range map[string]string{
		"role": strings.Replace(cfg.DSN, "postgres@", "few@", 1), "database": strings.Replace(server.Database("crowded"), "postgres@", "few@", 1),
	} {
		cfg.DSN = dsn
		_, err := pgstore.Open(t.Context(), cfg)
		if !errors.Is(err, frontier.ErrUnavailable) || !strings.Contains(err.Error(), "needs up to 8 connections: raise CONNECTION LIMIT") {
			t.Errorf("Open with a %s without a free connection: %v, want ErrUnavailable and the number", what, err)
		}
	}
}

// TestServerErrors checks which error of the package is returned for each error of the
// server, and how often the call is repeated. A trigger raises
// the error, so that the server returns it. A sequence counts the calls, because it is not
// affected by rollbacks.
func TestServerErrors(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	set := open(t, cfg)
	execute(t, cfg.DSN, "CREATE SEQUENCE asked", "CREATE TABLE fault (state text)",
		`CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM nextval('asked');
			RAISE EXCEPTION USING ERRCODE = (SELECT state FROM fault), MESSAGE = 'as told';
		END $$`,
		"CREATE TRIGGER fail BEFORE INSERT ON "+table(t, cfg, "exact_key")+" EXECUTE FUNCTION fail()")
	for _, c := range []struct {
		state string
		asked int
		is    error
	}{
		{"40001", 5, frontier.ErrUnavailable}, // serialization failure
		{"40P01", 5, frontier.ErrUnavailable}, // deadlock
		{"55P03", 5, frontier.ErrUnavailable}, // lock timeout
		{"57P01", 5, frontier.ErrUnavailable}, // the backend ends
		{"53300", 5, frontier.ErrUnavailable}, // too many connections
		{"53100", 1, frontier.ErrUnavailable}, // disk full
		{"53200", 1, frontier.ErrUnavailable}, // out of memory
		{"57014", 1, frontier.ErrUnavailable}, // statement timeout
		{"25006", 1, frontier.ErrUnavailable}, // a standby
		{"58030", 1, frontier.ErrUnavailable}, // I/O error of the disk
		{"42P01", 1, pgstore.ErrNoCrawl},
		{"42501", 1, nil}, // no privilege
		{"22021", 1, nil}, // bad data
		{"XX001", 1, nil}, // damaged tables
	} {
		execute(t, cfg.DSN, "ALTER SEQUENCE asked RESTART", "TRUNCATE fault", "INSERT INTO fault VALUES ('"+c.state+"')")
		_, err := set.Decide(t.Context(), keys(0, 2))
		asked := query[int](t, cfg.DSN, "SELECT last_value FROM asked")
		for _, kind := range []error{frontier.ErrUnavailable, pgstore.ErrNoCrawl} {
			if errors.Is(err, kind) != (c.is == kind) {
				t.Errorf("SQLSTATE %s: error %v, want %v", c.state, err, c.is)
			}
		}
		if err == nil || asked != c.asked || !strings.Contains(err.Error(), "as told") {
			t.Errorf("SQLSTATE %s: the server was asked %d times, the last error is %v; want %d times and the server's message", c.state, asked, err, c.asked)
		}
	}
}

// TestLockTimeout: a call waits for a lock for a limited time, and has no effect if it fails.
func TestLockTimeout(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	cfg.LockTimeout = 20 * time.Millisecond
	set := open(t, cfg)
	_, err := set.Decide(t.Context(), keys(0, 2))
	must(t, err)
	other, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer other.Close(t.Context())
	tx, err := other.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), fmt.Sprintf("SELECT FROM %s WHERE fingerprint = $1 FOR UPDATE", table(t, cfg, "exact_key")),
		[16]byte(key(1).Fingerprint))
	must(t, err)
	if err := set.Finish(t.Context(), finishedOK(0, keys(0, 2)...), nil); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Finish of a locked key: %v, want ErrUnavailable", err)
	}
	if s, err := set.Lookup(t.Context(), key(0).Fingerprint); err != nil || s.State != exact.Pending {
		t.Errorf("Lookup of the other key of the failed Finish = %+v, %v; want it pending", s, err)
	}
	must(t, set.Queued(t.Context(), refs(0, keys(0, 2)...))) // needs no lock of a key
	must(t, tx.Rollback(t.Context()))
	must(t, set.Finish(t.Context(), finishedOK(0, keys(0, 2)...), nil))
}

// TestNoCredentials: no error contains the password.
func TestNoCredentials(t *testing.T) {
	t.Parallel()
	const secret = "s3cr%40t-w0rd"
	server := servers.Postgres(t, servers.PostgresOptions{Password: "another"})
	at := server.Addr()
	for name, dsn := range map[string]string{
		"wrong password":  "postgres://postgres:" + secret + "@" + at + "/postgres?sslmode=disable",
		"wrong database":  "postgres://postgres:" + secret + "@" + at + "/none?sslmode=disable",
		"no server":       "postgres://postgres:" + secret + "@127.0.0.1:1/postgres",
		"no URL":          "postgres://postgres:" + secret + "@[::1/postgres",
		"bad escape":      "postgres://postgres:" + secret + "%zz@" + at + "/postgres",
		"bad port":        "postgres://postgres:" + secret + "@localhost:port/postgres",
		"bad setting":     "host=localhost password='" + secret + "' sslmode=perhaps",
		"unquoted spaces": "host=localhost password=" + secret + " x y",
		"no tls":          "postgres://postgres:" + secret + "@" + at + "/postgres?sslmode=require",
	} {
		cfg := anyCrawl(dsn)
		_, err := pgstore.Open(t.Context(), cfg)
		if err == nil {
			t.Errorf("Open with %s: no error", name)
			continue
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), "w0rd") {
				t.Errorf("Open with %s: the error contains the password: %v", name, e)
			}
		}
		if name == "wrong password" && errors.Is(err, frontier.ErrUnavailable) {
			t.Errorf("Open with %s: %v, want an error other than ErrUnavailable", name, err)
		}
	}
}
