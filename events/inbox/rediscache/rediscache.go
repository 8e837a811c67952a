// Package rediscache is a cache in Redis. It contains the ids of events that an inbox has
// handled, so that repeats are answered without Postgres.
//
// The inbox adds an event only after the commit. If Redis is flushed, evicts keys or is
// unavailable, Postgres decides, which is only slower. But flush Redis after the database
// has lost commits, for example because it was restored from a backup, or because a replica
// without these commits took over. Otherwise the inbox skips events whose effects are lost.
package rediscache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// Config configures a Cache. Redis is required.
type Config struct {
	// Redis has the options of a client. The cache replaces its timeouts and retries.
	Redis *redis.UniversalOptions
	// Prefix is the beginning of all keys; empty means "inbox:". Inboxes in several
	// databases can share a prefix.
	Prefix string
	// Timeout limits the time of each command; 0 means 50 ms.
	Timeout time.Duration
	// Pause is how long the cache sends no commands after an error; 0 means 1 s.
	Pause time.Duration
}

// Cache is an inbox.Cache. It is safe for concurrent use.
type Cache struct {
	client  redis.UniversalClient
	cfg     Config
	resumes atomic.Int64 // the end of the pause after an error, Unix time in ns
}

var _ inbox.Cache = (*Cache)(nil)

// New returns a cache. It does not connect, so it succeeds even if Redis is unavailable.
// The caller must call Close.
func New(cfg Config) (*Cache, error) {
	if cfg.Redis == nil || cfg.Timeout < 0 || cfg.Pause < 0 {
		return nil, errors.New("rediscache: want Config.Redis, and a Timeout and Pause of 0 or more")
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "inbox:")
	cfg.Timeout, cfg.Pause = cmp.Or(cfg.Timeout, 50*time.Millisecond), cmp.Or(cfg.Pause, time.Second)
	options := *cfg.Redis
	options.ContextTimeoutEnabled, options.MaxRetries, options.DisableIdentity = true, -1, true
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = cfg.Timeout, cfg.Timeout, cfg.Timeout
	options.PoolTimeout, options.DialerRetries = cfg.Timeout, 1
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return &Cache{client: redis.NewUniversalClient(&options), cfg: cfg}, nil
}

// Close closes the connections.
func (c *Cache) Close() error { return c.client.Close() }

// Contains implements inbox.Cache. During the pause after an error it returns false.
func (c *Cache) Contains(ctx context.Context, key string) (known bool, err error) {
	err = c.ask(ctx, func(ctx context.Context) error {
		n, err := c.client.Exists(ctx, c.cfg.Prefix+key).Result()
		known = n == 1
		return err
	})
	return known, err
}

// Add implements inbox.Cache. During the pause after an error it does nothing.
func (c *Cache) Add(ctx context.Context, key string, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return nil
	}
	return c.ask(ctx, func(ctx context.Context) error {
		return c.client.Set(ctx, c.cfg.Prefix+key, "", ttl).Err()
	})
}

// ask runs a command, except during the pause after an error.
func (c *Cache) ask(ctx context.Context, command func(context.Context) error) error {
	if time.Now().UnixNano() < c.resumes.Load() {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	err := command(bounded)
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		c.resumes.Store(time.Now().Add(c.cfg.Pause).UnixNano())
	}
	return fmt.Errorf("rediscache: %w", err)
}
