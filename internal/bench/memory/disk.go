package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/bench/sets"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/sizing"
)

// OnDisk returns the subjects on disk. Both are the embedded store with queued URLs, in a
// folder below dir. In the first subject these are bulk URLs: the filter decides whether
// they are new. In the second they are exact URLs: a table decides.
func OnDisk(dir string) (all []Subject) {
	for i, name := range []string{"queue in localstore (disk)", "queue and exact keys in localstore (disk)"} {
		class := []frontier.Class{frontier.Bulk, frontier.Exact}[i]
		all = append(all, Subject{Name: name, Ours: true, Most: maxItems, Weigh: weighStore(dir, class), By: "files",
			Predict: func(n uint64) (uint64, uint64) { return sizing.LocalQueue(n, sets.URLBytes, class == frontier.Exact) }})
	}
	return all
}

// weighStore returns a weigh function that measures the tables of a closed store. The
// function does not count the filter's file, because the filter is in memory while a crawl
// runs.
func weighStore(dir string, class frontier.Class) weigh {
	return func(ctx context.Context, n uint64) (bytes float64, err error) {
		dir, err := os.MkdirTemp(dir, "store-")
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		links := urls(n, urlHosts)
		links.Class = class
		set, err := filled(ctx, sets.Local(dir), sets.Plan{Capacity: n}, links)
		if err != nil {
			return 0, err
		}
		if err := set.Close(); err != nil {
			return 0, err
		}
		err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || filepath.Base(filepath.Dir(name)) != "store" {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				bytes += float64(info.Size())
			}
			return err
		})
		return bytes, err
	}
}

// InPostgres returns the subjects in Postgres: the exact set of package pgstore, and a plain
// table of URLs. The schema of the exact set is created in the database at dsn.
func InPostgres(dsn string) []Subject {
	on := func(weigh func(context.Context, *pgx.Conn, uint64) (float64, error)) weigh {
		return func(ctx context.Context, n uint64) (bytes float64, err error) {
			conn, err := pgx.Connect(ctx, dsn)
			if err != nil {
				return 0, err
			}
			defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
			return weigh(ctx, conn, n)
		}
	}
	return []Subject{
		{Name: "exact keys in Postgres, waiting (disk)", Ours: true, Most: maxItems, Weigh: on(postgresFill{dsn, 1}.weigh),
			By:      "the same of all three tables",
			Predict: func(n uint64) (uint64, uint64) { return sizing.PostgresWaiting(n, sets.URLBytes) }},
		{Name: "exact keys in Postgres, finished (disk)", Ours: true, Most: maxItems, Weigh: on(postgresFill{dsn, turns}.weigh),
			By:      "pg_total_relation_size of exact_key",
			Predict: exactly(sizing.PostgresFinished)},
		{Name: "Postgres table of URLs (disk)", Most: maxItems, Weigh: on(weighTable), By: "pg_total_relation_size"},
	}
}

// turns is the number of turns in which an exact set is filled. After each turn, the keys
// of this turn are marked as finished and the tables are vacuumed. So at most a tenth of
// the keys are queued at any time.
const turns = 10

// postgresFill fills an exact set with keys in a number of turns. The keys of a turn are
// marked as finished before the next turn. If there is only one turn, all keys remain
// queued.
type postgresFill struct {
	dsn   string
	turns uint64
}

// weigh returns the bytes that n keys take in tables and indexes. If the keys remain
// queued, these bytes include the tables of waiting and of pending keys.
func (t postgresFill) weigh(ctx context.Context, conn *pgx.Conn, n uint64) (bytes float64, err error) {
	name := "bench-" + strconv.FormatUint(rand.Uint64(), 36)
	config := pgstore.Config{DSN: t.dsn, Crawl: name, Identity: name}
	set, err := pgstore.Open(ctx, config)
	if err != nil {
		return 0, err
	}
	defer func() {
		set.Close()
		err = errors.Join(err, pgstore.Delete(context.WithoutCancel(ctx), config))
	}()
	var id int
	if err := conn.QueryRow(ctx, "SELECT id FROM crawler.crawl WHERE name = $1", name).Scan(&id); err != nil {
		return 0, err
	}
	for turn := range t.turns {
		from, to := n*turn/t.turns, n*(turn+1)/t.turns
		prints, err := decide(ctx, set, from, to)
		if err != nil {
			return 0, err
		}
		if t.turns > 1 {
			if err := finish(ctx, set, prints); err != nil {
				return 0, err
			}
		}
		// In a real crawl, which takes hours, the server vacuums the tables by itself.
		if _, err := conn.Exec(ctx, fmt.Sprintf("VACUUM crawler.exact_key_%d, crawler.exact_waiting_%[1]d, crawler.exact_pending_%[1]d", id)); err != nil {
			return 0, err
		}
	}
	sizes := "pg_total_relation_size('crawler.exact_key_%d')"
	if t.turns == 1 {
		sizes += " + pg_total_relation_size('crawler.exact_waiting_%[1]d') + pg_total_relation_size('crawler.exact_pending_%[1]d')"
	}
	err = conn.QueryRow(ctx, "SELECT ("+fmt.Sprintf(sizes, id)+")::float8").Scan(&bytes)
	return bytes, err
}

// keyBatch is the number of keys in one call of the exact set.
const keyBatch = 500

// decide adds the keys with numbers in [first, end) to the set, marks these keys as
// queued, and returns them.
func decide(ctx context.Context, set exact.Set, first, end uint64) (all []exact.Ref, err error) {
	links := urls(0, urlHosts)
	links.Class = frontier.Exact
	for at := first; at < end; at += keyBatch {
		links.First, links.N = at, min(keyBatch, end-at)
		keys, queued := sets.KeysOf(links), len(all)
		for _, key := range keys {
			all = append(all, exact.Ref{Fingerprint: key.Fingerprint})
		}
		if _, err := set.Decide(ctx, keys); err != nil {
			return nil, err
		}
		if err := set.Queued(ctx, all[queued:]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// finish marks keys as finished in random order, as in a crawl.
func finish(ctx context.Context, set exact.Set, keys []exact.Ref) error {
	rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for part := range slices.Chunk(keys, keyBatch) {
		var ends []exact.Finished
		for _, key := range part {
			ends = append(ends, exact.Finished{Ref: key, Class: frontier.Exact, Outcome: frontier.OK, Status: 200})
		}
		if err := set.Finish(ctx, ends, nil); err != nil {
			return err
		}
	}
	return nil
}

// weighTable returns the size of a table whose primary key is the URL, including its
// index.
func weighTable(ctx context.Context, conn *pgx.Conn, n uint64) (bytes float64, err error) {
	table := fmt.Sprintf("crawler_bench_%d", rand.Uint64())
	if _, err := conn.Exec(ctx, "CREATE TABLE "+table+" (url text PRIMARY KEY)"); err != nil {
		return 0, err
	}
	defer func() {
		_, dropped := conn.Exec(context.WithoutCancel(ctx), "DROP TABLE "+table)
		err = errors.Join(err, dropped)
	}()
	links := urls(n, urlHosts)
	_, err = conn.CopyFrom(ctx, pgx.Identifier{table}, []string{"url"}, pgx.CopyFromSlice(links.Len(), func(i int) ([]any, error) {
		return []any{links.Offer(i).URL}, nil
	}))
	if err != nil {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT pg_total_relation_size($1::regclass)::float8", table).Scan(&bytes)
	return bytes, err
}
