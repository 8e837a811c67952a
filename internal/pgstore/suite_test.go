package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/exact/exacttest"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

var (
	proof = flag.Bool("proof", false, "run the tests at full size")
	seed  = flag.Uint64("seed", 0, "repeat a run; 0: a new one")
)

// rng returns a generator of random numbers for a test and logs its seed.
func rng(t *testing.T) *rand.Rand {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("replay with -seed=%d", s)
	return rand.New(rand.NewPCG(s, 1))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var lastCrawl atomic.Int64

// anyCrawl returns the config of a new crawl.
func anyCrawl(dsn string) pgstore.Config {
	return pgstore.Config{DSN: dsn, Crawl: fmt.Sprintf("crawl-%d", lastCrawl.Add(1)), Identity: "x7Yz01", MaxConns: 4}
}

func open(t testing.TB, cfg pgstore.Config) *pgstore.Store {
	t.Helper()
	s, err := pgstore.Open(t.Context(), cfg)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// shared adapts a Store to the tests of package exacttest.
type shared struct {
	*pgstore.Store
	t   testing.TB
	cfg pgstore.Config
}

// Share implements exacttest.Sharer.
func (s shared) Share() (exact.Set, error) { return open(s.t, s.cfg), nil }

// Records implements exacttest.Set.
func (s shared) Records(ctx context.Context) (rows []exact.Row, err error) {
	err = s.EachRecord(ctx, func(row exact.Row) error {
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

func setsOn(dsn string) func(*testing.T, exacttest.Options) exacttest.Set {
	return func(t *testing.T, opt exacttest.Options) exacttest.Set {
		cfg := anyCrawl(dsn)
		cfg.Windows, cfg.Now = opt.Windows, opt.Now
		return shared{open(t, cfg), t, cfg}
	}
}

// TestSetPassesSuite runs the tests that every exact.Set must pass.
func TestSetPassesSuite(t *testing.T) {
	t.Parallel()
	exacttest.RunSet(t, setsOn(database(t)))
}

// TestRandomCallsMatchModel makes random calls and compares every answer with that of
// exacttest.Memory, the reference implementation.
func TestRandomCallsMatchModel(t *testing.T) {
	t.Parallel()
	runs, steps := 2, 400
	if *proof {
		runs, steps = 40, 3000
	}
	sets := setsOn(database(t))
	r := rng(t)
	for i := range runs {
		s := r.Uint64()
		if *seed != 0 && i == 0 {
			s = *seed
		}
		exacttest.ModelSet(t, sets, s, steps)
	}
}

// query runs a statement that returns one value, on a connection of its own.
func query[T any](t testing.TB, dsn, statement string, args ...any) (value T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer conn.Close(t.Context())
	must(t, conn.QueryRow(t.Context(), statement, args...).Scan(&value))
	return value
}

// execute runs statements on a connection of its own.
func execute(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer conn.Close(t.Context())
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

var hasher = bloomstore.NewHasher(bloomstore.Key{7})

// key returns the n-th key.
func key(n int) exact.Key {
	url := fmt.Sprintf("https://www.example%d.org/articles/2026/the-title-of-a-page-%d.html", n%1000, n)
	return exact.Key{Fingerprint: hasher.Fingerprint(url), URL: url, Class: frontier.Exact, Depth: uint16(n % 20), Priority: frontier.PriorityPage}
}

func keys(from, to int) []exact.Key {
	all := make([]exact.Key, 0, to-from)
	for n := from; n < to; n++ {
		all = append(all, key(n))
	}
	return all
}

func refs(round uint32, keys ...exact.Key) []exact.Ref {
	all := make([]exact.Ref, len(keys))
	for i := range keys {
		all[i] = exact.Ref{Fingerprint: keys[i].Fingerprint, Round: round}
	}
	return all
}

// finishedOK returns keys that were finished in a round, with the outcome OK.
func finishedOK(round uint32, keys ...exact.Key) []exact.Finished {
	all := make([]exact.Finished, len(keys))
	for i := range keys {
		all[i] = exact.Finished{Ref: refs(round, keys[i])[0], Class: keys[i].Class, Outcome: frontier.OK, Status: 200}
	}
	return all
}

// record returns a record of a key.
func record(key exact.Key, round uint32, mark string) exact.Row {
	return exact.Row{
		Ref: refs(round, key)[0], URL: key.URL, Fetched: time.Date(2026, 5, 6, 7, 8, 9, 10_000, time.UTC), Outcome: frontier.OK, Status: 200,
		Record: fmt.Appendf(nil, `{"url":%q,"title":"\u0000 \ud800","mark":%q}`, key.URL, mark),
	}
}
