package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/serve/idempotency"
	"github.com/bloomfrontier/crawler/serve/idempotency/idempotencytest"
	"github.com/bloomfrontier/crawler/serve/idempotency/postgres"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commonServer is started by the first test that needs a database.
var commonServer = sync.OnceValues(func() (*servers.PostgresServer, error) {
	started.Store(true)
	return servers.StartPostgres(context.Background(), servers.PostgresOptions{})
})

var started atomic.Bool

func TestMain(m *testing.M) {
	child()
	code := m.Run()
	if started.Load() {
		if server, err := commonServer(); err == nil {
			_ = server.Close() // an error leaves only files in the system's temporary folder
		}
	}
	os.Exit(code)
}

// server returns the common server. Without Postgres the test is skipped, or it fails if Postgres
// is required.
func server(t testing.TB) *servers.PostgresServer {
	t.Helper()
	s, err := commonServer()
	if errors.Is(err, servers.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	must(t, err)
	return s
}

// cutter is a dialer whose connections can be cut, also before the reply to a COMMIT.
type cutter struct {
	net.Dialer
	mu         sync.Mutex
	conns      []net.Conn
	loseCommit bool // cut the next connection that sends COMMIT, before the reply
}

func (c *cutter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return &cut{Conn: conn, by: c}, nil
}

// cutAll closes all connections.
func (c *cutter) cutAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// cut is a connection of a cutter.
type cut struct {
	net.Conn
	by   *cutter
	lost atomic.Bool
}

func (c *cut) Write(p []byte) (int, error) {
	c.by.mu.Lock()
	if c.by.loseCommit && bytes.Contains(p, []byte("commit\x00")) {
		c.by.loseCommit = false
		c.lost.Store(true)
	}
	c.by.mu.Unlock()
	return c.Conn.Write(p)
}

func (c *cut) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p) // with a lost reply: the server has committed
	if c.lost.Load() {
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// backend is a store in a schema of its own.
type backend struct {
	t      testing.TB
	schema string
	pool   *pgxpool.Pool
	direct *pgxpool.Pool // without pooler and cutter
	cutter cutter
	cuts   bool                    // Crash cuts the connections; otherwise it terminates the backends
	killed *servers.PostgresServer // Crash kills this server instead; nil means that it does not
	store  *postgres.Store
}

var schemas atomic.Int32

// open opens a backend. The URL of the server is dsn, and direct without a pooler.
func open(t testing.TB, dsn, direct string, cuts bool, now func() time.Time) *backend {
	b := &backend{t: t, schema: fmt.Sprint("test", schemas.Add(1)), cuts: cuts}
	config, err := pgxpool.ParseConfig(dsn)
	must(t, err)
	config.MaxConns = 12
	config.ConnConfig.RuntimeParams["application_name"] = b.schema
	config.ConnConfig.DialFunc = b.cutter.dial
	b.pool, err = pgxpool.NewWithConfig(t.Context(), config)
	must(t, err)
	t.Cleanup(b.pool.Close)
	b.direct, err = pgxpool.New(t.Context(), direct)
	must(t, err)
	t.Cleanup(b.direct.Close)
	cfg := postgres.Config{DB: b.pool, Schema: b.schema, Now: now}
	must(t, postgres.Migrate(t.Context(), cfg))
	_, err = b.direct.Exec(t.Context(), "CREATE TABLE "+b.schema+".effect (name text)")
	must(t, err)
	b.store, err = postgres.Open(t.Context(), cfg)
	must(t, err)
	return b
}

func (b *backend) Store() idempotency.Store { return b.store }

func (b *backend) Write(ctx context.Context, name string) error {
	_, err := postgres.Tx(ctx).Exec(ctx, "INSERT INTO "+b.schema+".effect VALUES ($1)", pgx.QueryExecModeExec, name)
	return err
}

func (b *backend) Count(name string) (n int, err error) {
	err = b.direct.QueryRow(context.Background(), "SELECT count(*) FROM "+b.schema+".effect WHERE name = $1", name).Scan(&n)
	return n, err
}

func (b *backend) Crash() {
	if b.killed != nil {
		if err := b.killed.Kill(); err != nil {
			b.t.Error(err)
		}
		return
	}
	if b.cuts {
		b.cutter.cutAll()
		return
	}
	_, err := b.direct.Exec(context.Background(),
		"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = $1", b.schema)
	if err != nil {
		b.t.Error(err)
	}
}

// Restart waits until the server has noticed the end of the connections.
func (b *backend) Restart() {
	b.cutter.cutAll()
	if b.killed != nil {
		must(b.t, b.killed.Restart())
		b.direct.Reset()
	}
	for open := 1; open > 0; {
		must(b.t, b.direct.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = $1 AND state LIKE 'idle in transaction%'`, b.schema).Scan(&open))
	}
}

func TestConformance(t *testing.T) {
	for name, cuts := range map[string]bool{"terminated backends": false, "cut connections": true} {
		t.Run(name, func(t *testing.T) {
			idempotencytest.Run(t, func(t testing.TB, now func() time.Time) idempotencytest.Backend {
				dsn := server(t).DSN()
				return open(t, dsn, dsn, cuts, now)
			})
		})
	}
}

func BenchmarkRequest(b *testing.B) {
	idempotencytest.Bench(b, func(t testing.TB, now func() time.Time) idempotencytest.Backend {
		dsn := server(t).DSN()
		return open(t, dsn, dsn, false, now)
	})
}

// TestServerKilled runs the suite with a server that is killed with kill -9 by each crash.
func TestServerKilled(t *testing.T) {
	own := servers.Postgres(t, servers.PostgresOptions{})
	idempotencytest.Run(t, func(t testing.TB, now func() time.Time) idempotencytest.Backend {
		b := open(t, own.DSN(), own.DSN(), true, now)
		b.killed = own
		return b
	})
}

// TestThroughPooler runs the suite through pgbouncer in transaction mode. The pool has the settings
// of pgx, which gives names to statements: those of the store have none.
func TestThroughPooler(t *testing.T) {
	bouncer := servers.PgBouncer(t, server(t), servers.PgBouncerOptions{Mode: "transaction", Config: "default_pool_size = 20"})
	idempotencytest.Run(t, func(t testing.TB, now func() time.Time) idempotencytest.Backend {
		dsn := server(t).DSN()
		return open(t, bouncer.Through(dsn), dsn, true, now)
	})
}

// TestLostCommit: the reply to the COMMIT is lost. The request fails, and its repeat is a replay.
func TestLostCommit(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN()
	b := open(t, dsn, dsn, true, nil)
	r := idempotency.Request{ID: idempotency.ID{1}, TTL: time.Hour}
	effect := func(ctx context.Context) idempotency.Result {
		must(t, b.Write(ctx, "k"))
		b.cutter.mu.Lock()
		defer b.cutter.mu.Unlock()
		b.cutter.loseCommit = true
		return idempotency.Result{Commit: true, Answer: &idempotency.Answer{Status: 201, Body: []byte("1")}}
	}
	if replay, err := b.store.Do(t.Context(), r, effect); err == nil || replay != nil {
		t.Fatalf("with a lost reply to COMMIT, Do returns %v, %v, want an error", replay, err)
	}
	replay, err := b.store.Do(t.Context(), r, effect)
	must(t, err)
	if replay == nil || replay.Status != 201 || string(replay.Body) != "1" {
		t.Errorf("the repeat returns %+v, want the stored answer", replay)
	}
	if n, err := b.Count("k"); n != 1 || err != nil {
		t.Errorf("%d effects (%v), want 1", n, err)
	}
}

// TestBrokenTransaction: a refusal is stored although a statement of the handler has failed, a
// success is not, and the handler cannot end the transaction.
func TestBrokenTransaction(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN()
	b := open(t, dsn, dsn, false, nil)
	for _, commit := range []bool{false, true} {
		r := idempotency.Request{ID: idempotency.ID{2}, TTL: time.Hour}
		if commit {
			r.ID[0]++
		}
		_, err := b.store.Do(t.Context(), r, func(ctx context.Context) idempotency.Result {
			tx := postgres.Tx(ctx)
			for _, end := range []func(context.Context) error{tx.Commit, tx.Rollback} {
				if err := end(ctx); !errors.Is(err, postgres.ErrTransaction) {
					t.Errorf("the handler ends the transaction: %v, want ErrTransaction", err)
				}
			}
			must(t, b.Write(ctx, "broken"))
			if _, err := tx.Exec(ctx, "SELECT 1/0"); err == nil {
				t.Error("the statement succeeded")
			}
			return idempotency.Result{Commit: commit, Answer: &idempotency.Answer{Status: 409}}
		})
		if (err != nil) != commit {
			t.Errorf("with Commit %t, Do returns %v", commit, err)
		}
		replay, err := b.store.Do(t.Context(), r, func(context.Context) idempotency.Result { return idempotency.Result{} })
		must(t, err)
		if (replay == nil) != commit {
			t.Errorf("with Commit %t, the repeat returns %v", commit, replay)
		}
	}
	if n, err := b.Count("broken"); n != 0 || err != nil {
		t.Errorf("%d effects (%v), want none", n, err)
	}
}

// TestOpen: Open and Migrate explain what is wrong. Concurrent calls of Migrate succeed.
func TestOpen(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), server(t).DSN())
	must(t, err)
	t.Cleanup(pool.Close)
	cfg := postgres.Config{DB: pool, Schema: "opened"}
	if _, err := postgres.Open(t.Context(), cfg); !errors.Is(err, postgres.ErrSchema) {
		t.Errorf("Open without tables: %v, want ErrSchema", err)
	}
	var over sync.WaitGroup
	for range 4 {
		over.Go(func() {
			if err := postgres.Migrate(t.Context(), cfg); err != nil {
				t.Error(err)
			}
		})
	}
	over.Wait()
	_, err = postgres.Open(t.Context(), cfg)
	must(t, err)
	_, err = pool.Exec(t.Context(), "UPDATE opened.version SET version = 2")
	must(t, err)
	if _, err := postgres.Open(t.Context(), cfg); !errors.Is(err, postgres.ErrSchema) {
		t.Errorf("Open with version 2: %v, want ErrSchema", err)
	}
	if _, err := postgres.Open(t.Context(), postgres.Config{Schema: `a"; DROP`}); err == nil {
		t.Error("Open accepts a schema that is not a name, and no DB")
	}
}

// TestIdleBound: the server ends a transaction that is idle for longer than the handler may run,
// for a connection that is lost without a sign.
func TestIdleBound(t *testing.T) {
	t.Parallel()
	dsn := server(t).DSN()
	b := open(t, dsn, dsn, false, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.store.Do(ctx, idempotency.Request{ID: idempotency.ID{5}}, func(ctx context.Context) idempotency.Result {
		var bound string
		must(t, postgres.Tx(ctx).QueryRow(ctx, "SELECT setting FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'").Scan(&bound))
		var ms int
		if _, err := fmt.Sscan(bound, &ms); err != nil || ms < 60_000 || ms > 70_000 {
			t.Errorf("the transaction may be idle for %s ms, want 60,000 to 70,000", bound)
		}
		return idempotency.Result{Commit: true}
	})
	must(t, err)
	var outside string
	must(t, b.pool.QueryRow(t.Context(), "SHOW idle_in_transaction_session_timeout").Scan(&outside))
	if outside != "0" {
		t.Errorf("after the request the session has the bound %s, want none", outside)
	}
}
