package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/bench/memory"
	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
)

// host is what is measured on: the servers that were named, else private ones.
type host struct {
	redis    *redis.UniversalOptions // nil: none
	named    bool                    // Redis is the one that a flag named
	client   redis.UniversalClient   // of it
	noRedis  string                  // why there is none
	hasBloom bool                    // Redis has a Bloom module

	postgres      string // its URL; empty: none
	namedPostgres bool   // it is the one that a flag named
	noPostgres    string // why there is none

	servers []report.Server
	dir     string // for what is measured on disk
	closers []func() error
}

// openHost finds or starts what can be had; what cannot it says why.
func openHost(ctx context.Context, o *options) (*host, error) {
	logging.Disable() // what go-redis prints by itself it returns as well
	h := new(host)
	dir, err := os.MkdirTemp("", "crawler-bench-")
	if err != nil {
		return nil, err
	}
	h.dir = dir
	h.closers = append(h.closers, func() error { return os.RemoveAll(dir) })
	if err := h.openRedis(ctx, o.redis); err != nil {
		h.redis, h.noRedis = nil, err.Error()
	}
	if err := h.openPostgres(ctx, o.postgres); err != nil {
		h.postgres, h.noPostgres = "", err.Error()
	}
	return h, nil
}

func (h *host) openRedis(ctx context.Context, named string) error {
	private := named == ""
	if private {
		server, err := servers.StartRedis(ctx, quiet)
		if errors.Is(err, servers.ErrMissing) {
			return errors.New("no --redis is given, and redis-server is not installed")
		}
		if err != nil {
			return err
		}
		h.closers = append(h.closers, server.Close)
		h.redis = &redis.UniversalOptions{Addrs: []string{server.Socket()}}
	} else {
		options, err := redisstore.ParseURL(named)
		if err != nil {
			return err
		}
		h.redis = options
	}
	h.client = newClient(h.redis)
	h.closers = append(h.closers, h.client.Close)
	version, err := redisVersion(ctx, h.client)
	if err != nil {
		return err
	}
	h.named = !private
	h.servers = append(h.servers, report.Server{Name: "Redis", Version: version, Private: private})
	h.hasBloom, err = memory.HasBloom(ctx, h.client)
	return err
}

// quiet keeps what Redis remembers of commands out of what is weighed.
var quiet = servers.RedisOptions{Config: map[string]string{"slowlog-log-slower-than": "-1", "latency-tracking": "no"}}

// newClient returns a client that asks a server of any age for nothing but what
// it is told to.
func newClient(options *redis.UniversalOptions) redis.UniversalClient {
	settings := *options
	settings.DisableIdentity = true
	settings.ContextTimeoutEnabled = true
	settings.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewUniversalClient(&settings)
}

// openAnother is a memory.OpenRedis: a fresh Redis, unless one was named.
func (h *host) openAnother(ctx context.Context) (memory.RedisServer, error) {
	if h.named {
		return memory.RedisServer{Options: h.redis, Close: func() error { return nil }}, nil
	}
	server, err := servers.StartRedis(ctx, quiet)
	if err != nil {
		return memory.RedisServer{}, err
	}
	return memory.RedisServer{Options: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Close: server.Close}, nil
}

func (h *host) openPostgres(ctx context.Context, named string) error {
	h.postgres, h.namedPostgres = named, named != ""
	if named == "" {
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
	h.servers = append(h.servers, report.Server{Name: "Postgres", Version: version, Private: named == ""})
	return conn.Close(ctx)
}

// redisVersion returns what the server says it is.
func redisVersion(ctx context.Context, client redis.UniversalClient) (string, error) {
	text, err := client.Info(ctx, "server").Result()
	if err != nil {
		return "", fmt.Errorf("ask Redis for its version: %w", err)
	}
	for line := range strings.Lines(text) {
		if version, found := strings.CutPrefix(strings.TrimSpace(line), "redis_version:"); found {
			return version, nil
		}
	}
	return "unknown", nil
}

// close ends what was started, the last first.
func (h *host) close() error {
	var errs []error
	for i := len(h.closers) - 1; i >= 0; i-- {
		errs = append(errs, h.closers[i]())
	}
	return errors.Join(errs...)
}

func checkRedis(text string) error {
	if _, err := redisstore.ParseURL(text); err != nil {
		return fmt.Errorf("want redis://[USER:PASSWORD@]HOST[:PORT], rediss:// with TLS or unix:///PATH: %w", err)
	}
	return nil
}

func checkPostgres(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" { // the parser's error would show the password
		return errors.New("want postgres://[USER:PASSWORD@]HOST[:PORT]/DATABASE")
	}
	return nil
}

// withoutSecrets returns a URL without its user and its query. A password may
// have any character: whatever stands before an @ goes.
func withoutSecrets(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest[strings.LastIndexByte(rest, '@')+1:], "?")
	return scheme + "://" + rest
}
