package pgstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaVersion is the newest migration in migrations.
const schemaVersion = 15

// migrateLock is the advisory lock for changes of the schema: "crawler" in ASCII.
const migrateLock = 0x637261776c6572

// migrateTimeout limits the time of a migration, and the wait for a migration of another
// process.
const migrateTimeout = 10 * time.Minute

// Migrate brings the schema of a database up to date and returns the versions before
// and after. If several callers migrate at once, one does it and the others wait. Migrate
// uses only the connection settings of cfg. It returns ErrSchema if the schema is newer
// than this program.
func Migrate(ctx context.Context, cfg Config) (from, to int64, err error) {
	cfg.Crawl = "none" // required, but not used here
	s, err := connect(ctx, cfg)
	if err != nil {
		return 0, 0, err
	}
	defer s.Close()
	if from, err = s.version(ctx); err != nil {
		return 0, 0, err
	}
	return from, schemaVersion, s.checkSchema(ctx, true)
}

// checkSchema returns an error unless the schema has this program's version. If migrate
// is set, it first migrates an older schema.
func (s *Store) checkSchema(ctx context.Context, migrate bool) error {
	version, err := s.version(ctx)
	if err == nil && version < schemaVersion && !migrate {
		if err = s.awaitMigration(ctx); err == nil {
			version, err = s.version(ctx)
		}
	}
	switch {
	case err != nil:
		return err
	case version > schemaVersion:
		return fmt.Errorf("%w: the database has version %d, this program knows versions up to %d: use a newer program",
			ErrSchema, version, schemaVersion)
	case version == schemaVersion:
		return nil
	case !migrate:
		return fmt.Errorf("%w: the database has version %d, this program wants %d: run \"crawler migrate\"",
			ErrSchema, version, schemaVersion)
	}
	return s.migrate(ctx)
}

// awaitMigration waits until no other process migrates. Between two migrations the schema has an
// old version for a moment.
func (s *Store) awaitMigration(ctx context.Context) error {
	return s.exec(ctx, "wait for others to migrate", "SELECT pg_advisory_xact_lock_shared($1)", int64(migrateLock))
}

// version returns the version of the database's schema, or 0 if the database has none.
func (s *Store) version(ctx context.Context) (version int64, err error) {
	err = s.try(ctx, "read the schema's version", func(ctx context.Context) error {
		var batch pgx.Batch
		batch.Queue(s.sql("schema_version")).QueryRow(func(row pgx.Row) error { return row.Scan(&version) })
		err := s.send(ctx, &batch)
		if reply, ok := errors.AsType[*pgconn.PgError](err); ok && (reply.Code == "42P01" || reply.Code == "3F000") {
			version, err = 0, nil // the table does not exist, so there is no schema
		}
		return err
	})
	return version, err
}

// migrate runs the migrations that are missing. It holds a lock that belongs to a transaction,
// so the server releases the lock even if the process dies. The migrations themselves use another
// connection. On a connection to the server they have no timeout. Through a pooler they have the
// timeouts of the database and the user.
func (s *Store) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, migrateTimeout, errors.New("migrations take too long"))
	defer cancel()
	config := s.pool.Config().ConnConfig.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // prepares nothing
	patient := maps.Clone(s.settings)
	for _, timeout := range []string{"statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"} {
		patient[timeout] = "0"
	}
	patient.applyTo(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return explain("connect to migrate", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var lock pgx.Batch
	patient.queueIn(&lock)
	lock.Queue("SELECT pg_advisory_xact_lock($1)", int64(migrateLock))
	tx, err := conn.Begin(ctx)
	if err == nil {
		defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // if it fails, the end of the connection rolls back
		err = tx.SendBatch(ctx, &lock).Close()
	}
	if err != nil {
		return explain("wait for others to migrate", err)
	}
	// Another process might have migrated meanwhile. In that case there is nothing to do,
	// and this user needs no permission to migrate.
	if version, err := s.version(ctx); err != nil || version >= schemaVersion {
		return err
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA IF NOT EXISTS crawler"); err != nil {
		return explain("create the schema", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName("crawler.migration"),
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("pgstore: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		// If the transaction with the lock ended, another process may have migrated at the same time.
		if version, again := s.version(ctx); again == nil && version >= schemaVersion {
			return nil
		}
		return explain("migrate", err)
	}
	return nil
}
