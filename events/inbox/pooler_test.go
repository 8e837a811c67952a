package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/bloomfrontier/crawler/events/inbox"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// pooled returns a pool that connects through a pgbouncer with the given mode, and the prefix of new tables. flags
// are further parameters of the URL.
func pooled(t *testing.T, mode, flags string) (*pgxpool.Pool, string) {
	t.Helper()
	server, err := commonServer()
	if errors.Is(err, servers.ErrMissing) && os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
		t.Skip(err)
	}
	must(t, err)
	prefix := fmt.Sprintf("pooled%d.", schemas.Add(1))
	direct := stdlib.OpenDBFromPool(connect(t, server.DSN()))
	defer direct.Close()
	_, err = inbox.Migrate(t.Context(), direct, prefix)
	must(t, err)
	_, err = direct.ExecContext(t.Context(), "CREATE TABLE "+prefix+"effect (id text)")
	must(t, err)
	bouncer := servers.PgBouncer(t, server, servers.PgBouncerOptions{Mode: mode, Config: "default_pool_size = 20"})
	return connect(t, bouncer.Through(server.DSN())+flags), prefix
}

// onlyDB hides that a DB is a pool.
type onlyDB struct{ inbox.DB }

// TestThroughPooler delivers each of 200 events three times at once, through pgbouncer. Each handler that succeeds takes effect
// once. With pgx's defaults Open refuses a pooler in transaction mode; if it could not find that out, every error is ErrPooler.
func TestThroughPooler(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode, flags string
		refused     bool
	}{
		{"session", "", false},
		{"session", "&default_query_exec_mode=exec", false},
		{"transaction", "&default_query_exec_mode=exec", false},
		{"transaction", "&default_query_exec_mode=cache_describe", false},
		{"transaction", "", true},
	} {
		t.Run(c.mode+c.flags, func(t *testing.T) {
			t.Parallel()
			pool, prefix := pooled(t, c.mode, c.flags)
			i, err := inbox.Open(t.Context(), inbox.Config{DB: pool, Group: "mail", Prefix: prefix})
			if errors.Is(err, inbox.ErrPooler) != c.refused {
				t.Fatalf("Open: %v, want ErrPooler: %t", err, c.refused)
			}
			if c.refused {
				if i, err = inbox.Open(t.Context(), inbox.Config{DB: onlyDB{pool}, Group: "mail", Prefix: prefix}); err != nil {
					t.Fatalf("Open of a DB that is no pool: %v", err)
				}
			} else {
				must(t, err)
			}
			var done, failed atomic.Int32
			var group sync.WaitGroup
			for n := range 600 {
				group.Go(func() {
					result, err := i.Once(t.Context(), fmt.Sprint(n%200), func(ctx context.Context, tx pgx.Tx) error {
						_, err := tx.Exec(ctx, "INSERT INTO "+prefix+"effect (id) VALUES ($1)", fmt.Sprint(n%200))
						return err
					})
					switch {
					case result == inbox.Done:
						done.Add(1)
					case err != nil && !(c.refused && errors.Is(err, inbox.ErrPooler) && strings.Contains(err.Error(), "default_query_exec_mode=exec")):
						t.Errorf("Once: %v", err)
					case err != nil:
						failed.Add(1)
					}
				})
			}
			group.Wait()
			var rows, ids int32
			must(t, pool.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT id) FROM "+prefix+"effect", pgx.QueryExecModeExec).Scan(&rows, &ids))
			if rows != done.Load() || ids != rows || !c.refused && rows != 200 || c.refused && failed.Load() == 0 {
				t.Errorf("%d calls were done and %d failed, %d effects of %d events", done.Load(), failed.Load(), rows, ids)
			}
			t.Logf("%d done, %d failed", done.Load(), failed.Load())
			if !c.refused {
				eachCall(t, i, pool, prefix)
			}
		})
	}
}

// eachCall makes the calls of an inbox that TestThroughPooler does not make.
func eachCall(t *testing.T, i *inbox.Inbox, pool *pgxpool.Pool, prefix string) {
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	_, err := inbox.Migrate(t.Context(), db, prefix)
	must(t, err)
	for n := range 20 {
		_, err = i.Store(t.Context(), inbox.Event{ID: fmt.Sprint("stored", n), Type: "mail", Data: []byte("x")})
		must(t, err)
	}
	_, err = i.Bury(t.Context(), inbox.Event{ID: "buried", Type: "mail"}, errors.New("no"))
	must(t, err)
	if dead, err := i.Dead(t.Context(), 9); err != nil || len(dead) != 1 {
		t.Errorf("Dead = %v, %v, want one letter", dead, err)
	}
	retried, err := i.Retry(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var handled atomic.Int32
	must(t, i.Work(ctx, quick(func(context.Context, pgx.Tx, inbox.Event) error {
		if handled.Add(1) == 21 {
			cancel()
		}
		return nil
	})))
	stats, err := i.Stats(t.Context())
	if err != nil || retried != 1 || handled.Load() < 21 || stats.Pending != 0 {
		t.Errorf("%d retried, %d handled, %+v, %v; want 1 and 21, and none pending", retried, handled.Load(), stats, err)
	}
	_, err = i.SweepOnce(t.Context(), inbox.SweepConfig{})
	must(t, err)
}
