package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// TestPostgresFlagFaults: the message about each fault of the Postgres flags names the
// fault, and does not contain the secret.
func TestPostgresFlagFaults(t *testing.T) {
	const shared = "--redis=redis://127.0.0.1:1"
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"crawl", "--postgres", "postgres://u:hush@127.0.0.1:1/d", "http://a.test/"}, "--postgres without --redis needs --sink postgres"},
		{[]string{"crawl", "--cdc", "http://a.test/"}, "--cdc needs --sink postgres"},
		{[]string{"crawl", "--sink", "postgres", "http://a.test/"}, "--sink postgres needs --postgres"},
		{[]string{"crawl", "--sink", "kafka", "http://a.test/"}, "want one of jsonl, postgres"},
		{[]string{"crawl", "--postgres-password-file", "none", "http://a.test/"}, "--postgres-password-file needs --postgres"},
		{[]string{"crawl", "--sink", "postgres", "--postgres", "postgres://u@h/d", "--postgres-password-file", "none", "http://a.test/"}, "--postgres-password-file: open none"},
		{[]string{"migrate"}, "no database is named: want --postgres"},
		{[]string{"migrate", "--postgres", "mysql://u:hush@h/d"}, "--postgres is malformed, want postgres://"},
		{[]string{"migrate", "--postgres", "hush"}, "--postgres is malformed, want postgres://"},
		{[]string{"reconcile", shared, "--name", "a"}, "want --redis, --name and --postgres"},
		{[]string{"reconcile"}, "want --redis, --name and --postgres"},
	} {
		t.Chdir(t.TempDir())
		code, out, errs := run(t, "", test.args...)
		if code != exitUsage || !strings.Contains(errs, test.want) || strings.Contains(out+errs, "hush") {
			t.Errorf("%q: exit code %d, want %d and %q in stderr:\n%s%s", test.args, code, exitUsage, test.want, out, errs)
		}
	}
	code, out, errs := run(t, "", "migrate", "--postgres", "postgres://u:hush@127.0.0.1:1/d")
	if code != exitFailed || !strings.Contains(errs, "postgres://127.0.0.1:1/d: ") || strings.Contains(out+errs, "hush") {
		t.Errorf("migrate without a server: exit code %d: %s%s", code, out, errs)
	}
}

// TestPostgresPasswordFile: the password of a database can be read from a file. The name
// of the database in messages does not contain the password.
func TestPostgresPasswordFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(name, []byte("it's /\\@\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const dsn = "postgres://u:other@h:1/d?sslmode=disable"
	f := &postgresFlags{postgres: dsn, postgresPassword: name}
	db, err := f.database()
	if err != nil || db.URL != dsn || db.Password != `it's /\@` {
		t.Errorf("database = %+v (%v), want %s and the password of the file", db, err, dsn)
	}
	at := location{Location: crawl.Location{Postgres: db}, names: &sharedFlags{postgresFlags: *f}}
	if line := at.command("status"); strings.Contains(line, "other") {
		t.Errorf("%s is shown as %q, want no password in it", dsn, line)
	}
}

// TestPostgresIsShownWithoutSecrets: neither config nor crawl prints the password of the
// database.
func TestPostgresIsShownWithoutSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("CRAWLER_POSTGRES", "postgres://u:hush@127.0.0.1:1/d?password=hush")
	for _, form := range [][]string{nil, {"--json"}} {
		out := must(t, append([]string{"config", "--sink", "postgres", "http://a.test/"}, form...)...)
		if strings.Contains(out, "hush") || !strings.Contains(out, "postgres://127.0.0.1:1/d") {
			t.Errorf("config prints %s, want the database without its password", out)
		}
	}
	code, out, errs := run(t, "", "crawl", "--sink", "postgres", "http://a.test/")
	if code != exitFailed || strings.Contains(out+errs, "hush") || !strings.Contains(errs, "postgres://127.0.0.1:1/d: ") {
		t.Errorf("crawl: exit code %d, want an error that names the database without its password: %s%s", code, out, errs)
	}
}

// postgresCrawl starts servers for a crawl. It returns the flags that name the crawl, the
// arguments that run the crawl, and the Redis server.
func postgresCrawl(t *testing.T, more ...string) (named, crawl []string, queue *servers.RedisServer) {
	t.Helper()
	queue = servers.Redis(t, servers.RedisOptions{})
	database := servers.Postgres(t, servers.PostgresOptions{})
	t.Chdir(t.TempDir())
	named = []string{"--redis", queue.URL(), "--name", "tier", "--postgres", database.DSN()}
	crawl = slices.Concat([]string{"crawl"}, named, []string{"--urls", "1000", "--partitions", "4", "--delay", "5ms", "--latency-factor", "0",
		"--retries", "0", "--scope", "any", "--max-depth", "1", "--connect-to", "*.test=" + site(t)}, more)
	return named, crawl, queue
}

// must runs a command and fails the test if the command fails.
func must(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, out, errs := run(t, "", args...)
	if code != exitOK {
		t.Fatalf("%q: exit code %d: %s%s", args[0], code, out, errs)
	}
	return out
}

// recordsOf counts records by URL.
func recordsOf(lines string) map[string]int {
	records := make(map[string]int)
	for line := range strings.Lines(lines) {
		_, rest, _ := strings.Cut(line, `"url":"`)
		url, _, _ := strings.Cut(rest, `"`)
		records[url]++
	}
	return records
}

// sameOutput checks that `crawler output` prints the same records as `crawler export`, and
// that it can print them as tables.
func sameOutput(t *testing.T, exported string, named []string) {
	t.Helper()
	sorted := func(text string) []string { return slices.Sorted(strings.Lines(text)) }
	if out := must(t, append([]string{"output"}, named...)...); !slices.Equal(sorted(out), sorted(exported)) {
		t.Errorf("output prints\n%s\nexport prints\n%s", out, exported)
	}
	rows := must(t, append([]string{"output", "--format", "csv", "--columns", "url", "--where", "status = 200"}, named...)...)
	if got, want := strings.Count(rows, "\n"), 1+strings.Count(exported, `"status":200,`); got != want || want < 2 {
		t.Errorf("CSV of answers with status 200 has %d lines, want %d", got, want)
	}
	if out := must(t, append([]string{"output", "--format", "parquet"}, named...)...); !strings.HasPrefix(out, "PAR1") || !strings.Contains(out, "fingerprint") != !strings.Contains(exported, `"fingerprint"`) {
		t.Errorf("Parquet begins with %.10q, want PAR1; or only one of output and export has fingerprints", out)
	}
}

// latestOutput fetches the failed URLs of a crawl again. Then it checks that output prints only the
// latest record of each URL, and with --all-rounds what export prints.
func latestOutput(t *testing.T, named, crawl []string) {
	t.Helper()
	before := must(t, append([]string{"output"}, named...)...)
	must(t, append([]string{"retry"}, named...)...)
	must(t, crawl...)
	again := func(flags ...string) string { return must(t, slices.Concat([]string{"output"}, flags, named)...) }
	all, latest := again("--all-rounds"), again()
	repeated := strings.Count(all, `"round":1,`)
	lines := strings.Count(before, "\n")
	if n, m := strings.Count(all, "\n"), strings.Count(latest, "\n"); repeated == 0 || n != lines+repeated || m != lines {
		t.Errorf("%d URLs, of which %d were fetched again: output prints %d records, and %d of all rounds", lines, repeated, m, n)
	}
	for url, n := range recordsOf(latest) {
		if n != 1 {
			t.Errorf("output prints %d records of %s", n, url)
		}
	}
	if n := strings.Count(latest, `"round":1,`); n != repeated {
		t.Errorf("output prints %d records of round 1, want %d", n, repeated)
	}
	if csv := again("--format", "csv", "--columns", "url", "--referrers"); strings.Count(csv, "\n") != lines+1 {
		t.Errorf("CSV has %d lines, want %d", strings.Count(csv, "\n"), lines+1)
	}
	if joined := again("--referrers", "--where", "referrer ~ ^http"); joined == "" || strings.Count(joined, `"referrer":"http`) != strings.Count(joined, "\n") {
		t.Errorf("output --referrers prints %.300s, want only records with the URL of their referrer", joined)
	}
}

// TestTwoWorkersWithPostgres: two workers share a crawl that stores the fingerprints of all its
// URLs in Postgres. Each page is in the output once, and each command that describes the crawl
// prints the expected result.
func TestTwoWorkersWithPostgres(t *testing.T) {
	for _, sink := range []string{"jsonl", "postgres"} {
		t.Run(sink, func(t *testing.T) {
			named, crawl, _ := postgresCrawl(t, "--exact", "all", "--sink", sink, "http://a.test/", "http://b.test/", "http://c.test/")
			var first, second bytes.Buffer
			one, two := started(&first, crawl...), started(&second, crawl...)
			if a, b := <-one, <-two; a != exitOK || b != exitOK {
				t.Fatalf("exit codes of the workers: %d and %d: %s%s", a, b, &first, &second)
			}
			exported := must(t, append([]string{"export"}, named...)...)
			sameOutput(t, exported, named)
			records := recordsOf(exported)
			if want := 3*9 + 2; len(records) != want {
				t.Errorf("%d URLs have records, want %d: %v", len(records), want, records)
			}
			for url, n := range records {
				if n != 1 {
					t.Errorf("%s has %d records, want 1", url, n)
				}
			}
			if out := must(t, append([]string{"status", "--audit"}, named...)...); !strings.Contains(out, "the books balance\n") ||
				!strings.Contains(out, "keys in Postgres that wait") || !strings.Contains(out, "done ") {
				t.Errorf("audit prints %s, want balanced books, and the keys in Postgres", out)
			}
			if out := must(t, append([]string{"status"}, named...)...); !strings.Contains(out, "29 keys = 0 pending + 0 queued + ") ||
				!strings.Contains(out, "recovered") {
				t.Errorf("status prints %s, want 29 keys, none pending or queued, and those recovered", out)
			}
			if out := must(t, append([]string{"report", "--json", "--probe", "10ms"}, named...)...); !strings.Contains(out, `"cleanup_lag_s": 0`) {
				t.Errorf("report prints %s, want a cleanup_lag_s of 0", out)
			}
			if out := must(t, append([]string{"explain", "http://a.test/ok"}, named...)...); !strings.Contains(out, "yes: all") ||
				!strings.Contains(out, "done: ok, status 200") {
				t.Errorf("explain prints %s, want an exact key, and done with status 200", out)
			}
			if out := must(t, append([]string{"reconcile"}, named...)...); out != "0 keys offered: 0 queued again, 0 refused\n" {
				t.Errorf("reconcile prints %q, want only zeros", out)
			}
			latestOutput(t, named, crawl)
			must(t, append([]string{"rebuild"}, named...)...)
			if out := must(t, append([]string{"delete", "--yes"}, named...)...); !strings.Contains(out, "is removed") {
				t.Errorf("delete prints %s, want \"is removed\"", out)
			}
			if code, _, errs := run(t, "", append([]string{"delete", "--yes"}, named...)...); code != exitUsage || !strings.Contains(errs, "no crawl tier") {
				t.Errorf("second delete: exit code %d, want an error that there is no such crawl: %s", code, errs)
			}
		})
	}
}

// TestInspectWithoutPostgres: a command that does not name the Postgres of a crawl can inspect
// the crawl, but can neither run it nor add seeds or retry URLs.
func TestInspectWithoutPostgres(t *testing.T) {
	named, crawl, _ := postgresCrawl(t, "http://a.test/ok")
	if code, _, errs := run(t, "", crawl...); code != exitOK {
		t.Fatalf("crawl: exit code %d: %s", code, errs)
	}
	queueOnly := named[:4]
	if out := must(t, append([]string{"status"}, queueOnly...)...); strings.Contains(out, "pending") {
		t.Errorf("status without --postgres prints %s, want nothing about pending keys", out)
	}
	if out := must(t, append([]string{"status", "--audit"}, queueOnly...)...); !strings.Contains(out, "exact keys are not counted") {
		t.Errorf("audit without --postgres prints %s, want that exact keys are not counted", out)
	}
	for _, command := range [][]string{{"crawl"}, {"seed", "http://a.test/x"}, {"retry"}, {"rebuild"}, {"delete", "--yes"}} {
		code, _, errs := run(t, "", append(command, queueOnly...)...)
		if code == exitOK || !strings.Contains(errs, "name it with --postgres") {
			t.Errorf("%s without --postgres: exit code %d, want an error that names this flag: %s", command[0], code, errs)
		}
	}
	if out := must(t, append([]string{"seed", "http://a.test/a"}, named...)...); !strings.Contains(out, "1 added") {
		t.Errorf("seed prints %s, want \"1 added\"", out)
	}
	plain := slices.Concat([]string{"crawl", "--redis", named[1], "--name", "plain"}, crawl[7:])
	if code, _, errs := run(t, "", plain...); code != exitOK {
		t.Fatalf("crawl without Postgres: exit code %d: %s", code, errs)
	}
	code, _, errs := run(t, "", "crawl", "--redis", named[1], "--name", "plain", "--postgres", named[5])
	if code != exitUsage || !strings.Contains(errs, "exact keys are in Redis (no --postgres) there, are in Postgres (--postgres) here") {
		t.Errorf("--postgres for a crawl without Postgres: exit code %d: %s", code, errs)
	}
}

// TestPostgresSinkOfADirectory: a crawl in a directory can store its records in Postgres.
// Each record is stored once, and the crawl does not run without Postgres.
func TestPostgresSinkOfADirectory(t *testing.T) {
	t.Parallel()
	database := servers.Postgres(t, servers.PostgresOptions{})
	dir := filepath.Join(t.TempDir(), "c.crawl")
	crawl := []string{"crawl", "--dir", dir, "--delay", "0", "--retries", "0", "--urls", "1000", "--connect-to", "*.test=" + site(t),
		"--sink", "postgres", "--postgres", database.DSN(), "--max-depth", "1", "--save", "all", "--field", "links[]=a@href"}
	code, _, errs := run(t, "", append(crawl, "--no-migrate", "http://a.test/")...)
	if code != exitFailed || !strings.Contains(errs, `run "crawler migrate"`) {
		t.Errorf("crawl without a schema: exit code %d, want an error that names crawler migrate: %s", code, errs)
	}
	for _, want := range []string{"has schema 15, had 0\n", "has schema 15 already\n"} {
		if out := must(t, "migrate", "--postgres", database.DSN()); !strings.HasSuffix(out, want) {
			t.Errorf("migrate prints %q, want it to end with %q", out, want)
		}
	}
	if code, _, errs := run(t, "", append(crawl, "--no-migrate", "http://a.test/")...); code != exitOK {
		t.Fatalf("crawl after migrate: exit code %d: %s", code, errs)
	}
	beside := []string{"--dir", dir, "--postgres", database.DSN()}
	out := must(t, append([]string{"output"}, beside...)...)
	for url, n := range recordsOf(out) {
		if n != 1 {
			t.Errorf("%s has %d records, want 1", url, n)
		}
	}
	if len(recordsOf(out)) < 9 || !strings.Contains(out, `"warc":"`) || !strings.Contains(out, `"fields":{"links":["http://a.test/`) {
		t.Errorf("output prints %s, want 9 URLs or more, with WARC files and fields", out)
	}
	if out := must(t, append([]string{"report"}, beside...)...); strings.Contains(out, "pages.jsonl") {
		t.Errorf("report names a file of records, which are in Postgres: %s", out)
	}
	if out := must(t, append([]string{"status", "--audit"}, beside...)...); !strings.Contains(out, "the books balance\n") {
		t.Errorf("audit prints %s, want that the books balance", out)
	}
	if out := must(t, append([]string{"explain", "http://a.test/ok"}, beside...)...); !strings.Contains(out, "named by") {
		t.Errorf("explain prints %s, want the page that named the URL", out)
	}
	for _, command := range []string{"output", "crawl"} {
		code, _, errs := run(t, "", command, "--dir", dir)
		if code != exitUsage || !strings.Contains(errs, "--postgres") {
			t.Errorf("%s without --postgres: exit code %d, want a usage error that names this flag: %s", command, code, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pages.jsonl")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("pages.jsonl: %v, want no such file: the records are in Postgres", err)
	}
}

// TestPostgresSinkAway: a crawl that stores its records in Postgres can be stopped while
// Postgres is unreachable. After the crawl is resumed, each URL has one record and the
// books balance.
func TestPostgresSinkAway(t *testing.T) {
	t.Parallel()
	database := servers.Postgres(t, servers.PostgresOptions{})
	connectTo, held, release := heldSite(t)
	dir := filepath.Join(t.TempDir(), "c.crawl")
	crawl := []string{"crawl", "--dir", dir, "--delay", "0", "--urls", "1000", "--sink", "postgres", "--postgres", database.DSN(),
		"--connect-to", connectTo}
	var errs bytes.Buffer
	ended := started(&errs, append(crawl, "http://a.test/")...)
	<-held
	if err := database.Kill(); err != nil {
		t.Fatal(err)
	}
	release()
	if code, out, errs := run(t, "", "stop", "--dir", dir); code != exitOK {
		t.Fatalf("stop: exit code %d: %s%s", code, out, errs)
	}
	if code := <-ended; code != exitFailed || !strings.Contains(errs.String(), "what was committed is safe") {
		t.Errorf("crawl stopped while Postgres is down: exit code %d: %s", code, &errs)
	}
	if err := database.Restart(); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := run(t, "", crawl...); code != exitOK {
		t.Fatalf("resumed crawl: exit code %d: %s", code, errs)
	}
	records := recordsOf(must(t, "output", "--dir", dir, "--postgres", database.DSN()))
	for url, n := range records {
		if n != 1 {
			t.Errorf("%s has %d records, want 1", url, n)
		}
	}
	if len(records) == 0 {
		t.Error("output prints no records")
	}
	must(t, "status", "--audit", "--dir", dir, "--postgres", database.DSN())
}

// TestPostgresWindow: a window, which is the time after which a finished URL is new again,
// applies to the whole crawl. A worker that joins the crawl adopts the window, and a worker
// with another window is refused.
func TestPostgresWindow(t *testing.T) {
	named, crawl, _ := postgresCrawl(t, "--max-depth", "0", "http://a.test/ok")
	code, _, errs := run(t, "", append(crawl, "--window", "seeds=1s")...)
	if code != exitOK {
		t.Fatalf("crawl with a window: exit code %d: %s", code, errs)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if code, _, errs := run(t, "", crawl...); code != exitOK {
			t.Fatalf("a worker that joins: exit code %d: %s", code, errs)
		}
		if strings.Contains(must(t, append([]string{"export"}, named...)...), `"round":1`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the seed was not fetched again, although its window of 1 s has ended")
		}
	}
	code, _, errs = run(t, "", append(crawl, "--window", "seeds=2s")...)
	if code != exitUsage || !strings.Contains(errs, `--window is ["seeds=1s"] there, ["seeds=2s"] here`) {
		t.Errorf("crawl with another window: exit code %d, want a usage error with both windows: %s", code, errs)
	}
	if out := must(t, append([]string{"status", "--audit"}, named...)...); !strings.Contains(out, "the books balance\n") {
		t.Errorf("audit prints %s, want that the books balance", out)
	}
}

// TestPostgresAway: while Postgres is unreachable, pages with exact URLs wait in the worker. Later, the
// exact URLs that the crawl found in the meantime are stored in Postgres and fetched.
func TestPostgresAway(t *testing.T) {
	queue, database := servers.Redis(t, servers.RedisOptions{}), servers.Postgres(t, servers.PostgresOptions{})
	t.Chdir(t.TempDir())
	connectTo, held, release := heldSite(t)
	named := []string{"--redis", queue.URL(), "--name", "away", "--postgres", database.DSN()}
	var errs bytes.Buffer
	ended := started(&errs, slices.Concat([]string{"crawl"}, named, []string{"--dir", "w", "--urls", "1000", "--partitions", "2",
		"--delay", "0", "--exact", "seeds,depth<=1", "--connect-to", connectTo, "http://a.test/"})...)
	<-held
	if err := database.Kill(); err != nil {
		t.Fatal(err)
	}
	release()
	for deadline := time.Now().Add(time.Minute); ; {
		st := statusOf(t, "w")
		if st.Progress != nil && st.Progress.StoreWaiting > 0 && st.Exact != nil && st.Exact.Fault != "" {
			if st.Exact == nil || st.Exact.Fault == "" {
				t.Errorf("while Postgres is down: exact keys %+v, want a fault", st.Exact)
			}
			if out := must(t, "status", "--dir", "w"); !strings.Contains(out, "wait for it, unavailable for ") && !strings.Contains(out, "waits for it, unavailable for ") {
				t.Errorf("status prints %s, want that pages wait for the store", out)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, no page waits for Postgres: %+v", st)
		}
	}
	if err := database.Restart(); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != exitOK {
		t.Fatalf("crawl after the outage: exit code %d: %s", code, &errs)
	}
	if out := must(t, append([]string{"status", "--audit"}, named...)...); !strings.Contains(out, "the books balance\n") {
		t.Errorf("audit prints %s, want that the books balance", out)
	}
	if records := recordsOf(must(t, append([]string{"export", "w"}, named...)...)); len(records) < 3 {
		t.Errorf("records of %v, want 3 or more URLs", records)
	}
}

// TestRecheckWithRows: finished URLs of a crawl in a directory, whose records are rows of Postgres, are
// queued again once.
func TestRecheckWithRows(t *testing.T) {
	database := servers.Postgres(t, servers.PostgresOptions{})
	t.Chdir(t.TempDir())
	named := []string{"--dir", "c", "--postgres", database.DSN()}
	crawl := slices.Concat([]string{"crawl"}, named, []string{"--sink", "postgres", "--urls", "1000", "--delay", "0", "--retries", "0",
		"--max-depth", "1", "--connect-to", "*.test=" + site(t), "http://a.test/"})
	must(t, crawl...)
	pages := strings.Count(must(t, append([]string{"output", "--where", "status = 200"}, named...)...), "\n")
	retry := append([]string{"retry", "--status", "200"}, named...)
	for _, want := range []string{"URLs queued again, 0 wait already\n", "0 URLs queued again, "} {
		if out := must(t, retry...); pages < 2 || !strings.Contains(out, want) {
			t.Errorf("of %d pages, retry prints %q, want %q", pages, out, want)
		}
	}
	must(t, crawl...)
	if out := must(t, append([]string{"status", "--audit"}, named...)...); !strings.Contains(out, "the books balance\n") {
		t.Errorf("audit prints %s", out)
	}
	if n := strings.Count(must(t, append([]string{"output", "--where", "round = 1 and status = 200"}, named...)...), "\n"); n != pages {
		t.Errorf("%d pages were fetched again, want %d", n, pages)
	}
}
