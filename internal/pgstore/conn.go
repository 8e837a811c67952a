package pgstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A connection leads to the server, or to a pooler such as pgbouncer, which gives the client a
// session of the server: for as long as the client is connected, or in transaction mode for one
// transaction. The package works with all three, and needs no session:
//
//   - No setting is a start-up parameter, because poolers refuse most of them. On a connection
//     to the server they are set once. Through a pooler each transaction sets them for itself,
//     in the round trip of its first statement.
//   - Through a pooler no prepared statement has a name.
//   - Locks that outlive a statement belong to a transaction, and holds of relays are rows.
//
// LISTEN is the exception. Through a pooler relays do not listen, and read the outbox each second.

// parsed returns the configuration of the pool. The settings of the DSN have precedence over those of c.
func (c *Config) parsed() (*pgxpool.Config, settings, error) {
	pool, err := pgxpool.ParseConfig(c.DSN)
	if err != nil {
		// The parser's error contains the DSN, and does not hide every password.
		return nil, nil, errors.New("pgstore: DSN cannot be read, want postgres://user:password@host:port/database")
	}
	pool.MaxConns = int32(c.MaxConns)
	pool.PingTimeout = c.ConnectTimeout
	pool.ConnConfig.ConnectTimeout = c.ConnectTimeout
	set := c.sessionSettings()
	startup := map[string]string{"application_name": "crawler"}
	for name, value := range pool.ConnConfig.RuntimeParams {
		switch name {
		case "application_name", "options", "replication": // poolers know the first; the others cannot be set later
			startup[name] = value
		default:
			set[name] = value
		}
	}
	pool.ConnConfig.RuntimeParams = startup
	var nameless atomic.Bool // a connection led to a pooler
	pool.BeforeConnect = func(_ context.Context, conn *pgx.ConnConfig) error {
		set.applyTo(conn)
		if nameless.Load() && conn.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		}
		return nil
	}
	pool.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		if isPooled(conn) && conn.Config().DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
			nameless.Store(true)
			return errPooler
		}
		return nil
	}
	return pool, set, nil
}

// errPooler ends the first connection that leads to a pooler, because its statements would have names. The
// call is tried again on a connection whose statements have none.
var errPooler = errors.New("the server is a pooler")

// settings are settings of the server, by name.
type settings map[string]string

// statement returns a statement that changes the settings, for the session or for its transaction
// only, and its arguments.
func (s settings) statement(transaction bool) (sql string, args []string) {
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		calls = append(calls, fmt.Sprintf("set_config($%d, $%d, %t)", len(args)+1, len(args)+2, transaction))
		args = append(args, name, s[name])
	}
	return "SELECT " + strings.Join(calls, ", "), args
}

// pooled is a key of the custom data of connections that lead to a pooler.
const pooled = "pooled"

// applyTo makes a connection of config set the settings when it begins, if it leads to the server.
// Only then is the process id that the other side gave the connection that of its session.
func (s settings) applyTo(config *pgx.ConnConfig) {
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		sql, args := s.statement(false)
		values := make([][]byte, len(args))
		for i, arg := range args {
			values[i] = []byte(arg)
		}
		sql += " WHERE pg_backend_pid() = " + strconv.FormatUint(uint64(conn.PID()), 10)
		result := conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
		if result.Err != nil || len(result.Rows) > 0 {
			return result.Err
		}
		conn.CustomData()[pooled] = true
		return nil
	}
}

func isPooled(conn *pgx.Conn) bool { return conn.PgConn().CustomData()[pooled] != nil }

// queueIn adds a statement to batch that changes the settings for the transaction.
func (s settings) queueIn(batch *pgx.Batch) {
	sql, args := s.statement(true)
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg
	}
	batch.Queue(sql, values...)
}

// send runs the statements of batch as one transaction, in one round trip, with a snapshot for each of them.
func (s *Store) send(ctx context.Context, batch *pgx.Batch) error {
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		all := batch
		if isPooled(conn.Conn()) {
			all = new(pgx.Batch)
			s.settings.queueIn(all)
			all.QueuedQueries = append(all.QueuedQueries, batch.QueuedQueries...)
		}
		return conn.SendBatch(ctx, all).Close()
	})
}

// inTransaction calls body in a transaction that has the settings of the Store.
func (s *Store) inTransaction(ctx context.Context, options pgx.TxOptions, body func(pgx.Tx) error) error {
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			if isPooled(conn.Conn()) {
				var first pgx.Batch
				s.settings.queueIn(&first)
				if err := tx.SendBatch(ctx, &first).Close(); err != nil {
					return err
				}
			}
			return body(tx)
		})
	})
}

// run runs one statement. The function read, unless it is nil, reads the rows.
func (s *Store) run(ctx context.Context, sql string, args []any, read func(pgx.Rows) error) error {
	var batch pgx.Batch
	if queued := batch.Queue(sql, args...); read != nil {
		queued.Query(read)
	}
	return s.send(ctx, &batch)
}
