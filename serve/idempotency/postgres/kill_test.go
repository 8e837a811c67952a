package postgres_test

import (
	"context"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/serve/idempotency/idempotencytest"
	"github.com/bloomfrontier/crawler/serve/idempotency/postgres"
)

const dsnVariable, schemaVariable = "IDEMPOTENCY_TEST_DSN", "IDEMPOTENCY_TEST_SCHEMA"

// child is the child process of TestKilled.
func child() {
	idempotencytest.Child(func(ctx context.Context) (idempotencytest.Backend, error) {
		config, err := pgxpool.ParseConfig(os.Getenv(dsnVariable))
		if err != nil {
			return nil, err
		}
		config.ConnConfig.RuntimeParams["application_name"] = os.Getenv(schemaVariable)
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		b := &backend{schema: os.Getenv(schemaVariable), pool: pool}
		b.store, err = postgres.Open(ctx, postgres.Config{DB: pool, Schema: b.schema})
		return b, err
	})
}

// TestKilled kills a process with kill -9 between the effect and the answer.
func TestKilled(t *testing.T) {
	dsn := server(t).DSN()
	b := open(t, dsn, dsn, false, nil)
	idempotencytest.Killed(t, []string{dsnVariable + "=" + dsn, schemaVariable + "=" + b.schema},
		func() (idempotencytest.Backend, func()) { b.Restart(); return b, func() {} })
}
