package bench

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bench/agenda"
	"github.com/bloomfrontier/crawler/bench/report"
	"github.com/bloomfrontier/crawler/bench/servers"
	"github.com/bloomfrontier/crawler/bench/speed"
)

// seenSteps measure how links are decided.
func seenSteps(o *options, h *host) (*report.Section, []*agenda.Step) {
	config := h.speedOf(o)
	if h.postgres != "" {
		config.Subjects = append(config.Subjects, speed.Postgres(h.openSynced))
	}
	section, steps := speed.Seen(config)
	if h.redis == nil {
		section.Miss("redisbits and redisstore", h.noRedis)
	}
	if h.postgres == "" {
		section.Miss("pgstore", h.noPostgres)
	}
	return section, steps
}

// frontierSteps measure how pages are leased and completed.
func frontierSteps(o *options, h *host) (*report.Section, []*agenda.Step) {
	section, steps := speed.Frontier(h.speedOf(o))
	if h.redis == nil {
		section.Miss("redisstore", h.noRedis)
	}
	return section, steps
}

// speedOf are all sets and stores that can be had.
func (h *host) speedOf(o *options) speed.Config {
	config := speed.Config{Keys: uint64(o.keys), Subjects: []speed.Subject{speed.Memory(), speed.Local(h.dir)}}
	if h.redis != nil {
		config.Subjects = append(config.Subjects, speed.RedisFilter(h.openLogged), speed.RedisStore(h.openLogged))
	}
	return config
}

// openLogged is a speed.OpenRedis: a fresh Redis with a log, as a crawl should
// have it, unless one was named. The log is not rewritten, so that it tells what
// was written.
func (h *host) openLogged(ctx context.Context) (speed.RedisServer, error) {
	if h.named {
		return speed.RedisServer{Options: h.redis, Client: h.client, Close: func() error { return nil }}, nil
	}
	server, err := servers.StartRedis(ctx, servers.RedisOptions{
		AppendOnly: true, Config: map[string]string{"auto-aof-rewrite-percentage": "0"},
	})
	if err != nil {
		return speed.RedisServer{}, err
	}
	client := newClient(&redis.UniversalOptions{Addrs: []string{server.Socket()}})
	return speed.RedisServer{
		Options: &redis.UniversalOptions{Addrs: []string{server.Socket()}}, Client: client,
		Close: func() error { return errors.Join(client.Close(), server.Close()) },
	}, nil
}

// openSynced is a speed.OpenPostgres: a fresh one whose answers survive a loss of
// power, as a crawl should have it, unless one was named.
func (h *host) openSynced(ctx context.Context) (dsn string, end func() error, err error) {
	if h.namedPostgres {
		return h.postgres, func() error { return nil }, nil
	}
	server, err := servers.StartPostgres(ctx, servers.PostgresOptions{FSync: true})
	if err != nil {
		return "", nil, err
	}
	return server.DSN(), server.Close, nil
}
