package redisstore

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// scanStep is the COUNT of one SCAN.
const scanStep = 1000

// Delete removes all keys of the crawl cfg.Name and returns their number. It scans all keys
// of the database, in small steps that do not block the servers. If Delete is interrupted,
// the crawl cannot be opened until Delete has been called again.
//
// Delete uses only Redis, Name and Logger of cfg. It returns ErrNoCrawl if there is no crawl of
// that name, and frontier.ErrLocked if the crawl has live workers.
func Delete(ctx context.Context, cfg Config) (keys int, err error) {
	s, err := openShut(ctx, Config{Redis: cfg.Redis, Name: cfg.Name, Logger: cfg.Logger})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.shut(ctx, deleting); err != nil {
		return 0, err
	}
	// The names of the other keys begin with the id of the crawl. A repeated Delete reads this
	// id from the card, which is the key with the settings. So the card is removed last.
	for _, pattern := range []string{"{" + s.card.ID + ":*", s.cfg.cardKey() + ":*"} {
		n, err := s.unlinkAll(ctx, pattern)
		if keys += n; err != nil {
			return keys, err
		}
	}
	n, err := s.client.Unlink(ctx, s.cfg.cardKey()).Result()
	return keys + int(n), s.classify(ctx, err)
}

// unlinkAll removes the keys that match a pattern and returns their number. It repeats the
// search until it finds none, because a slot of a cluster can move during a search.
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

// scan searches every server for keys that match a pattern, and calls visit with batches of them.
// Calls for different servers can be concurrent.
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

// unlink removes keys of a server, in any slots, and returns how many existed.
func unlink(ctx context.Context, server *redis.Client, keys []string) (n int, err error) {
	cmds, err := pipelined(ctx, server, keys, func(pipe redis.Pipeliner, key string) *redis.IntCmd {
		return pipe.Unlink(ctx, key)
	})
	for _, cmd := range cmds {
		n += int(cmd.Val())
	}
	return n, err
}
