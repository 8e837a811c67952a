package redisstore

import (
	"context"
	_ "embed"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

var _ frontier.Quota = (*Store)(nil)

var (
	//go:embed claim.lua
	claimLua string
	// A repeat does no harm, so it is sent as any other command.
	claim = redis.NewScript(claimLua)
)

// quotaKey is the set of the keys that have a place in a group.
func (c *Config) quotaKey(group string) string { return c.cardKey() + ":quota:" + group }

// Claim implements frontier.Quota.
func (s *Store) Claim(ctx context.Context, group, key string, most uint64) (bool, error) {
	life, place := s.places.current(), group+"\x00"+key
	if s.places.has(place) {
		return true, nil
	}
	has, err := claim.Run(ctx, s.client, []string{s.cfg.quotaKey(group)}, key, strconv.FormatUint(most, 10)).Bool()
	if err != nil {
		return false, s.classify(ctx, err)
	}
	if has {
		s.places.add(life, []string{place})
	}
	return has, nil
}

// Claimed implements frontier.Quota.
func (s *Store) Claimed(ctx context.Context, group, key string) (has bool, taken uint64, err error) {
	pipe := s.client.Pipeline()
	member := pipe.SIsMember(ctx, s.cfg.quotaKey(group), key)
	size := pipe.SCard(ctx, s.cfg.quotaKey(group))
	if _, err := pipe.Exec(ctx); err != nil {
		return false, 0, s.classify(ctx, err)
	}
	return member.Val(), uint64(size.Val()), nil
}
