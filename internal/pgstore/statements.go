package pgstore

import (
	"context"
	"embed"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// files has the statements. The tables of each crawl are made like template tables, such as
// crawler.exact_key. A statement for the tables of one crawl contains the names of the templates.
// The function statementsOf replaces these names.
//
//go:embed statements/*.sql
var files embed.FS

// statementsOf returns the statements for the tables of a crawl, by the names of their files. The
// name of a crawl's table is that of its template, followed by the crawl's number. The name needs
// no quotes.
func statementsOf(crawl int) map[string]string {
	var tables []string
	for _, template := range []string{"crawler.exact_key", "crawler.exact_waiting", "crawler.exact_pending", "crawler.record", "crawler.link"} {
		tables = append(tables, template, template+"_"+strconv.Itoa(crawl))
	}
	named := strings.NewReplacer(tables...)
	statements := map[string]string{}
	paths, _ := fs.Glob(files, "statements/*.sql") // the pattern is valid
	for _, file := range paths {
		text, _ := files.ReadFile(file) // Glob has found it
		statements[strings.TrimSuffix(path.Base(file), ".sql")] = named.Replace(string(text))
	}
	return statements
}

// sql returns the statement in the file with this name.
func (s *Store) sql(name string) string {
	text, ok := s.statements[name]
	if !ok {
		panic("pgstore: there is no statement " + name) // a test checks that each name has a file
	}
	return text
}

// exec executes a statement.
func (s *Store) exec(ctx context.Context, call, sql string, args ...any) error {
	return s.try(ctx, call, func(ctx context.Context) error {
		return s.run(ctx, sql, args, nil)
	})
}

// queryRow executes a statement that returns one row, and stores the columns of the row in
// dest.
func (s *Store) queryRow(ctx context.Context, call, sql string, args []any, dest ...any) error {
	return s.try(ctx, call, func(ctx context.Context) error {
		var batch pgx.Batch
		batch.Queue(sql, args...).QueryRow(func(row pgx.Row) error { return row.Scan(dest...) })
		return s.send(ctx, &batch)
	})
}

// query executes a statement and returns its rows, converted by the function scan.
func query[T any](ctx context.Context, s *Store, call, sql string, scan pgx.RowToFunc[T], args ...any) (found []T, err error) {
	err = s.try(ctx, call, func(ctx context.Context) error {
		return s.run(ctx, sql, args, func(rows pgx.Rows) (err error) {
			found, err = pgx.CollectRows(rows, scan)
			return err
		})
	})
	return found, err
}
