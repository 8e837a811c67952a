package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Pause implements frontier.Control.
func (s *Store) Pause(ctx context.Context, paused bool) error {
	if !paused {
		return s.classify(ctx, s.client.HDel(ctx, s.cfg.cardKey(), pausedField).Err())
	}
	return s.classify(ctx, s.client.HSet(ctx, s.cfg.cardKey(), pausedField, 1).Err())
}

// paused reports whether the crawl is paused.
func (s *Store) paused(ctx context.Context) (bool, error) {
	err := s.client.HGet(ctx, s.cfg.cardKey(), pausedField).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, s.classify(ctx, err)
}
