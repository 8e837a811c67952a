package sets

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/internal/bench/report"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// Host contains what a benchmark measures: a Redis and a Postgres, which the user names or
// this process has started, and a directory.
type Host struct {
	Redis    *Redis // nil means none
	NoRedis  string // why there is no Redis
	HasBloom bool   // Redis has a Bloom module

	Postgres   string // URL of the Postgres; empty means none
	NoPostgres string // why there is no Postgres

	Servers []report.Server
	Dir     string // for stores on disk

	named, namedPostgres bool // the user names the Redis, or the Postgres
	closers              []func() error
}

// OpenHost connects to the servers at the URLs. If a URL is empty, it starts a server. If
// a server is missing, OpenHost stores the reason in NoRedis or NoPostgres. The URL of the
// Redis must have a single address. The caller must call Close.
func OpenHost(ctx context.Context, redisURL, postgresURL string) (*Host, error) {
	dir, err := os.MkdirTemp("", "crawler-bench-")
	if err != nil {
		return nil, err
	}
	h := &Host{Dir: dir, named: redisURL != "", namedPostgres: postgresURL != ""}
	h.closers = append(h.closers, func() error { return os.RemoveAll(dir) })
	if err := h.openRedis(ctx, redisURL); err != nil {
		h.Redis, h.NoRedis = nil, err.Error()
	}
	if err := h.openPostgres(ctx, postgresURL); err != nil {
		h.Postgres, h.NoPostgres = "", err.Error()
	}
	return h, nil
}

func (h *Host) openRedis(ctx context.Context, named string) (err error) {
	if h.named {
		h.Redis, err = dialRedis(named)
	} else {
		h.Redis, err = StartRedis(ctx, servers.RedisOptions{})
	}
	if errors.Is(err, servers.ErrMissing) {
		return errors.New("no --redis is given, and redis-server is not installed")
	}
	if err != nil {
		return err
	}
	h.closers = append(h.closers, h.Redis.Close)
	info := h.Redis.Client.InfoMap(ctx, "server")
	if err := info.Err(); err != nil {
		return fmt.Errorf("ask Redis for its version: %w", err)
	}
	version := info.Item("Server", "redis_version")
	h.Servers = append(h.Servers, report.Server{Name: "Redis", Version: version, Private: !h.named})
	h.HasBloom, err = HasBloom(ctx, h.Redis.Client)
	return err
}

func (h *Host) openPostgres(ctx context.Context, named string) error {
	h.Postgres = named
	if !h.namedPostgres {
		server, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
		if errors.Is(err, servers.ErrMissing) {
			return errors.New("no --postgres is given, and Postgres is not installed")
		}
		if err != nil {
			return err
		}
		h.closers = append(h.closers, server.Close)
		h.Postgres = server.DSN()
	}
	conn, err := pgx.Connect(ctx, h.Postgres)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	version := conn.PgConn().ParameterStatus("server_version")
	h.Servers = append(h.Servers, report.Server{Name: "Postgres", Version: version, Private: !h.namedPostgres})
	return conn.Close(ctx)
}

// NoBloom returns why measurements that need a Bloom module are missing. It returns "" if
// Redis has the module. If there is no Redis, it also returns "", because NoRedis has the
// reason.
func (h *Host) NoBloom() string {
	if h.Redis == nil || h.HasBloom {
		return ""
	}
	return "this Redis has no Bloom module"
}

// SameRedis is an OpenRedis that always returns the same Redis.
func (h *Host) SameRedis(context.Context) (*Redis, error) {
	r := *h.Redis
	r.Close = nothing
	return &r, nil
}

// AnotherRedis returns a function that starts a new Redis in each call. If the user names
// a Redis, the function always returns the named one.
func (h *Host) AnotherRedis(options servers.RedisOptions) OpenRedis {
	if h.named {
		return h.SameRedis
	}
	return func(ctx context.Context) (*Redis, error) { return StartRedis(ctx, options) }
}

// SamePostgres is an OpenPostgres that always returns the same Postgres.
func (h *Host) SamePostgres(context.Context) (dsn string, end func() error, err error) {
	return h.Postgres, nothing, nil
}

// AnotherPostgres is an OpenPostgres. If the user names a Postgres, it returns that
// one. Otherwise it starts a new Postgres each time. The commits of a new Postgres
// survive a power loss, as a crawl requires.
func (h *Host) AnotherPostgres(ctx context.Context) (dsn string, end func() error, err error) {
	if h.namedPostgres {
		return h.SamePostgres(ctx)
	}
	server, err := servers.StartPostgres(ctx, servers.PostgresOptions{FSync: true})
	if err != nil {
		return "", nil, err
	}
	return server.DSN(), server.Close, nil
}

// Close stops the servers that were started, in reverse order, and removes the directory.
func (h *Host) Close() error {
	var errs []error
	for i := len(h.closers) - 1; i >= 0; i-- {
		errs = append(errs, h.closers[i]())
	}
	return errors.Join(errs...)
}
