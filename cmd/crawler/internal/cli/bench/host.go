package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9/logging"

	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/bench/sets"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// host contains the measured servers: servers that flags name, or servers that this
// process has started.
type host struct {
	redis    *sets.Redis // nil means none
	named    bool        // the Redis comes from a flag
	noRedis  string      // why there is no Redis
	hasBloom bool        // Redis has a Bloom module

	postgres      string // URL of the Postgres; empty means none
	namedPostgres bool   // the Postgres comes from a flag
	noPostgres    string // why there is no Postgres

	servers []report.Server
	dir     string // for stores on disk
	closers []func() error
}

// openHost connects to the servers or starts them. If a server is missing, openHost
// stores the reason in noRedis or noPostgres.
func openHost(ctx context.Context, o *options) (*host, error) {
	logging.Disable() // go-redis also returns the errors that it prints
	dir, err := os.MkdirTemp("", "crawler-bench-")
	if err != nil {
		return nil, err
	}
	h := &host{dir: dir, named: o.redis != "", namedPostgres: o.postgres != ""}
	h.closers = append(h.closers, func() error { return os.RemoveAll(dir) })
	if err := h.openRedis(ctx, o.redis); err != nil {
		h.redis, h.noRedis = nil, err.Error()
	}
	if err := h.openPostgres(ctx, o.postgres); err != nil {
		h.postgres, h.noPostgres = "", err.Error()
	}
	return h, nil
}

func (h *host) openRedis(ctx context.Context, named string) (err error) {
	if h.named {
		h.redis, err = sets.DialRedis(named)
	} else {
		h.redis, err = sets.StartRedis(ctx, servers.RedisOptions{})
	}
	if errors.Is(err, servers.ErrMissing) {
		return errors.New("no --redis is given, and redis-server is not installed")
	}
	if err != nil {
		return err
	}
	h.closers = append(h.closers, h.redis.Close)
	text, err := h.redis.Client.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask Redis for its version: %w", err)
	}
	version := "unknown"
	for line := range strings.Lines(text) {
		if text, found := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); found {
			version = text
		}
	}
	h.servers = append(h.servers, report.Server{Name: "Redis", Version: version, Private: !h.named})
	h.hasBloom, err = sets.HasBloom(ctx, h.redis.Client)
	return err
}

func (h *host) openPostgres(ctx context.Context, named string) error {
	h.postgres = named
	if !h.namedPostgres {
		server, err := servers.StartPostgres(ctx, servers.PostgresOptions{})
		if errors.Is(err, servers.ErrMissing) {
			return errors.New("no --postgres is given, and Postgres is not installed")
		}
		if err != nil {
			return err
		}
		h.closers = append(h.closers, server.Close)
		h.postgres = server.DSN()
	}
	conn, err := pgx.Connect(ctx, h.postgres)
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	version := conn.PgConn().ParameterStatus("server_version")
	h.servers = append(h.servers, report.Server{Name: "Postgres", Version: version, Private: !h.namedPostgres})
	return conn.Close(ctx)
}

// noBloom returns why measurements that need a Bloom module are missing. It returns "" if
// Redis has the module. If there is no Redis, it also returns "", because noRedis has the
// reason.
func (h *host) noBloom() string {
	if h.redis == nil || h.hasBloom {
		return ""
	}
	return "this Redis has no Bloom module"
}

func nothing() error { return nil }

// sameRedis is a sets.OpenRedis that always returns the same Redis.
func (h *host) sameRedis(context.Context) (*sets.Redis, error) {
	r := *h.redis
	r.Close = nothing
	return &r, nil
}

// anotherRedis returns a function that starts a new Redis in each call. If a flag names a
// Redis, the function always returns the named one.
func (h *host) anotherRedis(options servers.RedisOptions) sets.OpenRedis {
	if h.named {
		return h.sameRedis
	}
	return func(ctx context.Context) (*sets.Redis, error) { return sets.StartRedis(ctx, options) }
}

// samePostgres is a sets.OpenPostgres that always returns the same Postgres.
func (h *host) samePostgres(context.Context) (dsn string, end func() error, err error) {
	return h.postgres, nothing, nil
}

// anotherPostgres is a sets.OpenPostgres. If a flag names a Postgres, it returns that
// one. Otherwise it starts a new Postgres each time. The commits of a new Postgres
// survive a power loss, as a crawl requires.
func (h *host) anotherPostgres(ctx context.Context) (dsn string, end func() error, err error) {
	if h.namedPostgres {
		return h.samePostgres(ctx)
	}
	server, err := servers.StartPostgres(ctx, servers.PostgresOptions{FSync: true})
	if err != nil {
		return "", nil, err
	}
	return server.DSN(), server.Close, nil
}

// close stops the servers that were started, in reverse order.
func (h *host) close() error {
	var errs []error
	for i := len(h.closers) - 1; i >= 0; i-- {
		errs = append(errs, h.closers[i]())
	}
	return errors.Join(errs...)
}

func checkRedis(text string) error {
	options, err := redisstore.ParseURL(text)
	if err != nil {
		return fmt.Errorf("want redis://[USER:PASSWORD@]HOST[:PORT], rediss:// with TLS or unix:///PATH: %w", err)
	}
	if len(options.Addrs) > 1 {
		return errors.New("want a single server, not a cluster")
	}
	return nil
}
