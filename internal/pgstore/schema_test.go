package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// commonServer is a server that is started when the first test needs a database on it.
var commonServer = sync.OnceValues(func() (*servers.PostgresServer, error) {
	started.Store(true)
	return servers.StartPostgres(context.Background(), servers.PostgresOptions{})
})

var started atomic.Bool

// database returns an empty database on a server that several tests share. No test is
// allowed to break that server. If the server's programs are not installed, the test is
// skipped, or it fails if they are required.
func database(t testing.TB) string {
	t.Helper()
	server, err := commonServer()
	if errors.Is(err, servers.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	must(t, err)
	dsn, err := server.NewDatabase(t.Context())
	must(t, err)
	return dsn
}

func TestMain(m *testing.M) {
	code := m.Run()
	if started.Load() {
		if server, err := commonServer(); err == nil {
			_ = server.Close() // its files are below the system's temporary folder
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

// TestStatementsAreValid: the code uses exactly the files in the folder statements, and the
// server accepts the statement in each file.
func TestStatementsAreValid(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	open(t, anyCrawl(dsn))
	files, err := filepath.Glob("statements/*.sql")
	must(t, err)
	if used := statementsOfCode(t); !slices.Equal(files, used) {
		t.Errorf("the folder has the statements\n%q\nbut the code uses\n%q", files, used)
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer conn.Close(t.Context())
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		if _, err := conn.Prepare(t.Context(), file, string(text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// statementsOfCode returns the files of the statements that the code uses, sorted.
func statementsOfCode(t *testing.T) []string {
	sources, err := filepath.Glob("*.go")
	must(t, err)
	var used []string
	for _, source := range sources {
		code, err := os.ReadFile(source)
		must(t, err)
		for _, found := range regexp.MustCompile(`\b[soh]\.sql\("(\w+)"\)`).FindAllStringSubmatch(string(code), -1) {
			used = append(used, "statements/"+found[1]+".sql")
		}
	}
	slices.Sort(used)
	return slices.Compact(used)
}

// TestPlansScanNoTable: a statement on a crawl's tables never scans a whole table,
// although it was planned when the table was empty.
func TestPlansScanNoTable(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"", "session", "transaction"} {
		t.Run("pool_mode="+mode, func(t *testing.T) { plansScanNoTable(t, mode) })
	}
}

// plansScanNoTable connects through a pgbouncer with the given mode, unless the mode is empty.
func plansScanNoTable(t *testing.T, mode string) {
	server := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"autovacuum": "off"}})
	dsn := server.DSN()
	if mode != "" {
		dsn = servers.PgBouncer(t, server, servers.PgBouncerOptions{Mode: mode}).Through(dsn)
	}
	cfg := anyCrawl(dsn)
	cfg.MaxConns = 1
	set := open(t, cfg)
	for from := 0; from < 6000; from += 500 {
		batch := keys(from, from+500)
		_, err := set.Decide(t.Context(), batch)
		must(t, err)
		must(t, set.Queued(t.Context(), refs(0, batch[:400]...)))
		must(t, set.Withdraw(t.Context(), refs(0, batch[490:]...)))
		row := record(batch[0], 0, "")
		row.Links = [][]byte{[]byte(`{"part":0}`), []byte(`{"part":1}`)}
		must(t, set.Finish(t.Context(), finishedOK(0, batch[:300]...), []exact.Row{row}))
		must(t, set.EachLinks(t.Context(), func(exact.Ref, []byte) error { return nil }))
		_, err = set.Stale(t.Context(), time.Hour, 10)
		must(t, err)
		_, err = set.Waiting(t.Context(), exact.Key{}.Fingerprint, 10)
		must(t, err)
		_, _, err = set.Sweep(t.Context(), 10)
		must(t, err)
		_, err = set.Lookup(t.Context(), batch[0].Fingerprint)
		must(t, err)
		_, err = set.Committed(t.Context(), pgstore.Cursor{}, 10)
		must(t, err)
	}
	set.Close()
	if mode == "" {
		awaitBackends(t, cfg.DSN, 0)
	} else {
		execute(t, server.DSN(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'")
	}
	cfg.DSN = server.DSN()
	const scans = "SELECT coalesce(sum(seq_scan), 0) FROM pg_stat_user_tables WHERE relname ~ '_[0-9]+$'"
	// Creating a table scans it once for each index.
	if n := query[int](t, cfg.DSN, scans); n > 8 {
		t.Errorf("tables were scanned %d times, want at most 8: once for each index", n)
	}
}

// TestManyOpenAtOnce: several workers can start at the same time on an empty database.
func TestManyOpenAtOnce(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	cfg.MaxConns = 1
	cfg.Windows[frontier.Exact] = 36 * time.Hour
	const workers = 20
	var group sync.WaitGroup
	won := make([]int, workers)
	for w := range workers {
		group.Go(func() {
			set, err := pgstore.Open(t.Context(), cfg)
			if err != nil {
				t.Error(err)
				return
			}
			defer set.Close()
			answers, err := set.Decide(t.Context(), keys(0, 10))
			if err != nil {
				t.Error(err)
			}
			for _, a := range answers {
				if a.New {
					won[w]++
				}
			}
		})
	}
	group.Wait()
	sum := 0
	for _, n := range won {
		sum += n
	}
	if sum != 10 {
		t.Errorf("10 keys were new to %d callers, want 10", sum)
	}
	if n := query[int](t, cfg.DSN, "SELECT count(*) FROM pg_tables WHERE schemaname = 'crawler' AND tablename ~ '_[0-9]+$'"); n != 5 {
		t.Errorf("one crawl has %d tables, want 5", n)
	}
}

// TestSchemaVersions: an error says that the database must be migrated, or that the
// program is older than the database. A second migration changes nothing.
func TestSchemaVersions(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	refused := cfg
	refused.NoMigrate = true
	if _, err := pgstore.Open(t.Context(), refused); !errors.Is(err, pgstore.ErrSchema) || !strings.Contains(err.Error(), "crawler migrate") {
		t.Errorf("Open without a schema, with NoMigrate: %v, want ErrSchema that names crawler migrate", err)
	}
	if _, err := pgstore.Inspect(t.Context(), cfg); !errors.Is(err, pgstore.ErrSchema) {
		t.Errorf("Inspect without a schema: %v, want ErrSchema", err)
	}
	for _, before := range []int64{0, 15} {
		from, to, err := pgstore.Migrate(t.Context(), pgstore.Config{DSN: cfg.DSN})
		if err != nil || from != before || to != 15 {
			t.Errorf("Migrate = from version %d to %d, %v; want from %d to 15", from, to, err, before)
		}
	}
	open(t, refused)
	execute(t, cfg.DSN, "INSERT INTO crawler.migration (version_id, is_applied) VALUES (99, true)")
	_, err := pgstore.Open(t.Context(), cfg)
	if !errors.Is(err, pgstore.ErrSchema) || !strings.Contains(err.Error(), "99") {
		t.Errorf("Open of a newer schema: %v, want ErrSchema with its version", err)
	}
	if _, _, err := pgstore.Migrate(t.Context(), cfg); !errors.Is(err, pgstore.ErrSchema) {
		t.Errorf("Migrate of a newer schema: %v, want ErrSchema", err)
	}
}

// TestOpenDuringMigration: a worker that finds an old version, because another worker migrates at
// this moment, waits for the end of the migration.
func TestOpenDuringMigration(t *testing.T) {
	t.Parallel()
	cfg := anyCrawl(database(t))
	open(t, cfg)
	cfg.NoMigrate = true
	migrating, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer migrating.Close(context.Background())
	_, err = migrating.Exec(t.Context(), "SELECT pg_advisory_lock(x'637261776c6572'::bigint)")
	must(t, err)
	execute(t, cfg.DSN, "DELETE FROM crawler.migration WHERE version_id = 15")
	ended := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		var err error
		for waiting := false; err == nil && !waiting; {
			err = migrating.QueryRow(ctx, `SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting)
		}
		if err == nil {
			_, err = migrating.Exec(ctx, "INSERT INTO crawler.migration (version_id, is_applied) VALUES (15, true)")
		}
		ended <- errors.Join(err, migrating.Close(context.Background()))
	}()
	s, err := pgstore.Open(t.Context(), cfg)
	must(t, errors.Join(err, <-ended))
	s.Close()
}

// TestOutcomesHaveLetters: the database and the program have the same letters and states
// for outcomes.
func TestOutcomesHaveLetters(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	set := open(t, anyCrawl(dsn))
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), "SELECT name, state FROM crawler.exact_outcome ORDER BY name")
	must(t, err)
	type entry struct{ Name, State string }
	told, err := pgx.CollectRows(rows, pgx.RowToStructByPos[entry])
	must(t, err)
	for n, e := range told {
		outcome := frontier.Outcome(e.Name)
		if string(outcome.State()) != e.State {
			t.Errorf("outcome %q has state %q in the database, %q in the program", e.Name, e.State, outcome.State())
		}
		_, err := set.Decide(t.Context(), keys(n, n+1))
		must(t, err)
		end := exact.Finished{Ref: refs(0, key(n))[0], Class: frontier.Exact, Outcome: outcome}
		must(t, set.Finish(t.Context(), []exact.Finished{end}, nil))
		const named = "SELECT o.name FROM crawler.exact_key_1 AS k JOIN crawler.exact_outcome AS o ON o.letter = k.outcome WHERE k.fingerprint = $1"
		if got := query[string](t, dsn, named, [16]byte(key(n).Fingerprint)); got != e.Name {
			t.Errorf("a key that was finished with outcome %q has outcome %q in the database", e.Name, got)
		}
	}
	if len(told) != len(frontier.Outcomes) {
		t.Errorf("the database knows %d outcomes, want %d", len(told), len(frontier.Outcomes))
	}
}

// TestOpenRefusesOtherFixedValues: Open returns ErrParamsMismatch if the Identity or the
// Windows of the crawl differ from those of the Config.
func TestOpenRefusesOtherFixedValues(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	cfg.Windows[frontier.Exact], cfg.Windows[5] = 24*time.Hour, 90*24*time.Hour+time.Millisecond
	open(t, cfg)
	open(t, cfg)
	foreign, shorter, longer := cfg, cfg, cfg
	foreign.Identity = "other1"
	shorter.Windows[frontier.Exact] = time.Hour
	longer.Windows[7] = time.Hour
	for _, c := range []struct {
		cfg  pgstore.Config
		says []string
	}{{foreign, []string{"x7Yz01", "other1"}}, {shorter, []string{"class 1", "24h0m0s", "1h0m0s"}}, {longer, []string{"class 7"}}} {
		_, err := pgstore.Open(t.Context(), c.cfg)
		if !errors.Is(err, frontier.ErrParamsMismatch) {
			t.Errorf("Open with other fixed values: %v, want ErrParamsMismatch", err)
			continue
		}
		for _, word := range c.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("Open with other fixed values: %v, want an error that says %q", err, word)
			}
		}
	}
	look, err := pgstore.Inspect(t.Context(), pgstore.Config{DSN: cfg.DSN, Crawl: cfg.Crawl})
	must(t, err)
	look.Close()
	if _, err := pgstore.Inspect(t.Context(), pgstore.Config{DSN: cfg.DSN, Crawl: "none"}); !errors.Is(err, pgstore.ErrNoCrawl) {
		t.Errorf("Inspect of a crawl that does not exist: %v, want ErrNoCrawl", err)
	}
	_, err = pgstore.Open(t.Context(), pgstore.Config{MaxConns: -1})
	for _, word := range []string{"DSN", "Crawl", "MaxConns"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("Open with a faulty config: %v, want an error that names %s", err, word)
		}
	}
}

// TestWorkersNeedNoDDL: a role that is only allowed to read and write rows and to call the
// functions of the schema can create, use and delete crawls.
func TestWorkersNeedNoDDL(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{})
	_, _, err := pgstore.Migrate(t.Context(), pgstore.Config{DSN: server.DSN()})
	must(t, err)
	execute(t, server.DSN(), `CREATE ROLE "a worker" LOGIN`, "CREATE ROLE stranger LOGIN",
		`GRANT USAGE ON SCHEMA crawler TO "a worker"`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA crawler TO "a worker"`,
		`GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA crawler TO "a worker"`)
	cfg := anyCrawl(strings.Replace(server.DSN(), "postgres@", "a%20worker@", 1))
	cfg.Windows[frontier.Exact] = time.Millisecond
	set := open(t, cfg)
	_, err = set.Decide(t.Context(), keys(0, 10))
	must(t, err)
	must(t, set.Withdraw(t.Context(), refs(0, keys(8, 10)...)))
	row := record(key(0), 0, "")
	row.Links = [][]byte{[]byte("{}")}
	must(t, set.Finish(t.Context(), finishedOK(0, keys(0, 4)...), []exact.Row{row}))
	for swept := 0; swept < 4; {
		n, _, err := set.Sweep(t.Context(), 10)
		must(t, err)
		swept += n
	}
	_, err = set.Stats(t.Context())
	must(t, err)
	conn, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer conn.Close(t.Context())
	for _, ddl := range []string{"DROP TABLE crawler.exact_key_1", "CREATE TABLE crawler.mine (n int)", "ALTER TABLE crawler.exact_key_1 SET (fillfactor = 50)"} {
		if _, err := conn.Exec(t.Context(), ddl); err == nil {
			t.Errorf("the worker's role is allowed to %s, want an error", ddl)
		}
	}
	stranger := strings.Replace(server.DSN(), "postgres@", "stranger@", 1)
	if _, err := pgstore.Open(t.Context(), anyCrawl(stranger)); err == nil || errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("Open with an unknown role: %v, want an error other than ErrUnavailable", err)
	}
	set.Close()
	must(t, pgstore.Delete(t.Context(), cfg))
}

// TestDeleteDoesNotBlockOthers: other crawls can be created, used and deleted while a deletion
// waits for a reader of its tables.
func TestDeleteDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg, doomed := anyCrawl(dsn), anyCrawl(dsn)
	cfg.StatementTimeout, doomed.LockTimeout = time.Minute, 100*time.Millisecond
	set, other := open(t, cfg), open(t, doomed)
	_, err := other.Decide(t.Context(), keys(0, 500))
	must(t, err)
	reader, err := pgx.Connect(t.Context(), cfg.DSN)
	must(t, err)
	defer reader.Close(t.Context())
	tx, err := reader.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM "+table(t, doomed, "exact_key"))
	must(t, err)

	deleted := make(chan error, 1)
	go func() {
		conn, err := pgx.Connect(t.Context(), cfg.DSN)
		if err == nil {
			_, err = conn.Exec(t.Context(), "SELECT crawler.drop_crawl($1)", doomed.Crawl) // waits for the reader
			err = errors.Join(err, conn.Close(t.Context()))
		}
		deleted <- err
	}()
	awaitBlocked(t, cfg.DSN, 1)
	if err := pgstore.Delete(t.Context(), doomed); !errors.Is(err, frontier.ErrUnavailable) {
		t.Errorf("a second Delete during the first one: %v, want ErrUnavailable", err)
	}
	// All of this happens while the deletion waits. If crawls shared a lock, these calls
	// would never return.
	for n := range 10 {
		_, err := set.Decide(t.Context(), keys(n*50, n*50+100))
		must(t, err)
		must(t, set.Finish(t.Context(), finishedOK(0, keys(n*50, n*50+50)...), nil))
		_, _, err = set.Sweep(t.Context(), 10)
		must(t, err)
		third := anyCrawl(cfg.DSN)
		open(t, third).Close()
		must(t, pgstore.Delete(t.Context(), third))
	}
	must(t, tx.Rollback(t.Context()))
	must(t, <-deleted)
	if _, err := other.Decide(t.Context(), keys(0, 1)); !errors.Is(err, pgstore.ErrNoCrawl) {
		t.Errorf("Decide by a worker of a deleted crawl: %v, want ErrNoCrawl", err)
	}
	if err := pgstore.Delete(t.Context(), doomed); !errors.Is(err, pgstore.ErrNoCrawl) {
		t.Errorf("Delete of a deleted crawl: %v, want ErrNoCrawl", err)
	}
	again := open(t, doomed) // the name can be used again, but the crawl gets a new number
	if answers, err := again.Decide(t.Context(), keys(0, 1)); err != nil || !answers[0].First {
		t.Errorf("Decide of the first key of a crawl that was created again = %+v, %v; want it new for the first time", answers, err)
	}
}

// TestDocumentedSQL: the statements in docs/reference/postgres.md run.
func TestDocumentedSQL(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	set := open(t, anyCrawl(dsn))
	_, err := set.Decide(t.Context(), keys(0, 3))
	must(t, err)
	must(t, set.Finish(t.Context(), finishedOK(0, keys(0, 1)...), []exact.Row{record(key(0), 0, "")}))
	text, err := os.ReadFile("../../docs/reference/postgres.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\n## SQL for operators\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := strings.Split(section, "```sql\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("the section has %d statements, want at least 5", len(blocks))
	}
	for _, block := range blocks {
		statement, _, _ := strings.Cut(block, "```")
		execute(t, dsn, strings.ReplaceAll(statement, "_12", "_1"))
	}
}

// TestRecordsAreKeptAsWritten: records are stored byte for byte, even if jsonb would
// refuse them.
func TestRecordsAreKeptAsWritten(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	set := open(t, anyCrawl(dsn))
	const n = 2500 // more than a page
	var rows []exact.Row
	for i := range n {
		rows = append(rows, record(key(i/2), uint32(i%2), fmt.Sprint(i)))
	}
	must(t, set.Finish(t.Context(), nil, rows))
	var got []exact.Row
	must(t, set.EachRecord(t.Context(), func(row exact.Row) error { got = append(got, row); return nil }))
	slices.SortFunc(rows, func(a, b exact.Row) int {
		if c := strings.Compare(string(a.Fingerprint[:]), string(b.Fingerprint[:])); c != 0 {
			return c
		}
		return int(a.Round) - int(b.Round)
	})
	if len(got) != n {
		t.Fatalf("%d records, want %d", len(got), n)
	}
	for i := range rows {
		if a, b := fmt.Sprintf("%+v", got[i]), fmt.Sprintf("%+v", rows[i]); a != b {
			t.Fatalf("record %d is %s, want %s", i, a, b)
		}
	}
	got = nil
	must(t, set.EachLatestRecord(t.Context(), func(row exact.Row) error { got = append(got, row); return nil }))
	rows = slices.DeleteFunc(rows, func(row exact.Row) bool { return row.Round == 0 })
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", rows); a != b {
		t.Errorf("the latest records are %.2000s, want %.2000s", a, b)
	}
	stop := errors.New("stop")
	if err := set.EachRecord(t.Context(), func(exact.Row) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("EachRecord returned %v, want the error of its function", err)
	}
}
