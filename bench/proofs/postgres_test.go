package proofs

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// exactCrawl is a crawl that workers share. Its exact keys are in Postgres.
type exactCrawl struct {
	*team
	queue    *servers.RedisServer
	database *servers.PostgresServer
	queueDir string // the folder of Redis's files
}

// newExactCrawl returns an exactCrawl with its own servers. Postgres syncs its commits.
func newExactCrawl(t *testing.T, rng *rand.Rand, flags ...string) *exactCrawl {
	t.Helper()
	r := &exactCrawl{queueDir: t.TempDir(), database: servers.Postgres(t, servers.PostgresOptions{FSync: true})}
	r.queue = servers.Redis(t, servers.RedisOptions{AppendOnly: true, Dir: r.queueDir})
	r.team = newTeam(t, r.queue.URL(), rng, flags...)
	r.name = append(r.name, "--postgres", r.database.DSN())
	return r
}

// hardExactCrawl returns an exactCrawl of web. All URLs are exact: Postgres decides whether
// they are new.
func hardExactCrawl(t *testing.T, web *site, rng *rand.Rand, sink string, more ...string) *exactCrawl {
	t.Helper()
	exact := []string{"--partitions", strconv.Itoa(sized(32, 256)), "--exact", "all", "--sink", sink}
	return newExactCrawl(t, rng, sharedFlags(web, append(exact, more...)...)...)
}

// strike makes the next run of the crawl call the function blow n times. Before each call
// it waits for a random number of requests, from 1 to maxRequests. There are fewer calls
// if the crawl finishes first. blows counts the calls.
func (r *exactCrawl) strike(web *site, n, maxRequests int, blow func() error) (blows *atomic.Int32) {
	blows = new(atomic.Int32)
	crawling, over := context.WithCancel(r.t.Context())
	r.whenOver = over
	r.trouble = func() error {
		for range n {
			if await(crawling, reached(web, 1+r.rng.IntN(maxRequests))) != nil {
				return nil
			}
			if err := blow(); err != nil {
				return err
			}
			blows.Add(1)
		}
		return nil
	}
	r.t.Cleanup(over)
	return blows
}

// eachSink runs a proof twice: with the records in files, and with the records in
// Postgres.
func eachSink(t *testing.T, prove func(t *testing.T, sink string)) {
	t.Parallel()
	for _, sink := range []string{"jsonl", "postgres"} {
		t.Run("sink="+sink, func(t *testing.T) {
			t.Parallel()
			prove(t, sink)
		})
	}
}

// reconciled is the output of `crawler reconcile --json`.
type reconciled struct{ Offered, Added, Refused uint64 }

func (r *exactCrawl) reconcile() (done reconciled) {
	r.t.Helper()
	e := r.ask("reconcile", "--json")
	if err := json.Unmarshal([]byte(e.stdout), &done); e.code != 0 || err != nil {
		r.t.Fatalf("crawler reconcile: exit code %d, %v\n%s%s", e.code, err, e.stdout, e.stderr)
	}
	return done
}

// exactKeys are the numbers of keys of a crawl in Postgres, by state.
type exactKeys struct{ Pending, Queued, Done, Failed uint64 }

func (r *exactCrawl) keys() exactKeys {
	r.t.Helper()
	e := r.ask("status", "--json")
	var status struct{ Exact *exactKeys }
	if err := json.Unmarshal([]byte(e.stdout), &status); e.code != 0 || err != nil || status.Exact == nil {
		r.t.Fatalf("crawler status: exit code %d, %v\n%s%s", e.code, err, e.stdout, e.stderr)
	}
	return *status.Exact
}

// hasten makes small runs shorter until the function stop is called. A new key is pending in
// Postgres until its worker has reported that the key is queued in Redis. If a key is pending
// for a minute, the relay of any worker queues the key. With hasten this takes only ten
// seconds, because hasten makes keys that are older than ten seconds look a minute older. It
// does not change newer keys, because their workers can still queue them.
func (r *exactCrawl) hasten() (stop func()) {
	if *proof {
		return func() {}
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_ = r.agePending(ctx) // Postgres can be down, or can lack the table
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// agePending adds a minute to the age of the pending keys that are between ten seconds
// and a minute old.
func (r *exactCrawl) agePending(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.database.DSN())
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, `UPDATE crawler.exact_pending_1 SET since = since - interval '1 minute'
		WHERE since BETWEEN now() - interval '1 minute' AND now() - interval '10 seconds'`)
	return errors.Join(err, conn.Close(ctx))
}

// work runs n workers until the crawl has finished.
func (r *exactCrawl) work(n int) {
	r.t.Helper()
	defer r.hasten()()
	timed(r.t, func() { r.run(n) })
	figure(r.t, "workers", "%d, of whom %d died: %s", r.started, r.dead(), formatCounts(r.deaths))
}

// judgeExact checks a finished crawl whose keys are all exact. Its records must be exactly
// the expected ones, and the counters in Redis and in Postgres must agree with the records.
// Each key must have one record, and `crawler reconcile` must have nothing to do.
func (r *exactCrawl) judgeExact(web *site) {
	r.t.Helper()
	if left := r.reconcile(); left != (reconciled{}) {
		r.t.Errorf("after the end of the crawl, reconcile finds %+v, want nothing", left)
	}
	audit := r.judge(web)
	if audit.code != 0 || audit.noted || len(audit.faults) > 0 {
		r.t.Errorf("the audit has exit code %d and faults in %q, want 0, no faults and no notes:\n%s", audit.code, audit.faults, audit.text)
	}
	keys, written := r.keys(), uint64(len(parse(r.t, r.export())))
	figure(r.t, "keys", "%+v", keys)
	if keys.Pending+keys.Queued != 0 || keys.Done+keys.Failed != written {
		r.t.Errorf("Postgres has the keys %+v, want 0 pending and queued, and done + failed = %d, the number of records", keys, written)
	}
}

// exactPoints returns kills of an exactCrawl's workers at crash points, in random
// order. At full size, the points include those in docs/design/exact-urls.md. At the small
// size, there are only two kills.
func exactPoints(rng *rand.Rand) []kill {
	points := []string{"decided", "offered", "marked", "recorded", "finished", "completed"}
	var kills []kill
	for range sized(1, 4) {
		for _, point := range points {
			kills = append(kills, kill{point: point, times: 1 + rng.IntN(sized(15, 100))})
		}
	}
	rng.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	return kills[:sized(2, len(kills))]
}

// TestPostgresWorkersKilled kills workers at any moment, and at crash points between a step
// in Postgres and a step in Redis. Every exact key must have one record.
func TestPostgresWorkersKilled(t *testing.T) {
	eachSink(t, func(t *testing.T, sink string) {
		seed := newSeed(t)
		web := hardWeb(t, seed)
		r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 20)), sink)
		r.points = exactPoints(r.rng)
		r.killEvery, r.mostKills = 2*time.Second, sized(1, 20)
		r.work(sized(2, 4))
		r.judgeExact(web)
	})
}

// TestPostgresKilled kills Postgres at random moments and restarts it after a while.
// Meanwhile the crawl goes on, or pauses if its records are in Postgres. Every exact
// key must have one record.
func TestPostgresKilled(t *testing.T) {
	eachSink(t, func(t *testing.T, sink string) {
		seed := newSeed(t)
		web := hardWeb(t, seed)
		r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 21)), sink)
		times := sized(2, 20)
		// The first blow comes while most URLs are unknown. Without Postgres the workers
		// cannot queue new URLs, so the crawl cannot end before the second blow.
		blows := r.strike(web, times, sized(60, 700), func() error {
			if err := r.database.Kill(); err != nil {
				return err
			}
			time.Sleep(time.Duration(r.rng.Int64N(int64(sized(time.Second, 2*time.Second)))))
			return r.database.Restart()
		})
		r.work(sized(2, 3))
		r.judgeExact(web)
		judgeBlows(t, blows, times)
	})
}

// TestPostgresPooled crawls through a pgbouncer, in each of two modes. It kills workers at crash points between a step
// in Postgres and a step in Redis, and pgbouncer at random moments. Every exact key must have one record.
func TestPostgresPooled(t *testing.T) {
	t.Parallel()
	for i, mode := range []string{"session", "transaction"} {
		t.Run("pool_mode="+mode, func(t *testing.T) {
			t.Parallel()
			seed := newSeed(t)
			web := hardWeb(t, seed)
			r := hardExactCrawl(t, web, rand.New(rand.NewPCG(seed, 22+uint64(i))), "postgres")
			pooler := servers.PgBouncer(t, r.database, servers.PgBouncerOptions{Mode: mode, Config: "default_pool_size = 60"})
			r.name[slices.Index(r.name, r.database.DSN())] = pooler.Through(r.database.DSN())
			r.points = exactPoints(r.rng)
			times := sized(2, 20)
			blows := r.strike(web, times, sized(60, 700), func() error {
				return errors.Join(pooler.Kill(), pooler.Restart())
			})
			r.work(sized(2, 3))
			r.judgeExact(web)
			judgeBlows(t, blows, times)
		})
	}
}

// judgeBlows checks that the number of blows is at least want.
func judgeBlows(t *testing.T, blows *atomic.Int32, want int) {
	t.Helper()
	figure(t, "blows", "%d", blows.Load())
	if n := int(blows.Load()); n < want {
		t.Errorf("the crawl ended after %d blows, want at least %d", n, want)
	}
}
