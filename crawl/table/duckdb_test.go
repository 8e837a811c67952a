package table

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/internal/testkit/npm"
)

// TestDuckDBReadsParquetAndCSV: DuckDB reads Parquet and finds the values of the JSON lines, in
// columns of the right types. It also reads CSV and finds the same number of rows.
func TestDuckDBReadsParquetAndCSV(t *testing.T) {
	query := duckDB(t)
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 2))
	text := randomRecords(t, rng, 2000)
	s := withFields()
	for _, format := range []Format{Parquet, CSV} {
		out := write(t, Table{Schema: s, Format: format}, text)
		query.write("pages."+string(format), out)
	}
	rows := query.run("SELECT to_json(t) FROM (SELECT * REPLACE (epoch_us(fetched_at) AS fetched_at) FROM 'pages.parquet') t")
	i := 0
	for line := range strings.Lines(text) {
		if i >= len(rows) {
			t.Fatalf("DuckDB read %d rows, want one for each line", len(rows))
		}
		if diff := cmp.Diff(fromJSON(t, line), fromDuckDB(t, rows[i])); diff != "" {
			t.Fatalf("row %d: %s", i, diff)
		}
		i++
	}
	types := query.run("SELECT string_agg(column_type, ' ') FROM (DESCRIBE SELECT status, duration_ms, truncated, fetched_at, title, \"fields.mixed\" FROM 'pages.parquet')")
	if want := "BIGINT DOUBLE BOOLEAN TIMESTAMP WITH TIME ZONE VARCHAR JSON"; types[0] != want {
		t.Errorf("columns have types %s, want %s", types[0], want)
	}
	if n := query.run("SELECT count(DISTINCT url) FROM read_csv('pages.csv', header = true, strict_mode = false)"); n[0] != "2000" {
		t.Errorf("%s rows of CSV, want 2000", n[0])
	}
}

func fromJSON(t *testing.T, text string) (r map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

// fromDuckDB converts a row of DuckDB to the form of its record in JSON.
func fromDuckDB(t *testing.T, text string) map[string]any {
	t.Helper()
	r := make(map[string]any)
	for name, value := range fromJSON(t, text) {
		inner, nested := strings.CutPrefix(name, "fields.")
		switch {
		case value == nil:
		case nested:
			if r["fields"] == nil {
				r["fields"] = make(map[string]any)
			}
			r["fields"].(map[string]any)[inner] = value
		case name == "fetched_at":
			r[name] = time.UnixMicro(int64(value.(float64))).UTC().Format(time.RFC3339Nano)
		default:
			r[name] = value
		}
	}
	return r
}

// A duck runs SQL in DuckDB, in a directory of files.
type duck struct {
	t         *testing.T
	tool, dir string
}

// duckDB installs DuckDB from npm.
func duckDB(t *testing.T) duck {
	t.Helper()
	if testing.Short() && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip("installs 70 MB with npm, only without -short")
	}
	return duck{t, npm.Install(t, filepath.Join("testdata", "duckdb")), t.TempDir()}
}

func (d duck) write(name, text string) {
	if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

// run returns the first column of the last statement's result.
func (d duck) run(sql ...string) []string {
	d.t.Helper()
	cmd := exec.CommandContext(d.t.Context(), "node", append([]string{filepath.Join(d.tool, "query.mjs")}, sql...)...)
	cmd.Dir = d.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestDuckDBMistakesNothing: a table of one row whose ids could be numbers. DuckDB reads ids as text and times with their
// zone, in CSV and Parquet. In JSON it takes every time for one without a zone, which the guide says how to give.
func TestDuckDBMistakesNothing(t *testing.T) {
	db := duckDB(t)
	const text = `{"url":"http://a.test/","id":"52e1000000000000","referrer_id":"1234567812345678","fetched_at":"2026-11-30T12:00:00.5Z",` +
		`"fingerprint":"52e10000000000001234567812345678"}` + "\n"
	s := Records()
	for _, format := range []Format{Parquet, CSV, JSONL} {
		db.write("one."+string(format), write(t, Table{Schema: s, Format: format, Columns: columnsOf(t, s, "url", "id", "referrer_id", "fetched_at", "fingerprint")}, text))
	}
	const local = "SET TimeZone = 'Asia/Tokyo'"
	for _, tc := range []struct{ file, types, id, at string }{
		{"one.parquet", "VARCHAR VARCHAR VARCHAR TIMESTAMP WITH TIME ZONE VARCHAR", "52e1000000000000", "fetched_at"},
		{"one.csv", "VARCHAR VARCHAR VARCHAR TIMESTAMP WITH TIME ZONE VARCHAR", "hex:52e1000000000000", "fetched_at"},
		{"one.jsonl", "VARCHAR VARCHAR VARCHAR TIMESTAMP VARCHAR", "52e1000000000000", "fetched_at AT TIME ZONE 'UTC'"},
	} {
		if got := db.run(local, "SELECT string_agg(column_type, ' ') FROM (DESCRIBE SELECT * FROM '"+tc.file+"')"); got[0] != tc.types {
			t.Errorf("%s: types %s, want %s", tc.file, got[0], tc.types)
		}
		if got := db.run(local, "SELECT id FROM '"+tc.file+"'"); got[0] != tc.id {
			t.Errorf("%s: id %s, want %s", tc.file, got[0], tc.id)
		}
		if got := db.run(local, "SELECT CAST("+tc.at+" AS VARCHAR) FROM '"+tc.file+"'"); got[0] != "2026-11-30 21:00:00.5+09" {
			t.Errorf("%s: time %s, want that of Tokyo", tc.file, got[0])
		}
	}
}
