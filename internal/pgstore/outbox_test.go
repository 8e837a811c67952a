package pgstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of goose
	"github.com/pressly/goose/v3"

	"github.com/bloomfrontier/crawler/events"
	"github.com/bloomfrontier/crawler/events/eventstest"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// awaitReadable waits until all records of a crawl can be read. Before that, all older
// transactions on the server must end, including those of other tests.
func awaitReadable(t *testing.T, cfg pgstore.Config) {
	t.Helper()
	statement := fmt.Sprintf("SELECT count(*) FROM %s WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())", table(t, cfg, "record"))
	for query[int](t, cfg.DSN, statement) > 0 {
	}
}

// nextPage reads some records after a cursor, as a relay does.
type nextPage func(ctx context.Context) ([]exact.Ref, error)

// ours reads the outbox with Committed, as the relay of a crawl does.
func ours(set *pgstore.Store) nextPage {
	var at pgstore.Cursor
	return func(ctx context.Context) (read []exact.Ref, err error) {
		page, err := set.Committed(ctx, at, 7)
		for _, c := range page {
			if c.Cursor.XID < at.XID || c.Cursor.XID == at.XID && c.Cursor.Sequence <= at.Sequence {
				return nil, fmt.Errorf("the record at %v came after the one at %v, want increasing cursors", c.Cursor, at)
			}
			read, at = append(read, c.Ref), c.Cursor
		}
		return read, err
	}
}

// bySerial is a naive relay: it assumes that a serial column has the order of
// the commits.
func bySerial(t *testing.T, cfg pgstore.Config) nextPage {
	execute(t, cfg.DSN, fmt.Sprintf("ALTER TABLE %s ADD COLUMN IF NOT EXISTS serial bigserial", table(t, cfg, "record")))
	statement := fmt.Sprintf("SELECT fingerprint, round, serial FROM %s WHERE serial > $1 ORDER BY serial LIMIT 7", table(t, cfg, "record"))
	return byStatement(t, cfg, statement)
}

// byXID is a naive relay that compares transaction ids, but ignores which transactions
// still run.
func byXID(t *testing.T, cfg pgstore.Config) nextPage {
	const statement = "SELECT fingerprint, round, xid::text::bigint * 1000 + sequence AS at FROM %s WHERE xid::text::bigint * 1000 + sequence > $1 ORDER BY at LIMIT 7"
	return byStatement(t, cfg, fmt.Sprintf(statement, table(t, cfg, "record")))
}

func byStatement(t *testing.T, cfg pgstore.Config, statement string) nextPage {
	var at int64
	return func(ctx context.Context) (read []exact.Ref, err error) {
		conn, err := pgx.Connect(ctx, cfg.DSN)
		if err != nil {
			return nil, err
		}
		defer conn.Close(ctx)
		rows, err := conn.Query(ctx, statement, at)
		if err != nil {
			return nil, err
		}
		var print [16]byte
		var round uint32
		_, err = pgx.ForEachRow(rows, []any{&print, &round, &at}, func() error {
			read = append(read, exact.Ref{Fingerprint: print, Round: round})
			return nil
		})
		return read, err
	}
}

// TestLateCommit: the records of a transaction that commits after newer transactions are
// still read. A relay that uses a serial column, or that ignores which transactions
// still run, loses them.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	for name, relay := range map[string]func(*testing.T, pgstore.Config, *pgstore.Store) nextPage{
		"ours":   func(_ *testing.T, _ pgstore.Config, set *pgstore.Store) nextPage { return ours(set) },
		"serial": func(t *testing.T, cfg pgstore.Config, _ *pgstore.Store) nextPage { return bySerial(t, cfg) },
		"xid":    func(t *testing.T, cfg pgstore.Config, _ *pgstore.Store) nextPage { return byXID(t, cfg) },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := anyCrawl(dsn)
			set := open(t, cfg)
			next := relay(t, cfg, set)
			conn, err := pgx.Connect(t.Context(), dsn)
			must(t, err)
			defer conn.Close(t.Context())
			tx, err := conn.Begin(t.Context())
			must(t, err)
			_, err = tx.Exec(t.Context(), fmt.Sprintf(`INSERT INTO %s (fingerprint, round, fetched, outcome, url, record, sequence)
				VALUES ($1, 0, now(), 'ok', 'http://late.example/', '{}', 1)`, table(t, cfg, "record")), [16]byte(key(0).Fingerprint))
			must(t, err)
			must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, ""), record(key(2), 0, "")}))
			read, err := next(t.Context())
			must(t, err)
			must(t, tx.Commit(t.Context()))
			awaitReadable(t, cfg)
			more, err := next(t.Context())
			must(t, err)
			read = append(read, more...)
			want := refs(0, keys(0, 3)...)
			if naive := name != "ours"; naive && len(read) == len(want) {
				t.Error("the naive relay lost nothing, so the test cannot find its fault")
			} else if !naive && fmt.Sprint(read) != fmt.Sprint(want) {
				t.Errorf("the relay read %x, want %x", read, want)
			}
		})
	}
}

// TestOutboxComplete: several writers store records while the server is killed now and then.
// Some transactions commit late, and some records are stored by several writers. A relay must
// read each record once, and the records of one writer in the order in which they were written.
func TestOutboxComplete(t *testing.T) {
	t.Parallel()
	writers, each, kills := 6, 60, 2
	if *proof {
		writers, each, kills = 16, 2000, 60
	}
	server := servers.Postgres(t, servers.PostgresOptions{})
	cfg := anyCrawl(server.DSN())
	cfg.MaxConns = writers + 4
	set := open(t, cfg)
	// Some transactions sleep just before they commit.
	execute(t, cfg.DSN, `CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN IF random() < 0.2 THEN PERFORM pg_sleep(random() * 0.01); END IF; RETURN NULL; END $$`,
		fmt.Sprintf(`CREATE CONSTRAINT TRIGGER late AFTER INSERT ON %s DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION late()`, table(t, cfg, "record")))
	r := rng(t)
	ctx, cancel := context.WithTimeout(t.Context(), 9*time.Minute)
	defer cancel()

	const raced = 100 // records that several writers try to write
	number := make(map[exact.Ref]int)
	for n, key := range keys(0, writers*each+raced) {
		number[refs(0, key)[0]] = n
	}
	var mu sync.Mutex
	want := make(map[int]bool)
	var writing sync.WaitGroup
	for w := range writers {
		random := rand.New(rand.NewPCG(r.Uint64(), uint64(w)))
		writing.Go(func() {
			for n := 0; n < each; {
				var rows []exact.Row
				for range min(1+random.IntN(5), each-n) {
					rows = append(rows, record(key(w*each+n), 0, ""))
					n++
				}
				if random.IntN(3) == 0 {
					rows = append(rows, record(key(writers*each+random.IntN(raced)), 0, fmt.Sprint(w)))
				}
				for set.Finish(ctx, nil, rows) != nil && ctx.Err() == nil { // the server is down
				}
				mu.Lock()
				for _, row := range rows {
					want[number[row.Ref]] = true
				}
				mu.Unlock()
			}
		})
	}
	written := make(chan error, 1)
	go func() {
		var faults []error
		for range kills {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(50+r.IntN(300)) * time.Millisecond):
			}
			faults = append(faults, server.Kill(), server.Restart())
		}
		writing.Wait()
		written <- errors.Join(faults...)
	}()

	read := make(map[int]int)
	last := make(map[int]int) // the number of the last record of each writer
	next, over := ours(set), false
	for {
		page, err := next(ctx)
		for _, ref := range page {
			n := number[ref]
			read[n]++
			if before, any := last[n/each]; any && n <= before && n < writers*each {
				t.Errorf("record %d of writer %d came after record %d of this writer", n, n/each, before)
			}
			last[n/each] = n
		}
		if err == nil && len(page) == 0 && over || ctx.Err() != nil {
			break
		}
		if len(page) == 0 && !over {
			select {
			case err := <-written:
				must(t, err)
				over = true
			case <-set.Changed():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	for n, times := range read {
		if times != 1 {
			t.Errorf("record %d was read %d times, want once", n, times)
		}
	}
	if len(read) != len(want) {
		t.Errorf("%d records were read, want %d", len(read), len(want))
	}
	t.Logf("%d records, %d kills", len(read), kills)
}

// TestCommitsDoNotWaitForNotifications: records are committed while a notification is blocked. If
// the transactions of Finish sent notifications themselves, all of them would be blocked, because
// notifications serialise commits.
func TestCommitsDoNotWaitForNotifications(t *testing.T) {
	t.Parallel()
	server := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"synchronous_standby_names": "none"}})
	cfg := anyCrawl(server.DSN() + "&synchronous_commit=local")
	set := open(t, cfg)
	execute(t, cfg.DSN, "CREATE TABLE naive (n int)")
	notifying := func(dsn string, most time.Duration) error { // the naive transaction
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		_, err = conn.Exec(ctx, "INSERT INTO naive VALUES (1); SELECT pg_notify('naive', '')")
		return err
	}
	held := make(chan error, 1)
	go func() { held <- notifying(server.DSN(), time.Minute) }() // the transaction waits for a standby that does not exist
	for query[int](t, cfg.DSN, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == 0 {
	}
	if err := notifying(cfg.DSN, 2*time.Second); err == nil {
		t.Error("the naive transaction was not blocked, so the test cannot find its fault")
	}
	began := time.Now()
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, "")}))
	t.Logf("Finish took %v while a notification was blocked", time.Since(began))
	execute(t, cfg.DSN, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	<-held
}

// TestReadingDeletesNothing: a relay that dies between reading and delivering reads the
// records again. A naive relay that deletes records when it reads them loses them.
func TestReadingDeletesNothing(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	set := open(t, cfg)
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, ""), record(key(2), 0, "")}))
	awaitReadable(t, cfg)
	dies := errors.New("dies")
	deliver := func(read int, err error) error {
		must(t, err)
		if read != 2 {
			t.Errorf("%d records were read, want 2", read)
		}
		return dies
	}
	for range 2 {
		page, err := set.Committed(t.Context(), pgstore.Cursor{}, 10)
		if err := deliver(len(page), err); !errors.Is(err, dies) {
			t.Fatal(err)
		}
	}
	naive := fmt.Sprintf("WITH read AS (DELETE FROM %s RETURNING fingerprint) SELECT count(*) FROM read", table(t, cfg, "record"))
	_ = deliver(query[int](t, dsn, naive), nil)
	if page, err := set.Committed(t.Context(), pgstore.Cursor{}, 10); err != nil || len(page) > 0 {
		t.Errorf("after the naive relay died there are %d records (%v), want 0, or the test cannot find its fault", len(page), err)
	}
}

// TestRelayIsNotifiedOfRecords: a relay is notified of records, also after its
// connection was broken.
func TestRelayIsNotifiedOfRecords(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	set, relay := open(t, cfg), open(t, cfg)
	changed := relay.Changed()
	await := func(what string) {
		t.Helper()
		select {
		case <-changed:
		case <-time.After(30 * time.Second):
			t.Fatalf("no notification of %s within 30 s", what)
		}
	}
	await("the beginning")
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, "")}))
	await("a record")
	const listening = "FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = current_database()"
	execute(t, dsn, "SELECT pg_terminate_backend(pid) "+listening)
	await("a new connection, before which there may have been records")
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(2), 0, "")}))
	await("another record")
	relay.Close()
	for query[int](t, dsn, "SELECT count(*) "+listening) > 0 {
	}
}

// TestSinceSkipsOlderRecords: a relay that begins at a given time gets the records that
// were fetched since then. It also gets the records of the oldest transaction that still runs,
// and of newer transactions.
func TestSinceSkipsOlderRecords(t *testing.T) {
	t.Parallel()
	// The test has its own server, because transactions of other tests would be older
	// than its records.
	dsn := servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"autovacuum": "off"}}).DSN()
	cfg := anyCrawl(dsn)
	set := open(t, cfg)
	at := func(n int) time.Time { return time.Date(2026, 1, 1, n, 0, 0, 0, time.UTC) }
	for n := range 6 {
		row := record(key(n), 0, "")
		row.Fetched = at(n)
		must(t, set.Finish(t.Context(), nil, []exact.Row{row}))
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	defer conn.Close(t.Context())
	tx, err := conn.Begin(t.Context())
	must(t, err)
	_, err = tx.Exec(t.Context(), fmt.Sprintf(`INSERT INTO %s (fingerprint, round, fetched, outcome, url, record, sequence)
		VALUES ($1, 0, $2, 'ok', 'http://late.example/', '{}', 1)`, table(t, cfg, "record")), [16]byte(key(6).Fingerprint), at(6))
	must(t, err)
	row := record(key(7), 0, "")
	row.Fetched = at(7)
	must(t, set.Finish(t.Context(), nil, []exact.Row{row}))
	cursors := make(map[int]pgstore.Cursor)
	for _, from := range []int{0, 3, 6, 9} {
		cursors[from], err = set.Since(t.Context(), at(from))
		must(t, err)
	}
	cursors[10], err = set.Since(t.Context(), time.Time{})
	must(t, err)
	must(t, tx.Commit(t.Context()))
	awaitReadable(t, cfg)
	for from, want := range map[int]int{0: 8, 3: 5, 6: 2, 9: 2, 10: 2} { // records of the running transaction and of newer ones count as new
		page, err := set.Committed(t.Context(), cursors[from], 100)
		must(t, err)
		if len(page) != want {
			t.Errorf("Committed after the cursor of hour %d returned %d records, want %d", from, len(page), want)
		}
		behind, err := set.Behind(t.Context(), cursors[from])
		must(t, err)
		if behind.Events != uint64(want) || behind.Bytes == 0 || from == 3 && !behind.Oldest.Equal(at(3)) {
			t.Errorf("Behind the cursor of hour %d = %+v, want %d events", from, behind, want)
		}
	}
	end := pgstore.Cursor{XID: 1 << 40}
	if behind, err := set.Behind(t.Context(), end); err != nil || behind != (events.Lag{}) {
		t.Errorf("Behind the last cursor = %+v, %v; want no lag", behind, err)
	}
}

// TestCursorOfNowIsReadable: while no transaction runs on the server, the cursor that Since
// returns for the zero time has the XID of a transaction that has not begun. A relay can read
// the records after this cursor, but Committed refuses later cursors.
func TestCursorOfNowIsReadable(t *testing.T) {
	t.Parallel()
	// The test has its own server, because other tests run transactions on the shared one.
	set := open(t, anyCrawl(servers.Postgres(t, servers.PostgresOptions{Config: map[string]string{"autovacuum": "off"}}).DSN()))
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, "")}))
	since := func() pgstore.Cursor {
		now, err := set.Since(t.Context(), time.Time{})
		must(t, err)
		return now
	}
	now := since()
	for { // repeat if another transaction, such as a notification, ran between the calls of since
		var errs []error
		for _, foreign := range []pgstore.Cursor{{XID: now.XID, Sequence: 1}, {XID: now.XID + 1}} {
			_, err := set.Committed(t.Context(), foreign, 10)
			errs = append(errs, err)
		}
		before := now
		if now = since(); now != before {
			continue
		}
		for _, err := range errs {
			if !errors.Is(err, pgstore.ErrForeign) {
				t.Errorf("Committed after a cursor beyond the next transaction, %d: %v, want ErrForeign", now.XID, err)
			}
		}
		break
	}
	if page, err := set.Committed(t.Context(), now, 10); len(page) != 0 || err != nil {
		t.Errorf("Committed after the cursor of now, %v: %d records, %v; want none", now, len(page), err)
	}
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(2), 0, "")}))
	page, err := set.Committed(t.Context(), now, 10)
	must(t, err)
	if len(page) != 1 || page[0].Ref != (refs(0, key(2))[0]) {
		t.Errorf("Committed after the cursor of now = %v, want the record that was committed since", page)
	}
}

// TestRelayState: relays have separate cursors and dead letters, which are
// deleted with their crawl.
func TestRelayState(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	set, again := pgstore.Outbox{Store: open(t, cfg)}, pgstore.Outbox{Store: open(t, cfg)}
	ctx := t.Context()
	if _, known, err := set.Load(ctx, "a"); known || err != nil {
		t.Errorf("Load of a new relay: known %v, error %v; want false", known, err)
	}
	letters := []events.DeadLetter{
		{Event: events.Event{ID: "2", Data: []byte(`{"n":"\u0000"}`)}, Reason: "first\x00\xff", At: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		{Event: events.Event{ID: "1", Data: []byte(`{}`)}, Reason: "second", At: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
	}
	must(t, eventstest.Save(ctx, set, "b", "1/1", nil))
	must(t, eventstest.Save(ctx, set, "a", "5/1", append(letters, letters[0])))
	must(t, eventstest.Save(ctx, set, "a", "6/2", []events.DeadLetter{{Event: letters[1].Event, Reason: "repeated", At: time.Now()}}))
	if names, err := again.Names(ctx); err != nil || fmt.Sprint(names) != "[a b]" {
		t.Errorf("Names = %v, %v; want a and b", names, err)
	}
	if relay, known, err := again.Load(ctx, "a"); relay.Cursor != "6/2" || relay.Dead != 2 || time.Since(relay.At).Abs() > time.Hour || !known || err != nil {
		t.Errorf("Load = %+v, %v, %v; want cursor 6/2, 2 dead letters and the current time", relay, known, err)
	}
	letters[0].Reason = "first\ufffd"
	if got, err := again.Dead(ctx, "a"); err != nil || fmt.Sprint(got) != fmt.Sprint(letters) {
		t.Errorf("Dead = %v, %v; want %v", got, err, letters)
	}
	if got, err := again.Dead(ctx, "b"); err != nil || len(got) > 0 {
		t.Errorf("Dead of another relay = %v, %v; want none", got, err)
	}
	if n, err := set.Discard(ctx, "a", "1", "none"); n != 1 || err != nil {
		t.Errorf("Discard = %d, %v; want 1", n, err)
	}
	if n, err := set.Discard(ctx, "a"); n != 1 || err != nil {
		t.Errorf("Discard = %d, %v; want 1", n, err)
	}
	hold, err := set.Acquire(ctx, "a")
	must(t, err)
	must(t, pgstore.Delete(ctx, cfg))
	if n := query[int](t, dsn, "SELECT count(*) FROM crawler.relay AS r LEFT JOIN crawler.crawl AS c ON c.id = r.crawl WHERE c.id IS NULL"); n > 0 {
		t.Errorf("%d relays of the deleted crawl are still stored, want 0", n)
	}
	if err := hold.Save(ctx, "7/1", nil); !errors.Is(err, pgstore.ErrNoCrawl) {
		t.Errorf("Save of a deleted crawl: %v, want ErrNoCrawl", err)
	}
	if _, err := set.Acquire(ctx, "a"); !errors.Is(err, pgstore.ErrNoCrawl) {
		t.Errorf("Acquire in a deleted crawl: %v, want ErrNoCrawl", err)
	}
}

// TestOutboxOfOlderSchema: records that were stored before the schema had an outbox come
// first, in the order in which they were fetched.
func TestOutboxOfOlderSchema(t *testing.T) {
	t.Parallel()
	cfg := anyCrawl(database(t))
	execute(t, cfg.DSN, "CREATE SCHEMA crawler")
	db, err := sql.Open("pgx", cfg.DSN)
	must(t, err)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"), goose.WithTableName("crawler.migration"),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	must(t, err)
	_, err = provider.UpTo(t.Context(), 1)
	must(t, err)
	execute(t, cfg.DSN, fmt.Sprintf("SELECT crawler.create_crawl('%s', '%s', NULL, '{}', '{}')", cfg.Crawl, cfg.Identity),
		`INSERT INTO crawler.record_1 (fingerprint, round, fetched, outcome, url, record)
		SELECT md5(n::text)::uuid, 0, now() + n * interval '1 s', 'ok', 'http://example.org/' || n, '{}' FROM generate_series(1, 40) AS n`)
	set := open(t, cfg)
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(1), 0, "")}))
	awaitReadable(t, cfg)
	var at pgstore.Cursor
	for n := 1; n <= 41; n++ {
		page, err := set.Committed(t.Context(), at, 1)
		must(t, err)
		if want := fmt.Sprintf("http://example.org/%d", n); len(page) != 1 || n < 41 && page[0].URL != want || n == 41 && page[0].URL != key(1).URL {
			t.Fatalf("record %d is %+v, want only the one of %s (or, as number 41, of the last Finish)", n, page, want)
		}
		at = page[0].Cursor
	}
}

// TestRestoredElsewhere: workers and relays refuse a dump of another server whose
// transactions had higher numbers. They accept the dump after its records were numbered
// again, as the documentation says.
func TestRestoredElsewhere(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	cfg := anyCrawl(dsn)
	set := open(t, cfg)
	for n := range 5 {
		must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(n), 0, ""), record(key(n+10), 0, "")}))
	}
	must(t, eventstest.Save(t.Context(), pgstore.Outbox{Store: set}, "a", "1000003/1", nil))
	execute(t, dsn, fmt.Sprintf("UPDATE %s SET xid = (xid::text::bigint + 1000000)::text::xid8", table(t, cfg, "record")))
	if _, err := set.Committed(t.Context(), pgstore.Cursor{}, 10); !errors.Is(err, pgstore.ErrForeign) {
		t.Errorf("Committed with records of another server: %v, want ErrForeign", err)
	}
	if _, err := pgstore.Open(t.Context(), cfg); !errors.Is(err, pgstore.ErrForeign) {
		t.Errorf("Open with records of another server: %v, want ErrForeign", err)
	}
	text, err := os.ReadFile("../../docs/reference/postgres.md")
	must(t, err)
	_, section, _ := strings.Cut(string(text), "\nAfter a restore")
	_, section, _ = strings.Cut(section, "```sql\n")
	statements, _, _ := strings.Cut(section, "```")
	number := strings.TrimPrefix(table(t, cfg, "record"), "crawler.record_")
	execute(t, dsn, strings.NewReplacer("_12", "_"+number, "= 12", "= "+number).Replace(statements))
	open(t, cfg)
	must(t, set.Finish(t.Context(), nil, []exact.Row{record(key(20), 0, "")}))
	awaitReadable(t, cfg)
	page, err := set.Committed(t.Context(), pgstore.Cursor{}, 100)
	must(t, err)
	var read []exact.Ref
	for _, c := range page {
		read = append(read, c.Ref)
	}
	var want []exact.Ref
	for n := range 5 {
		want = append(want, refs(0, key(n), key(n+10))...)
	}
	if want = append(want, refs(0, key(20))...); fmt.Sprint(read) != fmt.Sprint(want) {
		t.Errorf("the relay read %x, want %x", read, want)
	}
	if _, known, err := (pgstore.Outbox{Store: set}).Load(t.Context(), "a"); known || err != nil {
		t.Errorf("Load of a relay of the other server: known %v, error %v; want it deleted", known, err)
	}
	if _, err := set.Committed(t.Context(), pgstore.Cursor{XID: 1 << 40}, 100); !errors.Is(err, pgstore.ErrForeign) {
		t.Errorf("Committed after a cursor larger than all transaction ids: %v, want ErrForeign", err)
	}
}
