package redisstore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// scanStep is how many keys one step of a search looks at.
const scanStep = 1000

// Delete removes the crawl cfg.Name, all that there is of it, in steps that are
// short for the servers, and returns how many keys there were. It searches every
// key of the database for those of the crawl. When it is broken off it can be
// called again; until then the crawl cannot be opened.
//
// Only Redis and Name of cfg are read. ErrNoCrawl: there is none of that name.
// frontier.ErrLocked: it has live workers.
func Delete(ctx context.Context, cfg Config) (keys int, err error) {
	s, err := openShut(ctx, Config{Redis: cfg.Redis, Name: cfg.Name, Logger: cfg.Logger})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.shut(ctx, deleting); err != nil {
		return 0, err
	}
	// The card goes last: it says what the other keys are called.
	for _, pattern := range []string{"{" + s.card.ID + ":*", s.cfg.cardKey() + ":*"} {
		n, err := s.unlinkAll(ctx, pattern)
		if keys += n; err != nil {
			return keys, err
		}
	}
	n, err := s.client.Unlink(ctx, s.cfg.cardKey()).Result()
	return keys + int(n), s.classify(ctx, err)
}

// unlinkAll removes the keys that match a pattern. It searches until it finds
// none: a slot of a cluster may move away from under a search.
func (s *Store) unlinkAll(ctx context.Context, pattern string) (total int, err error) {
	for {
		var removed atomic.Int64
		err := s.scan(ctx, pattern, func(ctx context.Context, server *redis.Client, keys []string) error {
			n, err := unlink(ctx, server, keys)
			removed.Add(int64(n))
			return err
		})
		total += int(removed.Load())
		if err != nil || removed.Load() == 0 {
			return total, err
		}
	}
}

// scan calls visit for the keys of every server that match a pattern, some at a
// time; for different servers perhaps at once.
func (s *Store) scan(ctx context.Context, pattern string, visit func(context.Context, *redis.Client, []string) error) error {
	err := s.eachServer(ctx, func(ctx context.Context, server *redis.Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := server.Scan(ctx, cursor, pattern, scanStep).Result()
			if err != nil {
				return err
			}
			if err := visit(ctx, server, keys); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
	return s.classify(ctx, err)
}

// unlink removes keys of a server, whatever slots they are in, and returns how
// many there were.
func unlink(ctx context.Context, server *redis.Client, keys []string) (n int, err error) {
	if len(keys) == 0 {
		return 0, nil
	}
	pipe := server.Pipeline()
	cmds := make([]*redis.IntCmd, len(keys))
	for i, key := range keys {
		cmds[i] = pipe.Unlink(ctx, key)
	}
	_, err = pipe.Exec(ctx)
	for _, cmd := range cmds {
		n += int(cmd.Val())
	}
	return n, err
}
