package pgstore_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	pagerecord "github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// linked returns a record of a key whose links are lines with a mark.
func linked(n int, round uint32, mark string, lines int) exact.Row {
	row := record(key(n), round, mark)
	for part := range lines {
		row.Links = append(row.Links, fmt.Appendf(nil, `{"source":"\u0000","key":%d,"round":%d,"part":%d,"mark":%q}`, n, round, part, mark))
	}
	return row
}

// linksOf returns the lines of links of a crawl, in the order in which they are read.
func linksOf(t testing.TB, set *pgstore.Store) (lines []string) {
	t.Helper()
	var last exact.Ref
	must(t, set.EachLinks(t.Context(), func(page exact.Ref, line []byte) error {
		if c := strings.Compare(string(page.Fingerprint[:]), string(last.Fingerprint[:])); c < 0 || c == 0 && page.Round < last.Round {
			t.Errorf("links of %v come after those of %v", page, last)
		}
		last = page
		lines = append(lines, string(line))
		return nil
	}))
	return lines
}

// TestLinksGoWithTheirRecord: the links of a page are stored once, together with its record. If a page was fetched
// several times, the links are those of the record that was kept.
func TestLinksGoWithTheirRecord(t *testing.T) {
	t.Parallel()
	for _, capture := range []bool{false, true} {
		cfg := anyCrawl(database(t))
		cfg.Capture = capture
		set := open(t, cfg)
		if has, err := set.HasLinks(t.Context()); has || err != nil {
			t.Errorf("HasLinks of a new crawl = %t, %v", has, err)
		}
		row := func(n int, round uint32, mark string, lines int) exact.Row {
			r := rows(t, &pagerecord.Record{URL: key(n).URL, Host: "a.test", Outcome: "ok", Item: key(n).Fingerprint, Round: int(round)})[0]
			r.Links = linked(n, round, mark, lines).Links
			return r
		}
		first := []exact.Row{row(2, 0, "first", 3), row(1, 0, "first", 1), row(2, 0, "in one call", 5), row(3, 0, "first", 0), row(2, 1, "first", 2)}
		must(t, set.Finish(t.Context(), nil, first))
		must(t, set.Finish(t.Context(), nil, first)) // its answer was lost
		must(t, set.Finish(t.Context(), nil, []exact.Row{row(3, 0, "second", 4), row(2, 0, "second", 4), row(4, 0, "first", 1)}))
		lines := linksOf(t, set)
		slices.Sort(lines)
		var want []string
		for _, r := range []exact.Row{row(1, 0, "first", 1), row(2, 0, "first", 3), row(2, 1, "first", 2), row(4, 0, "first", 1)} {
			for _, line := range r.Links {
				want = append(want, string(line))
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("capture %t: %s", capture, diff)
		}
		if has, err := set.HasLinks(t.Context()); !has || err != nil {
			t.Errorf("HasLinks = %t, %v", has, err)
		}
		stop := errors.New("stop")
		if err := set.EachLinks(t.Context(), func(exact.Ref, []byte) error { return stop }); !errors.Is(err, stop) {
			t.Errorf("EachLinks returned %v, want the error of its function", err)
		}
		must(t, pgstore.Delete(t.Context(), cfg))
		if n := query[int](t, cfg.DSN, "SELECT count(*) FROM pg_tables WHERE schemaname = 'crawler' AND tablename ~ '_[0-9]+$'"); n != 0 {
			t.Errorf("%d tables are left of a deleted crawl", n)
		}
	}
}

// TestRacersStoreLinksOfOneRecord: of workers that store the same page at the same time, one stores both the record
// and its links.
func TestRacersStoreLinksOfOneRecord(t *testing.T) {
	t.Parallel()
	cfg := anyCrawl(database(t))
	const racers, pages = 4, 50
	var group sync.WaitGroup
	for racer := range racers {
		set := open(t, cfg)
		group.Go(func() {
			var rows []exact.Row
			for n := range pages {
				row := linked(n, 0, fmt.Sprint("racer ", racer), 2+racer)
				row.Record = fmt.Appendf(nil, `{"mark":"racer %d"}`, racer)
				for i, line := range row.Links {
					row.Links[i] = bytes.ReplaceAll(line, []byte(`\u0000`), nil) // functions of Postgres refuse it
				}
				rows = append(rows, row)
			}
			for some := range slices.Chunk(rows, 5) {
				if err := set.Finish(t.Context(), nil, some); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	count := query[string](t, cfg.DSN, strings.NewReplacer("record_N", table(t, cfg, "record"), "link_N", table(t, cfg, "link")).Replace(`
		SELECT count(*) || ' ' || count(*) FILTER (WHERE lines = 2 + right(mark, 1)::int AND marks = 1 AND mark = linked) FROM (
			SELECT r.record ->> 'mark' AS mark, min(l.line ->> 'mark') AS linked, count(DISTINCT l.line ->> 'mark') AS marks, count(*) AS lines
			FROM record_N AS r JOIN link_N AS l USING (fingerprint, round) GROUP BY r.fingerprint, r.round, r.record ->> 'mark') AS p`))
	if want := fmt.Sprint(pages, " ", pages); count != want {
		t.Errorf("pages with links, and those among them whose links are all of their record: %s, want %s", count, want)
	}
}

// TestLinksArePaged: all links are read, in order, and memory holds only a few of them, however large their lines
// are. It measures the memory of the process, so it does not run beside other tests.
func TestLinksArePaged(t *testing.T) {
	set := open(t, anyCrawl(database(t)))
	large, want := strings.Repeat("x", 1<<20), 0
	for n := range 40 {
		row := record(key(n), 0, "")
		lines, text := n%7*50, ""
		if n%15 == 14 { // 10 times the size of a page of rows
			lines, text = 40, large
		}
		for part := range lines {
			row.Links = append(row.Links, fmt.Appendf(nil, `{"part":%d,"text":%q}`, part, text))
		}
		want += lines
		must(t, set.Finish(t.Context(), nil, []exact.Row{row}))
	}
	var stats runtime.MemStats
	heap := func() uint64 {
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	before, most := heap(), uint64(0)
	got, next, last := 0, 0, exact.Ref{}
	must(t, set.EachLinks(t.Context(), func(page exact.Ref, line []byte) error {
		if page != last {
			next, last = 0, page
		}
		if !strings.HasPrefix(string(line), fmt.Sprintf(`{"part":%d,`, next)) {
			t.Errorf("part %d of a page is %.20s", next, line)
		}
		if len(line) > len(large) {
			most = max(most, heap())
		}
		got, next = got+1, next+1
		return nil
	}))
	if got != want {
		t.Errorf("%d lines of links, want %d", got, want)
	}
	if most > before+16<<20 {
		t.Errorf("reading takes %d MiB of memory, want at most 16", (most-before)>>20)
	}
}

// TestLinksOfOlderSchema: a crawl that was created before links could be rows gets a table for them. Roles that may
// write records may write links.
func TestLinksOfOlderSchema(t *testing.T) {
	t.Parallel()
	cfg := anyCrawl(database(t))
	execute(t, cfg.DSN, "CREATE SCHEMA crawler")
	db, err := sql.Open("pgx", cfg.DSN)
	must(t, err)
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"), goose.WithTableName("crawler.migration"),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	must(t, err)
	_, err = provider.UpTo(t.Context(), 4)
	must(t, err)
	role := fmt.Sprintf("keeper_%d", query[int](t, cfg.DSN, "SELECT oid::int FROM pg_database WHERE datname = current_database()"))
	execute(t, cfg.DSN, "CREATE ROLE "+role, "GRANT SELECT, INSERT ON crawler.record TO "+role,
		fmt.Sprintf("SELECT crawler.create_crawl('%s', '%s', NULL, '{}', '{}')", cfg.Crawl, cfg.Identity))
	set := open(t, cfg)
	must(t, set.Finish(t.Context(), nil, []exact.Row{linked(1, 0, "", 2)}))
	if lines := linksOf(t, set); len(lines) != 2 {
		t.Errorf("an older crawl has the links %q, want 2 lines", lines)
	}
	for _, name := range []string{"crawler.link", table(t, cfg, "link")} {
		if !query[bool](t, cfg.DSN, fmt.Sprintf("SELECT has_table_privilege('%s', '%s', 'SELECT, INSERT')", role, name)) {
			t.Errorf("a role that may write records may not write %s", name)
		}
	}
	must(t, pgstore.Delete(t.Context(), cfg))
}
