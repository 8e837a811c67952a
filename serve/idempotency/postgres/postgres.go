// Package postgres is a store of answers in Postgres, for services of any number of processes.
//
// Handlers write through the pgx.Tx of their request: see Tx. Their writes are in a savepoint of
// the transaction that also stores the answer. So a refusal is stored while the writes are
// undone, also after a statement has failed.
//
// A request that is under way has an advisory lock, which ends with its transaction. So no row
// has to be cleaned up after a crash. The store works through pgbouncer in transaction mode: its
// own statements have no names, and it leaves nothing in the session. The statements of the
// handlers need default_query_exec_mode=exec there, as everywhere.
//
// Each request with a key uses one connection of the pool while its handler runs. If handlers
// asked the pool for a second connection, they could wait for each other.
package postgres

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// The texts of the files in the folder statements.
var (
	//go:embed statements/schema.sql
	schemaSQL string
	//go:embed statements/find.sql
	findSQL string
	//go:embed statements/lock.sql
	lockSQL string
	//go:embed statements/store.sql
	storeSQL string
	//go:embed statements/reserve.sql
	reserveSQL string
	//go:embed statements/sweep.sql
	sweepSQL string
	//go:embed statements/stats.sql
	statsSQL string
)

const schemaVersion = 1

// endTimeout is how long the end of a transaction can take after the effect.
const endTimeout = 5 * time.Second

var (
	// ErrSchema reports a database whose tables are missing or have another version.
	ErrSchema = errors.New("postgres: the tables of answers are missing or have another version: call Migrate")
	// ErrTransaction is returned to a handler that calls Commit or Rollback of its transaction.
	ErrTransaction = errors.New("postgres: a handler does not end its transaction")
)

// DB has the methods of *pgxpool.Pool that a Store calls.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Config configures a Store. DB is required.
type Config struct {
	DB DB
	// Schema is the schema of the tables, in lower case; empty means "idempotency".
	Schema string
	// Now is the clock for the expiry of rows; nil means the clock of the server. Only tests set it.
	Now func() time.Time
}

// Store is an idempotency.Store in Postgres. It is safe for concurrent use.
type Store struct{ cfg Config }

var _ idempotency.Store = (*Store)(nil)

var schemaForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func (c Config) withDefaults() (Config, error) {
	c.Schema = cmp.Or(c.Schema, "idempotency")
	var errs []error
	if c.DB == nil {
		errs = append(errs, errors.New("postgres: Config.DB is nil"))
	}
	if !schemaForm.MatchString(c.Schema) {
		errs = append(errs, fmt.Errorf("postgres: Config.Schema is %q, want up to 63 lower-case letters, digits and underscores", c.Schema))
	}
	return c, errors.Join(errs...)
}

// Migrate creates cfg.Schema and its tables, unless they exist. If several callers
// run at the same time, one creates them and the others wait. It needs the privilege CREATE of the
// database. Open needs only USAGE of the schema and SELECT, INSERT, UPDATE and DELETE of the tables.
func Migrate(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}
	err = pgx.BeginTxFunc(ctx, cfg.DB, pgx.TxOptions{}, func(tx pgx.Tx) error {
		const lock = "SELECT pg_advisory_xact_lock(hashtextextended('migrate idempotency.', 0))"
		for _, text := range []string{lock, "CREATE SCHEMA IF NOT EXISTS " + cfg.Schema, schemaSQL} {
			// The simple protocol, because schema.sql has several statements.
			if _, err := tx.Exec(ctx, inSchema(text, cfg.Schema), pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("postgres: migrate %q: %w", cfg.Schema, err)
	}
	return nil
}

// Open returns the store in the tables that Migrate created. The error is ErrSchema if they are
// missing, or if a program with another version created them.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg}
	var version int
	err = s.queryRow(ctx, cfg.DB, "SELECT version FROM idempotency.version").Scan(&version)
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok && (reply.Code == "42P01" || reply.Code == "3F000") {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if err != nil {
		return nil, fmt.Errorf("postgres: open %q: %w", cfg.Schema, err)
	}
	if version != schemaVersion {
		return nil, fmt.Errorf("%w: %q has version %d, this program needs %d", ErrSchema, cfg.Schema, version, schemaVersion)
	}
	return s, nil
}

// inSchema replaces the schema "idempotency", in which all tables of the statements are, by schema.
func inSchema(text, schema string) string {
	return strings.ReplaceAll(text, "idempotency.", schema+".")
}

// querier is a DB or a pgx.Tx.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// queryRow executes a statement without a name, so that it works through a pooler.
func (s *Store) queryRow(ctx context.Context, on querier, text string, args ...any) pgx.Row {
	return on.QueryRow(ctx, inSchema(text, s.cfg.Schema), append([]any{pgx.QueryExecModeExec}, args...)...)
}

// clock returns the time argument of statements: nil means the clock of the server.
func (s *Store) clock() *time.Time {
	if s.cfg.Now == nil {
		return nil
	}
	now := s.cfg.Now()
	return &now
}

// handlersTx is the transaction that handlers get. They cannot end it.
type handlersTx struct{ pgx.Tx }

// Commit returns ErrTransaction.
func (handlersTx) Commit(context.Context) error { return ErrTransaction }

// Rollback returns ErrTransaction.
func (handlersTx) Rollback(context.Context) error { return ErrTransaction }

type txKey struct{}

// Tx returns the transaction of the request whose context is ctx, READ COMMITTED. The handler
// writes its effect through it, and does not end it. Tx panics if ctx is not from a handler behind
// a Middleware with a Store of this package.
func Tx(ctx context.Context) pgx.Tx {
	tx, ok := ctx.Value(txKey{}).(pgx.Tx)
	if !ok {
		panic("postgres: the context has no transaction: the handler needs a Middleware, and one of POST, PATCH, PUT and DELETE")
	}
	return tx
}

// Do implements idempotency.Store.
func (s *Store) Do(ctx context.Context, r idempotency.Request, effect func(context.Context) idempotency.Result) (*idempotency.Answer, error) {
	if _, replay, err := s.find(ctx, s.cfg.DB, r); err != nil || replay != nil {
		return replay, err
	}
	tx, err := s.cfg.DB.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return nil, fmt.Errorf("postgres: begin: %w", err)
	}
	// After a commit, Rollback does nothing. It is deferred because the handler can panic.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		_ = tx.Rollback(ctx) // if it fails, the end of the connection rolls back
	}()
	locked, err := s.lock(ctx, tx, r.ID)
	if err != nil {
		return nil, err
	}
	// Again: another request may have stored its answer before the lock was free.
	slot, replay, err := s.find(ctx, tx, r)
	switch {
	case err != nil || replay != nil:
		return replay, err
	case !locked:
		return nil, idempotency.ErrUnderWay
	case r.Issued && !slot:
		return nil, idempotency.ErrUnknownKey
	}
	crash.Point("idempotency started")
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("postgres: savepoint: %w", err)
	}
	result := effect(context.WithValue(ctx, txKey{}, pgx.Tx(handlersTx{savepoint})))
	crash.Point("idempotency effect")
	if !result.Commit && result.Answer == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := s.end(ctx, tx, savepoint, r, result); err != nil {
		return nil, fmt.Errorf("postgres: commit: %w", err)
	}
	return nil, nil
}

// lock tries to lock a request until the end of tx.
func (s *Store) lock(ctx context.Context, tx pgx.Tx, id idempotency.ID) (locked bool, err error) {
	idle := time.Hour
	if deadline, ok := ctx.Deadline(); ok {
		idle = max(time.Until(deadline), 0) + 2*endTimeout
	}
	var ignored string
	if err := s.queryRow(ctx, tx, lockSQL, id[:], strconv.FormatInt(idle.Milliseconds(), 10)).Scan(&locked, &ignored); err != nil {
		return false, fmt.Errorf("postgres: lock the request: %w", err)
	}
	return locked, nil
}

// end undoes or keeps the effect, stores the answer, and commits.
func (s *Store) end(ctx context.Context, tx, savepoint pgx.Tx, r idempotency.Request, result idempotency.Result) error {
	end := savepoint.Rollback
	if result.Commit {
		end = savepoint.Commit
	}
	if err := end(ctx); err != nil {
		return err
	}
	if a := result.Answer; a != nil {
		header, err := json.Marshal(a.Header)
		if err != nil {
			return err
		}
		ttl := r.TTL.Microseconds()
		_, err = tx.Exec(ctx, inSchema(storeSQL, s.cfg.Schema), pgx.QueryExecModeExec,
			r.ID[:], r.Digest[:], a.Status, string(header), a.Body, ttl, s.clock())
		if err != nil {
			return err
		}
	}
	crash.Point("idempotency answer")
	err := tx.Commit(ctx)
	crash.Point("idempotency committed")
	return err
}

// find returns the answer of a request, and whether there is a slot instead.
func (s *Store) find(ctx context.Context, on querier, r idempotency.Request) (slot bool, replay *idempotency.Answer, err error) {
	var digest, header []byte
	a := new(idempotency.Answer)
	err = s.queryRow(ctx, on, findSQL, r.ID[:], s.clock()).Scan(&digest, &a.Status, &header, &a.Body)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return false, nil, nil
	case err != nil:
		return false, nil, fmt.Errorf("postgres: find the answer: %w", err)
	case digest == nil:
		return true, nil, nil
	case !bytes.Equal(digest, r.Digest[:]):
		return false, nil, idempotency.ErrOtherPayload
	}
	if err := json.Unmarshal(header, &a.Header); err != nil {
		return false, nil, fmt.Errorf("postgres: read the header of an answer: %w", err)
	}
	return false, a, nil
}

// Reserve implements idempotency.Store.
func (s *Store) Reserve(ctx context.Context, id idempotency.ID, ttl time.Duration) (expires time.Time, err error) {
	if err := s.queryRow(ctx, s.cfg.DB, reserveSQL, id[:], ttl.Microseconds(), s.clock()).Scan(&expires); err != nil {
		return time.Time{}, fmt.Errorf("postgres: reserve a slot: %w", err)
	}
	return expires, nil
}

// Sweep implements idempotency.Store.
func (s *Store) Sweep(ctx context.Context, limit int) (deleted int, err error) {
	if err := s.queryRow(ctx, s.cfg.DB, sweepSQL, limit, s.clock()).Scan(&deleted); err != nil {
		return 0, fmt.Errorf("postgres: sweep: %w", err)
	}
	return deleted, nil
}

// Stats implements idempotency.Store.
func (s *Store) Stats(ctx context.Context) (stats idempotency.Stats, err error) {
	var micros int64
	if err := s.queryRow(ctx, s.cfg.DB, statsSQL, s.clock()).Scan(&micros); err != nil {
		return stats, fmt.Errorf("postgres: stats: %w", err)
	}
	stats.SweepLag = time.Duration(micros) * time.Microsecond
	return stats, nil
}
