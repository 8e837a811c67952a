package table

import (
	"context"
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
)

// TestDuckDBReadsParquetAndCSV: DuckDB reads Parquet and finds the values of the JSON lines, in
// columns of the right types. It also reads CSV and finds the same number of rows.
func TestDuckDBReadsParquetAndCSV(t *testing.T) {
	tool := installDuckDB(t)
	rng := rand.New(rand.NewPCG(bloomtest.Seed(t), 2))
	text := randomRecords(t, rng, 2000)
	dir, s := t.TempDir(), withFields()
	for _, format := range []Format{Parquet, CSV} {
		out := write(t, Table{Schema: s, Format: format}, text)
		if err := os.WriteFile(filepath.Join(dir, "pages."+string(format)), []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	query := func(sql ...string) []string {
		cmd := exec.CommandContext(t.Context(), "node", append([]string{filepath.Join(tool, "query.mjs")}, sql...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	rows := query("SELECT to_json(t) FROM (SELECT * REPLACE (epoch_us(fetched_at) AS fetched_at) FROM 'pages.parquet') t")
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
	types := query("SELECT string_agg(column_type, ' ') FROM (DESCRIBE SELECT status, duration_ms, truncated, fetched_at, title, \"fields.mixed\" FROM 'pages.parquet')")
	if want := "BIGINT DOUBLE BOOLEAN TIMESTAMP WITH TIME ZONE VARCHAR JSON"; types[0] != want {
		t.Errorf("columns have types %s, want %s", types[0], want)
	}
	if n := query("SELECT count(DISTINCT url) FROM read_csv('pages.csv', header = true, strict_mode = false)"); n[0] != "2000" {
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

// installDuckDB returns a directory with query.mjs and its dependencies from npm.
func installDuckDB(t *testing.T) string {
	t.Helper()
	missing := t.Skipf
	if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
		missing = t.Fatalf
	}
	if testing.Short() && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip("installs 70 MB with npm, only without -short")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "duckdb"))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		missing("DuckDB cannot be installed: npm: %v\n%s", err, out)
	}
	return dir
}
