// Package adaptertest tests the adapters of package inbox, such as those for NATS and Kafka.
// Every adapter promises that an event has one effect or becomes a dead letter, regardless
// of how the event is delivered and of what its handler does.
//
// The suite depends on no broker. Handlers that end their process run in a child process,
// which executes the test binary of the adapter.
package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// An Adapter is an adapter under test.
type Adapter struct {
	// Serve handles the events that the broker at address delivers, until ctx ends. The
	// argument attempts is the number of attempts of an event. A handler must finish within
	// Timeout.
	Serve func(ctx context.Context, address string, box *inbox.Inbox, handle inbox.Handler, attempts int) error
	// Open opens a broker without events.
	Open func(t *testing.T) Broker
	// Limits reports whether the adapter limits the attempts of an event if its handler
	// returns errors. LimitsKills reports the same for a handler that ends its process.
	Limits, LimitsKills bool
}

// Timeout is the time that handlers have in the suite.
const Timeout = 3 * time.Second

// A Broker delivers events at least once.
type Broker interface {
	// Address returns the address for Adapter.Serve. Serve either connects to the broker at
	// this address, or listens there for the broker.
	Address() string
	// Send makes the broker deliver a CloudEvent. The argument copies is the number of
	// deliveries. Send does not wait for them. If parallel is true, no delivery waits for
	// another.
	Send(t *testing.T, document []byte, copies int, parallel bool)
	// Settled reports whether all documents that were sent are acknowledged or given up.
	Settled(t *testing.T) bool
}

// Run tests an adapter with the Postgres server at dsn.
func Run(t *testing.T, dsn string, a Adapter) {
	test := func(name, fault string, run func(w *world)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newWorld(t, dsn, a, fault))
		})
	}
	handled := func(copies int, parallel bool) func(w *world) {
		return func(w *world) { w.send(copies, parallel); w.serve(1000); w.wantCounts(1, 0) }
	}
	test("Once", "", handled(1, false))
	test("TenInARow", "", handled(10, false))
	test("TenInParallel", "", handled(10, true))
	test("AfterRestart", "", func(w *world) { w.send(1, false); w.serve(1000); handled(1, false)(w) })
	test("HandlerFails", "fails", handled(2, true))
	test("HandlerPanics", "panics", handled(2, true))
	test("HandlerHangs", "hangs", handled(2, true))
	test("HandlerKillsItsProcess", "kills", func(w *world) {
		w.send(2, true)
		if killed := w.serveChildren(1000); killed < faulty {
			w.Errorf("%d processes were killed, want at least %d", killed, faulty)
		}
		w.wantCounts(1, 0)
	})
	test("PermanentError", "permanent", func(w *world) { w.send(2, false); w.serve(1000); w.wantCounts(0, 1) })
	test("DatabaseAway", "", func(w *world) {
		w.exec("ALTER TABLE " + w.schema + ".seen RENAME TO away")
		w.send(1, false)
		w.serveDuring(2, func() {
			w.waitFor("failed deliveries", func() bool { return w.failed.Load() >= 3 })
			w.exec("ALTER TABLE " + w.schema + ".away RENAME TO seen")
		})
		w.wantCounts(1, 0)
	})
	if a.Limits {
		test("AttemptsUsedUp", "always fails", func(w *world) {
			w.send(1, false)
			w.serve(3)
			w.wantCounts(0, 1)
			if n := w.count("SELECT max(n) FROM attempt"); n != 3 {
				w.Errorf("the event had %d attempts, want 3", n)
			}
		})
	}
	if a.LimitsKills {
		test("KillsUsedUp", "always kills", func(w *world) {
			w.send(1, false)
			if killed := w.serveChildren(3); killed != 3 {
				w.Errorf("%d processes were killed, want 3", killed)
			}
			w.wantCounts(0, 1)
		})
	}
}

// faulty is how many attempts of a handler fail, panic or kill the process before an attempt
// succeeds.
const faulty = 2

// handler returns the handler of a test. It writes the effect and then fails as fault says,
// in the first attempts or always.
func handler(pool *pgxpool.Pool, fault string) inbox.Handler {
	return func(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
		attempt := 0
		err := pool.QueryRow(ctx, `INSERT INTO attempt (id, n) VALUES ($1, 1)
			ON CONFLICT (id) DO UPDATE SET n = attempt.n + 1 RETURNING n`, e.ID).Scan(&attempt)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO effect (id) VALUES ($1)", e.ID); err != nil {
			return err
		}
		switch {
		case fault == "permanent":
			return inbox.ErrPermanent
		case fault == "always fails", fault == "fails" && attempt <= faulty:
			return errors.New("the handler fails")
		case fault == "panics" && attempt <= faulty:
			panic("the handler panics")
		case fault == "hangs" && attempt == 1:
			<-ctx.Done()
			return ctx.Err()
		case fault == "always kills", fault == "kills" && attempt <= faulty:
			die()
		}
		return nil
	}
}

// world is the database and the broker of one test.
type world struct {
	*testing.T
	adapter     Adapter
	broker      Broker
	fault       string
	dsn, schema string
	pool        *pgxpool.Pool
	failed      atomic.Int64 // calls of the inbox that failed
}

var schemas atomic.Int32

func newWorld(t *testing.T, dsn string, a Adapter, fault string) *world {
	t.Helper()
	w := &world{T: t, adapter: a, fault: fault, schema: fmt.Sprint("test", schemas.Add(1))}
	w.dsn = dsn + "&pool_max_conns=12&search_path=" + w.schema
	pool, err := pgxpool.New(t.Context(), w.dsn)
	w.must(err)
	t.Cleanup(pool.Close)
	w.pool = pool
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	_, err = inbox.Migrate(t.Context(), db, w.schema+".")
	w.must(err)
	w.exec("CREATE TABLE effect (id text); CREATE TABLE attempt (id text PRIMARY KEY, n int)")
	w.broker = a.Open(t)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) exec(statement string) {
	w.Helper()
	_, err := w.pool.Exec(w.Context(), statement)
	w.must(err)
}

func (w *world) count(query string) (n int) {
	w.Helper()
	w.must(w.pool.QueryRow(w.Context(), query).Scan(&n))
	return n
}

func (w *world) send(copies int, parallel bool) {
	w.broker.Send(w.T, []byte(`{"specversion":"1.0","source":"urn:test","id":"k","type":"page.done","data":{}}`), copies, parallel)
}

// waitFor waits until condition returns true. The argument what describes the condition.
func (w *world) waitFor(what string, condition func() bool) {
	w.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("after two minutes there is no %s", what)
		}
	}
}

// serve handles events in this process until Broker.Settled returns true.
func (w *world) serve(attempts int) { w.Helper(); w.serveDuring(attempts, func() {}) }

// serveDuring handles events in this process and calls f meanwhile. It returns when f has
// returned and Broker.Settled returns true.
func (w *world) serveDuring(attempts int, f func()) {
	w.Helper()
	box := open(w.Context(), w.T, w.pool, w.schema, w)
	ctx, stop := context.WithCancel(w.Context())
	defer stop()
	var served sync.WaitGroup
	served.Go(func() {
		if err := w.adapter.Serve(ctx, w.broker.Address(), box, handler(w.pool, w.fault), attempts); err != nil {
			w.Errorf("Serve: %v", err)
		}
	})
	f()
	w.waitFor("settled broker", func() bool { return w.broker.Settled(w.T) })
	stop()
	served.Wait()
}

// wantCounts checks the numbers of effects and of dead letters.
func (w *world) wantCounts(effects, dead int) {
	w.Helper()
	if n := w.count("SELECT count(*) FROM effect"); n != effects {
		w.Errorf("%d effects, want %d", n, effects)
	}
	if n := w.count("SELECT count(*) FROM stored WHERE dead IS NOT NULL"); n != dead {
		w.Errorf("%d dead letters, want %d", n, dead)
	}
	if n := w.count("SELECT count(*) FROM seen WHERE id = 'urn:test k' AND expires > now() + interval '1 hour'"); n != 0 {
		w.Error("the event has the window of all events, want that of its kind")
	}
}

// Handled implements inbox.Metrics.
func (w *world) Handled(outcome inbox.Outcome, _ time.Duration) {
	if outcome == inbox.OutcomeFailed {
		w.failed.Add(1)
	}
}

// Swept implements inbox.Metrics.
func (w *world) Swept(int, time.Duration) {}

// CacheFailed implements inbox.Metrics.
func (w *world) CacheFailed(error) {}

// configOf gives events of the type page.done a window of one hour.
func configOf(pool *pgxpool.Pool, schema string) inbox.Config {
	return inbox.Config{DB: pool, Group: "test", Prefix: schema + ".", WindowOf: func(e inbox.Event) time.Duration {
		if e.Type == "page.done" && len(e.Data) > 0 {
			return time.Hour
		}
		return 0
	}}
}

func open(ctx context.Context, t *testing.T, pool *pgxpool.Pool, schema string, metrics inbox.Metrics) *inbox.Inbox {
	t.Helper()
	cfg := configOf(pool, schema)
	cfg.Metrics = metrics
	box, err := inbox.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// Open returns a new inbox in the database at dsn, for further tests of an adapter.
func Open(t *testing.T, dsn string) *inbox.Inbox {
	t.Helper()
	w := newWorld(t, dsn, Adapter{Open: func(*testing.T) Broker { return nil }}, "")
	return open(t.Context(), t, w.pool, w.schema, nil)
}
