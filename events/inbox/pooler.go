package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ErrPooler reports that the connections lead to a pooler in transaction mode, such as pgbouncer, while pgx gives
// names to prepared statements, as it does by default. A statement is then missing in the session of the next
// transaction.
var ErrPooler = errors.New("inbox: named prepared statements through a pooler in transaction mode: " +
	"add default_query_exec_mode=exec to the URL, or set DefaultQueryExecMode of pgx.ConnConfig to pgx.QueryExecModeExec")

// explain returns err, as an ErrPooler if the server says that a prepared statement is missing, or that another client
// has prepared one with this name.
func explain(err error) error {
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok && (reply.Code == "26000" || reply.Code == "42P05") {
		return fmt.Errorf("%w: %w", ErrPooler, err)
	}
	return err
}

// checkPooler returns ErrPooler if db is a pool whose statements have names, and two of its connections get the same
// session of the server one after the other. While other clients use the pooler too, this might not happen. Calls
// of the Inbox then return ErrPooler later. checkPooler takes at most 2 s.
func checkPooler(ctx context.Context, db DB) error {
	pool, ok := db.(*pgxpool.Pool)
	if !ok || pool.Config().MaxConns < 2 || pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	session := func(conn *pgxpool.Conn) (pid uint32) { // 0 after an error
		_ = conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
		return pid
	}
	first, err := pool.Acquire(ctx)
	if err != nil {
		return nil // Open reports why
	}
	defer first.Release()
	if session(first) == first.Conn().PgConn().PID() {
		return nil // there is no pooler
	}
	second, err := pool.Acquire(ctx)
	if err != nil {
		return nil
	}
	defer second.Release()
	for range 5 {
		if pid := session(first); pid != 0 && pid == session(second) {
			return ErrPooler
		}
	}
	return nil
}
