//go:build linux

package pgstore_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

const secret = "s3cr/et-w0rd"

// disk is a file system in memory that a test can fill.
type disk struct {
	t   *testing.T
	dir string
}

// smallDisk mounts a disk for the duration of the test. It skips the test if mounting is not
// permitted, as in most containers.
func smallDisk(t *testing.T, size string) *disk {
	t.Helper()
	// t.TempDir is not used, because the server's user cannot enter it.
	dir, err := os.MkdirTemp("", "fulldisk-")
	must(t, err)
	t.Cleanup(func() { _ = os.Remove(dir) }) // fails while the disk is mounted
	if err := unix.Mount("none", dir, "tmpfs", 0, "mode=0755,size="+size); err != nil {
		why := fmt.Sprintf("this test needs a small disk, but no file system can be mounted here: %v", err)
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" && os.Geteuid() == 0 && !errors.Is(err, fs.ErrPermission) {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return &disk{t, dir}
}

// folder makes an empty folder on the disk.
func (d *disk) folder(name string) string {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	must(d.t, os.Mkdir(path, 0o700))
	return path
}

func (d *disk) ballast() string { return filepath.Join(d.dir, "ballast") }

// leave fills the disk until only room bytes are free.
func (d *disk) leave(room int64) {
	d.t.Helper()
	var stat unix.Statfs_t
	must(d.t, unix.Statfs(d.dir, &stat))
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(d.t, err)
	defer file.Close()
	left := int64(stat.Bfree)*stat.Bsize - room
	for page := make([]byte, 4096); room == 0 || left > 0; left -= int64(len(page)) {
		if _, err := file.Write(page); room == 0 && errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			d.t.Fatal(err)
		}
	}
}

// makeRoom empties the disk again.
func (d *disk) makeRoom() {
	d.t.Helper()
	must(d.t, os.Remove(d.ballast()))
}

// wantHeld checks the error of a call on a full disk. The error must make workers keep
// their items and try again. It must be one line without the password.
func wantHeld(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	if !errors.Is(err, frontier.ErrUnavailable) {
		t.Fatalf("%s: %v, want ErrUnavailable", what, err)
	}
	for _, word := range says {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want an error that says %q", what, err, word)
		}
	}
	if strings.Contains(err.Error(), "w0rd") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: %q, want one line without the password", what, err)
	}
}

// noRoom has two parts of the server's error for a table that cannot grow: a part of its text,
// and its SQLSTATE.
var noRoom = []string{"could not extend file", "53100"}

// books records the state that each key must have, by the key's number.
type books struct {
	set    *pgstore.Store
	cfg    pgstore.Config
	states map[int]exact.State
	rows   int // number of records
}

func (b *books) enter(from, to int, state exact.State) {
	for n := from; n < to; n++ {
		b.states[n] = state
	}
}

// check compares the set with the books: the state of each key, the number of keys in each
// state, and the records.
func (b *books) check(t *testing.T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), b.cfg.DSN)
	must(t, err)
	defer conn.Close(t.Context())
	// A key is torn if only a part of its new state was stored.
	rows, err := conn.Query(t.Context(), fmt.Sprintf(`SELECT k.fingerprint, CASE
			WHEN k.round > 0 OR (k.outcome IS NULL) <> (w.fingerprint IS NOT NULL) THEN 'torn'
			WHEN p.fingerprint IS NOT NULL THEN CASE WHEN k.outcome IS NULL THEN 'pending' ELSE 'torn' END
			ELSE coalesce(o.state, 'queued') END
		FROM %s AS k LEFT JOIN %s AS w USING (fingerprint) LEFT JOIN %s AS p USING (fingerprint)
		LEFT JOIN crawler.exact_outcome AS o ON o.letter = k.outcome`,
		table(t, b.cfg, "exact_key"), table(t, b.cfg, "exact_waiting"), table(t, b.cfg, "exact_pending")))
	must(t, err)
	var print [16]byte
	var state exact.State
	got := map[bloomstore.Fingerprint]exact.State{}
	_, err = pgx.ForEachRow(rows, []any{&print, &state}, func() error {
		got[print] = state
		return nil
	})
	must(t, err)
	var want exact.Stats
	for n, state := range b.states {
		if got := got[key(n).Fingerprint]; got != state {
			t.Fatalf("key %d has state %q, want %q", n, got, state)
		}
		switch state {
		case exact.Pending:
			want.Pending++
		case exact.Queued:
			want.Queued++
		case exact.Done:
			want.Done++
		}
	}
	if got, err := b.set.Stats(t.Context()); err != nil || got != want {
		t.Errorf("Stats = %+v, %v; want %+v", got, err, want)
	}
	records := 0
	must(t, b.set.EachRecord(t.Context(), func(row exact.Row) error {
		if records++; !strings.Contains(string(row.Record), `"mark":"first"`) {
			t.Errorf("a record is %s, want one with \"mark\":\"first\", of the first Finish", row.Record)
		}
		return nil
	}))
	if records != b.rows {
		t.Errorf("%d records, want %d", records, b.rows)
	}
}

// decide decides keys that are not known, and enters them in the books.
func (b *books) decide(t *testing.T, from, to int) error {
	t.Helper()
	answers, err := b.set.Decide(t.Context(), keys(from, to))
	if err != nil {
		return err
	}
	for i, a := range answers {
		if a != (exact.Answer{New: true, First: true}) {
			t.Fatalf("Decide of key %d = %+v, want it new for the first time", from+i, a)
		}
	}
	b.enter(from, to, exact.Pending)
	return nil
}

// wantKnown checks that all keys with these numbers are known.
func (b *books) wantKnown(t *testing.T, from, to int) {
	t.Helper()
	answers, err := b.set.Decide(t.Context(), keys(from, to))
	must(t, err)
	for i, a := range answers {
		if a.New {
			t.Fatalf("Decide of key %d: new again, want it known", from+i)
		}
	}
}

func (b *books) queued(t *testing.T, from, to int) {
	t.Helper()
	must(t, b.set.Queued(t.Context(), refs(0, keys(from, to)...)))
	b.enter(from, to, exact.Queued)
}

// finish finishes keys and enters them in the books. If mark is not empty, it also stores a
// record of each key.
func (b *books) finish(t *testing.T, from, to int, mark string) error {
	t.Helper()
	var rows []exact.Row
	for n := from; mark != "" && n < to; n++ {
		rows = append(rows, record(key(n), 0, mark))
	}
	if err := b.set.Finish(t.Context(), finishedOK(0, keys(from, to)...), rows); err != nil {
		return err
	}
	b.enter(from, to, exact.Done)
	b.rows += len(rows)
	return nil
}

// onSmallDisk starts a server and returns the DSN of a database on a disk.
func onSmallDisk(t *testing.T, d *disk) (*servers.PostgresServer, string) {
	t.Helper()
	// A vacuum would free space at unexpected moments.
	server := servers.Postgres(t, servers.PostgresOptions{Password: secret, Config: map[string]string{"autovacuum": "off"}})
	space := d.folder("space")
	info, err := os.Stat(server.SocketDir())
	must(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	must(t, os.Chown(space, int(owner.Uid), int(owner.Gid)))
	execute(t, server.DSN(), "CREATE TABLESPACE small LOCATION '"+space+"'", "CREATE DATABASE small TABLESPACE small")
	return server, server.Database("small")
}

// TestFullDisk: on a disk without space for tables, calls that need space have no effect and
// return a temporary error. The changes of successful calls are kept, and calls that need no
// space succeed. When there is space again, the failed calls succeed.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d := smallDisk(t, "48m")
	server, dsn := onSmallDisk(t, d)
	cfg, other := anyCrawl(dsn), anyCrawl(dsn)
	b := &books{set: open(t, cfg), cfg: cfg, states: map[int]exact.State{}}
	keyTable, pendingTable := table(t, cfg, "exact_key"), table(t, cfg, "exact_pending")

	// The test stores keys in each state, and then fills the disk.
	const begun, batch = 3000, 100
	for n := 0; n < begun; n += batch { // one call for each batch, so that neighbouring keys share pages
		must(t, b.decide(t, n, n+batch))
	}
	b.queued(t, 0, 2800)
	must(t, b.finish(t, 0, 200, "first"))
	execute(t, dsn, "VACUUM "+keyTable, "VACUUM "+pendingTable, "CHECKPOINT") // so that the server has little to replay when it restarts
	d.leave(512 << 10)
	full := begun
	var err error
	for ; err == nil; full += batch {
		if full > 20*begun {
			t.Fatal("no Decide failed, so the disk is not full")
		}
		err = b.decide(t, full, full+batch)
	}
	full -= batch // the first key that was not decided
	b.enter(full, full+batch, exact.Unknown)
	wantHeld(t, "Decide", err, noRoom...)
	d.leave(0)

	// The vacuum makes room in the table of keys. So the next calls can write to this
	// table, but they fail afterwards, because the tables of waiting keys and of records
	// cannot grow.
	execute(t, dsn, "VACUUM (TRUNCATE false) "+keyTable)
	wantHeld(t, "Finish with records", b.finish(t, 200, 280, "first"), noRoom...)
	breaker := exact.NewBreaker(b.set, time.Hour)
	_, err = breaker.Decide(t.Context(), keys(full, full+batch))
	wantHeld(t, "Decide again", err, noRoom...)
	if !breaker.Away() {
		t.Error("Away() = false after a call failed because the disk is full, want true")
	}
	wantHeld(t, "Finish", b.finish(t, 300, 2300, ""), noRoom...)
	_, err = pgstore.Open(t.Context(), other)
	wantHeld(t, "Open of a new crawl", err, noRoom...)
	b.check(t)
	b.wantKnown(t, 0, full)
	b.queued(t, 2800, begun)

	// When the server starts, it removes files that the first connection to a database
	// writes again. By then the space for these files might be used.
	must(t, server.Kill())
	must(t, server.Restart())
	d.leave(0)
	_, err = b.set.Decide(t.Context(), keys(0, 10))
	wantHeld(t, "Decide after a restart", err)

	d.makeRoom()
	b.check(t)
	must(t, b.decide(t, full, full+batch))
	must(t, b.finish(t, 200, 280, "first"))
	must(t, b.finish(t, 300, 2300, ""))
	b.check(t)
	b.wantKnown(t, full, full+batch)
	late := finishedOK(0, keys(200, 2300)...)
	for i := range late {
		late[i].Outcome = frontier.ServerError
	}
	late = append(late[:80:80], late[100:]...) // only the keys that are finished already
	must(t, b.set.Finish(t.Context(), late, []exact.Row{record(key(200), 0, "second")}))
	b.check(t)
	open(t, other)
}

// TestFullDiskOfLog: a server that cannot write its log stops, and all running calls fail.
// Until the restart, calls return ErrUnavailable. After the restart, the changes of all
// successful calls are there.
func TestFullDiskOfLog(t *testing.T) {
	t.Parallel()
	d := smallDisk(t, "64m")
	server := servers.Postgres(t, servers.PostgresOptions{Password: secret, WAL: d.folder("wal"), Config: map[string]string{
		"checkpoint_timeout": "1h", // because a checkpoint would free space at unexpected moments
		"autovacuum":         "off",
	}})
	set := open(t, anyCrawl(server.DSN()))
	underLoad(t, server.DSN(), func(*rand.Rand) {
		progress(t, server.DSN())
		d.leave(0)
		var err error
		for n := 0; err == nil; n += 10 {
			if n == 1000 {
				t.Fatal("the server still answers although its log cannot be written")
			}
			writeLog(t, server.DSN())
			_, err = set.Decide(t.Context(), keys(n, n+10))
		}
		wantHeld(t, "Decide", err)
		said, err := os.ReadFile(filepath.Join(server.SocketDir(), "log"))
		must(t, err)
		if !strings.Contains(string(said), "PANIC:") || !strings.Contains(string(said), "No space left on device") {
			t.Errorf("the log has no PANIC with No space left on device, so the disk was not full")
		}
		d.makeRoom()
		must(t, server.Restart()) // usually the server has stopped by now
		progress(t, server.DSN())
	})
	if answers, err := set.Decide(t.Context(), keys(5000, 5001)); err != nil || !answers[0].New {
		t.Errorf("Decide after the restart = %+v, %v; want a new key", answers, err)
	}
}

// writeLog makes the server write 16 MB to its write-ahead log. This is the size of one file
// of the log. writeLog returns early if the server fails.
func writeLog(t *testing.T, dsn string) {
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		return // the server is down
	}
	defer conn.Close(t.Context())
	for range 16 {
		if _, err := conn.Exec(t.Context(), "SELECT pg_logical_emit_message(true, 'ballast', repeat('x', 1 << 20))"); err != nil {
			return
		}
	}
}
