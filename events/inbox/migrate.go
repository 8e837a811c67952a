package inbox

import (
	"cmp"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
)

// The migrations are in order. New ones are added at the end. All of them write the names
// of tables with the prefix "inbox.", such as "inbox.seen".
var migrations = []string{inboxMigration}

//go:embed migrations/00001_inbox.sql
var inboxMigration string

const schemaVersion = 1

// Migrate brings the tables whose names begin with prefix up to date and returns their
// version. It creates the schema if it is missing. An empty prefix means "inbox.". If
// several callers run at the same time, one migrates and the others wait. db needs two
// connections. For a pool of pgx, use stdlib.OpenDBFromPool(pool).
func Migrate(ctx context.Context, db *sql.DB, prefix string) (version int64, err error) {
	prefix = cmp.Or(prefix, "inbox.")
	if err := checkPrefix(prefix); err != nil {
		return 0, err
	}
	if version, err = migrate(ctx, db, prefix); err != nil {
		return 0, fmt.Errorf("inbox: migrate %q: %w", prefix, explain(err))
	}
	if version > schemaVersion {
		return version, fmt.Errorf("%w: %q has version %d, this program knows %d: use a newer one",
			ErrSchema, prefix, version, schemaVersion)
	}
	return version, nil
}

// createSchema creates a schema, unless another caller has created it meanwhile. IF NOT EXISTS would need the
// right to create schemas even if there is one, and can fail too if two callers create it at once.
func createSchema(ctx context.Context, db *sql.DB, schema string) error {
	_, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema)
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok && (reply.Code == "42P06" || reply.Code == "23505") {
		return nil // it exists, or its row was inserted at the same moment
	}
	return err
}

// migrate migrates under an advisory lock. The lock belongs to a transaction, because a pooler in
// transaction mode gives the session to other clients after it.
func migrate(ctx context.Context, db *sql.DB, prefix string) (version int64, err error) {
	lock, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Rollback() }() // if it fails, the end of the connection rolls back
	const wait = "SELECT pg_advisory_xact_lock(hashtextextended('inbox ' || $1, 0))"
	if _, err := lock.ExecContext(ctx, wait, prefix); err != nil {
		return 0, err
	}
	schema, _, _ := strings.Cut(prefix, ".")
	var exists bool
	if err := lock.QueryRowContext(ctx, "SELECT to_regnamespace($1) IS NOT NULL", schema).Scan(&exists); err != nil {
		return 0, err
	}
	if !exists {
		if err := createSchema(ctx, db, schema); err != nil {
			return 0, err
		}
	}
	var steps []*goose.Migration
	for n, text := range migrations {
		steps = append(steps, goose.NewGoMigration(int64(n+1), &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, withPrefix(text, prefix))
			return err
		}}, nil))
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, nil, goose.WithGoMigrations(steps...),
		goose.WithTableName(prefix+"migration"), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return 0, err
	}
	if _, err := provider.Up(ctx); err != nil {
		// If the transaction with the lock ended, another process may have migrated at the same time.
		if version, again := provider.GetDBVersion(ctx); again == nil && version >= schemaVersion {
			return version, nil
		}
		return 0, err
	}
	return provider.GetDBVersion(ctx)
}
