package pgstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// awaitBlocked waits until the given number of backends wait for a lock.
func awaitBlocked(t *testing.T, dsn string, n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer conn.Close(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for blocked := 0; blocked < n; {
		must(t, conn.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&blocked))
	}
}

// awaitBackends waits until the stores have the given number of connections.
func awaitBackends(t *testing.T, dsn string, want int) {
	t.Helper()
	for got := -1; got != want; {
		got = query[int](t, dsn, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'crawler' AND datname = current_database()")
	}
}

// TestNoDeadlocks: 32 workers make all kinds of calls with the same keys. The server must not
// find a deadlock.
func TestNoDeadlocks(t *testing.T) {
	t.Parallel()
	const workers, all = 32, 300
	rounds := 12
	if *proof {
		rounds = 300
	}
	dsn := database(t)
	cfg := anyCrawl(dsn)
	cfg.MaxConns = workers
	cfg.Windows[frontier.Exact] = 20 * time.Millisecond
	set := open(t, cfg)
	pool, r := keys(0, all), rng(t)
	var group sync.WaitGroup
	for range workers {
		r := rand.New(rand.NewPCG(r.Uint64(), 2))
		group.Go(func() {
			for range rounds {
				if err := anyCall(t.Context(), set, r, pool); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	set.Close() // because a backend writes its counters when it ends
	awaitBackends(t, cfg.DSN, 0)
	if n := query[int](t, cfg.DSN, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
		t.Errorf("%d deadlocks, want none; the server's log:\n%s", n, deadlocks(t))
	}
}

// deadlocks returns the messages about deadlocks in the log of the shared server.
func deadlocks(t *testing.T) string {
	t.Helper()
	server, err := commonServer()
	must(t, err)
	log, err := server.Log()
	must(t, err)
	if at := strings.Index(log, "deadlock"); at >= 0 {
		return log[at:min(len(log), at+4000)]
	}
	return "nothing"
}

// anyCall calls Decide with some keys, then a random one of Withdraw, Stale, Sweep and Queued,
// and then Finish. Withdraw and Queued get all keys that Decide called new and some that it
// called known. Finish gets half of the keys that Withdraw and Queued get.
func anyCall(ctx context.Context, set exact.Set, r *rand.Rand, pool []exact.Key) error {
	asked := make([]exact.Key, 100)
	for i := range asked {
		asked[i] = pool[r.IntN(len(pool))]
	}
	answers, err := set.Decide(ctx, asked)
	if err != nil {
		return err
	}
	var own []exact.Ref
	var done []exact.Finished
	for i, a := range answers {
		ref := exact.Ref{Fingerprint: asked[i].Fingerprint, Round: a.Round}
		if a.New || r.IntN(3) == 0 { // a known key can belong to another caller; relays finish such keys too
			own = append(own, ref)
			done = append(done, exact.Finished{Ref: ref, Class: frontier.Exact, Outcome: frontier.OK})
		}
	}
	r.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	switch r.IntN(4) {
	case 0:
		err = set.Withdraw(ctx, own)
	case 1:
		_, err = set.Stale(ctx, 0, 50)
	case 2:
		_, _, err = set.Sweep(ctx, 50)
	default:
		err = set.Queued(ctx, own)
	}
	return errors.Join(err, set.Finish(ctx, done[:len(done)/2], nil))
}

// TestSweptWhileInserting: while a Decide waits for the lock of a key, other callers insert,
// finish and sweep the key. Decide must then give the key a round that the key has never
// had.
func TestSweptWhileInserting(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	set := open(t, cfg)
	other, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer other.Close(t.Context())
	tx, err := other.Begin(t.Context())
	must(t, err)
	run := func(sql string, args ...any) {
		t.Helper()
		_, err := tx.Exec(t.Context(), sql, args...)
		must(t, err)
	}
	leaf, slow := table(t, cfg, "exact_key"), key(1)
	run("INSERT INTO "+leaf+" (fingerprint, round, class) VALUES ($1, 0, '1')", [16]byte(slow.Fingerprint))
	var answers []exact.Answer
	decided := make(chan error, 1)
	go func() {
		var err error
		answers, err = set.Decide(t.Context(), []exact.Key{key(0), slow})
		decided <- err
	}()
	awaitBlocked(t, cfg.DSN, 1)
	run("DELETE FROM " + leaf)
	run("UPDATE crawler.crawl SET floor = 5")
	must(t, tx.Commit(t.Context()))
	must(t, <-decided)
	for i, a := range answers {
		if want := (exact.Answer{New: true, Round: 5}); a != want {
			t.Errorf("key %d is answered %+v, want %+v", i, a, want)
		}
	}
	waiting, err := set.Waiting(t.Context(), exact.Key{}.Fingerprint, 10)
	must(t, err)
	if len(waiting) != 2 || waiting[0].Round != 5 || waiting[1].Round != 5 {
		t.Errorf("Waiting = %+v, want both keys in round 5", waiting)
	}
	if again, err := set.Decide(t.Context(), keys(2, 3)); err != nil || again[0] != (exact.Answer{New: true, Round: 5}) {
		t.Errorf("the next key is answered %+v, %v, want round 5", again, err)
	}
}

// TestKnownKeysCostNoWrite: a Decide of known keys writes nothing.
func TestKnownKeysCostNoWrite(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"autovacuum": "off"}})
	cfg := anyCrawl(server.DSN())
	set := open(t, cfg)
	pending, queued, done := keys(0, 500), keys(500, 1000), keys(1000, 1500)
	for _, batch := range [][]exact.Key{pending, queued, done} {
		_, err := set.Decide(t.Context(), batch)
		must(t, err)
	}
	must(t, set.Queued(t.Context(), refs(0, queued...)))
	must(t, set.Finish(t.Context(), finishedOK(0, done...), nil))
	ask := func() {
		for _, batch := range [][]exact.Key{pending, queued, done} {
			_, err := set.Decide(t.Context(), batch)
			must(t, err)
		}
	}
	ask() // the first reader of a row might write to it, to mark its transaction as committed
	execute(t, cfg.DSN, "CHECKPOINT")
	written := func() float64 {
		return query[float64](t, cfg.DSN, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
	}
	least := 1e9 // the smallest of several measurements, because the server itself writes now and then
	for range 5 {
		before := written()
		ask()
		least = min(least, written()-before)
	}
	if least > 0 {
		t.Errorf("in each of 5 tries, 1500 decisions about known keys wrote at least %.0f bytes of WAL, want 0", least)
	}
}
