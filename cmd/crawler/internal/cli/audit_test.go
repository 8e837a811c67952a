package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/bloomfrontier/crawler/bloomstore/bloomtest"
	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
)

// TestAuditFindsDamage audits an undamaged crawl, and then damaged copies of it. In each
// copy, one structure or counter is damaged while no process has the crawl open. The audit
// of the copy must fail, and must name the counters that do not match.
func TestAuditFindsDamage(t *testing.T) {
	t.Parallel()
	dir := crawled(t, site(t), "--max-pages", "6", "http://a.test/") // some URLs stay queued
	if code, out, errs := run(t, "", "status", "--audit", "--dir", dir); code != exitOK || !strings.Contains(out, "the books balance\n") {
		t.Fatalf("audit of the undamaged crawl: exit code %d: %s%s", code, out, errs)
	}
	for name, test := range map[string]struct {
		corrupt func(t *testing.T, dir string)
		terms   []string // terms that the audit must name
	}{
		"queue row":        {withDB(dropRow('q')), []string{"queued", "added", "tables"}},
		"failed row":       {withDB(dropRow('f')), []string{"failed", "added", "failures", "tables"}},
		"done row":         {withDB(dropOutcome(false)), []string{"done", "added"}},
		"failure row":      {withDB(dropOutcome(true)), []string{"tables"}},
		"record":           {dropRecord, []string{"records", "done"}},
		"other record":     {otherRecord, []string{"done"}},
		"record's outcome": {otherOutcome, []string{"done", "failures", "outcome ok", "outcome network"}},
		"filter":           {zeroFilter, []string{"filter", "added"}},
		"found":            {withDB(alterCounter("found")), []string{"found"}},
		"seen":             {withDB(alterCounter("seen")), []string{"found"}},
		"refused":          {withDB(alterCounter("refused", "scope")), []string{"found"}},
		"added":            {withDB(alterCounter("added")), []string{"found", "added"}},
		"queued":           {withDB(alterCounter("queued")), []string{"queued"}},
		"leased":           {withDB(alterCounter("leased")), []string{"leased"}},
		"done":             {withDB(alterCounter("done")), []string{"done", "tables"}}, // the hosts' counts differ from the counter,
		"failed":           {withDB(alterCounter("failed")), []string{"failed", "tables"}},
		"delayed":          {withDB(alterCounter("delayed")), []string{"delayed"}},
		"hosts":            {withDB(alterCounter("hosts")), []string{"hosts"}},
		"pages":            {withDB(alterCounter("pages")), []string{"pages", "tables"}},
		"records":          {withDB(alterCounter("records")), []string{"records"}},
		"outcomes":         {withDB(alterCounter("outcomes", "ok")), []string{"outcome ok"}},
	} {
		t.Run(name, func(t *testing.T) {
			broken := filepath.Join(t.TempDir(), "broken.crawl")
			copyCrawl(t, broken, dir)
			test.corrupt(t, broken)
			code, out, errs := run(t, "", "status", "--audit", "--dir", broken)
			if code != exitFailed || !strings.Contains(errs, "do not balance: ") {
				t.Fatalf("audit of the damaged crawl: exit code %d, want %d: %s%s", code, exitFailed, out, errs)
			}
			_, list, _ := strings.Cut(strings.TrimSpace(errs), "do not balance: ")
			names := strings.Split(list, ", ")
			for _, term := range test.terms {
				if !slices.Contains(names, term) {
					t.Errorf("the audit names %q, want all of %q\n%s", names, test.terms, out)
				}
			}
			if len(test.terms) == 1 && len(names) != 1 {
				t.Errorf("the audit names %q, want only %q", names, test.terms)
			}
			code, out, _ = run(t, "", "status", "--audit", "--json", "--dir", broken)
			var a report.Audit
			if err := json.Unmarshal([]byte(out), &a); err != nil || code != exitFailed || a.Balanced || !slices.Equal(a.Broken(), names) {
				t.Errorf("audit as JSON: exit code %d, %+v (%v), want it to name %q", code, a, err, names)
			}
		})
	}
}

// TestAuditDamagedFilter: a crawl with a damaged filter cannot even be opened.
func TestAuditDamagedFilter(t *testing.T) {
	t.Parallel()
	dir := crawled(t, site(t), "http://a.test/")
	name := filterFile(t, dir)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	clear(text[len(text)/2:])
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	code, _, errs := run(t, "", "status", "--audit", "--dir", dir)
	if code != exitFailed || !strings.Contains(errs, "filter") || !strings.Contains(errs, "crawler rebuild") {
		t.Errorf("damaged filter: exit code %d, want an error that names crawler rebuild: %s", code, errs)
	}
}

// copyCrawl copies a crawl that no process has open.
func copyCrawl(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// withDB returns a function that opens the store's database and calls change.
func withDB(change func(*testing.T, *pebble.DB)) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		db, err := pebble.Open(filepath.Join(dir, "store"), &pebble.Options{ErrorIfNotExists: true, Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		change(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// dropOutcome returns a function that removes the outcome of the first failed URL, or of
// the first done URL if ofFailure is false. The order of the outcomes depends on the
// crawl's key, so the first outcome can be of either kind.
func dropOutcome(ofFailure bool) func(*testing.T, *pebble.DB) {
	const firstFailure = 7 // the number that means server_error in the rows
	return dropRowIf('o', func(value []byte) bool { return value[0] >= firstFailure == ofFailure })
}

// dropRow returns a function that removes the first row of a table.
func dropRow(letter byte) func(*testing.T, *pebble.DB) {
	return dropRowIf(letter, func([]byte) bool { return true })
}

func dropRowIf(letter byte, drop func(value []byte) bool) func(*testing.T, *pebble.DB) {
	return func(t *testing.T, db *pebble.DB) {
		rows, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{letter}, UpperBound: []byte{letter + 1}})
		if err != nil {
			t.Fatal(err)
		}
		ok := rows.First()
		for ok && !drop(rows.Value()) {
			ok = rows.Next()
		}
		if !ok {
			t.Fatalf("table %c has no row to drop (%v)", letter, rows.Error())
		}
		key := bytes.Clone(rows.Key())
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
		if err := db.Delete(key, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
}

// alterCounter returns a function that adds 1 to a counter.
func alterCounter(path ...string) func(*testing.T, *pebble.DB) {
	return func(t *testing.T, db *pebble.DB) {
		row, closer, err := db.Get([]byte("m"))
		if err != nil {
			t.Fatal(err)
		}
		var meta map[string]any
		decoder := json.NewDecoder(bytes.NewReader(row))
		decoder.UseNumber()
		if err := decoder.Decode(&meta); err != nil {
			t.Fatal(err)
		}
		_ = closer.Close()
		at := meta["stats"].(map[string]any)
		for ; len(path) > 1; path = path[1:] {
			at = at[path[0]].(map[string]any)
		}
		n, err := at[path[0]].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		at[path[0]] = n + 1
		text, err := json.Marshal(meta)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Set([]byte("m"), text, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
}

// editRecords rewrites pages.jsonl.
func editRecords(t *testing.T, dir string, edit func(lines [][]byte) [][]byte) {
	t.Helper()
	name := crawl.RecordsFile(dir)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Join(edit(slices.Collect(bytes.Lines(text))), nil), 0o644); err != nil {
		t.Fatal(err)
	}
}

func dropRecord(t *testing.T, dir string) {
	editRecords(t, dir, func(lines [][]byte) [][]byte { return lines[1:] })
}

// otherRecord replaces the id of a record. The number of records stays the same.
func otherRecord(t *testing.T, dir string) {
	editRecords(t, dir, func(lines [][]byte) [][]byte {
		at := bytes.Index(lines[0], []byte(`"id":"`)) + len(`"id":"`)
		if lines[0][at] == '0' {
			lines[0][at] = '1'
		} else {
			lines[0][at] = '0'
		}
		return lines
	})
}

// otherOutcome changes the outcome of a page from a success to a failure, and keeps the
// length of the file.
func otherOutcome(t *testing.T, dir string) {
	editRecords(t, dir, func(lines [][]byte) [][]byte {
		changed := bytes.Replace(lines[0], []byte(`"outcome":"ok"`), []byte(`"outcome":"network"`), 1)
		at := bytes.Index(changed, []byte("sha256:")) + len("sha256:")
		lines[0] = slices.Delete(changed, at, at+len("network")-len("ok"))
		return lines
	})
}

func filterFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "filter-*.bits"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got filter files %q (%v), want one", names, err)
	}
	return names[0]
}

// zeroFilter makes the saved filter of a crawl lose half of its bits.
func zeroFilter(t *testing.T, dir string) {
	name := filterFile(t, dir)
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	bloomtest.ZeroHalf(b)
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
