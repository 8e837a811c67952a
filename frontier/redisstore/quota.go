package redisstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

var _ frontier.Quota = (*Store)(nil)

// quotaKey returns the key of the set of a group. These keys are all in one slot of a cluster.
func (c *Config) quotaKey(group string) string { return c.cardKey() + ":quota:" + group }

// quotaCall asks the server about some keys of a call of Reserve.
type quotaCall struct {
	keys    []frontier.QuotaKey
	maxKeys uint64 // maximum number of keys in each group
	has     []bool // the answers, index for index
	err     error
}

// maxQuotaKeys bounds the keys of one quotaCall. One run of the script gets the keys of several
// calls, but fewer than 2·maxQuotaKeys.
const maxQuotaKeys = 128

// newQuotaQueue returns a queue that sends the keys of many calls together.
func (s *Store) newQuotaQueue() *groupcommit.Queue[*quotaCall] {
	return groupcommit.New(groupcommit.Config[*quotaCall]{MaxSize: maxQuotaKeys, Go: s.spawn, Commit: s.askQuota})
}

// Reserve implements frontier.Quota. Keys that this process does not remember are sent to the
// server together with those of other callers.
func (s *Store) Reserve(ctx context.Context, keys []frontier.QuotaKey, maxKeys uint64) ([]bool, error) {
	cache, has := s.members.Load(), make([]bool, len(keys))
	var open []int // indices of the keys that cache does not have
	for i, key := range keys {
		if has[i] = cache.Has(key.String()); !has[i] {
			open = append(open, i)
		}
	}
	for some := range slices.Chunk(open, maxQuotaKeys) {
		c := &quotaCall{maxKeys: maxKeys}
		for _, i := range some {
			c.keys = append(c.keys, keys[i])
		}
		// The server may still add keys after ctx has ended. A repeated call finds them.
		if err := s.quota.Add(c, len(some)).Wait(ctx); err != nil {
			return nil, err
		}
		if c.err != nil {
			return nil, c.err
		}
		for j, i := range some {
			if has[i] = c.has[j]; has[i] {
				cache.Add(keys[i].String())
			}
		}
	}
	return has, nil
}

// askQuota sends the keys of calls in one run of reserve.lua.
func (s *Store) askQuota(ctx context.Context, calls []*quotaCall) {
	var groups []string
	var args []any
	for _, c := range calls {
		for _, key := range c.keys {
			groups, args = append(groups, s.cfg.quotaKey(key.Group)), append(args, key.Key, c.maxKeys)
		}
	}
	has, err := reserveScript.Run(ctx, s.client, groups, args...).BoolSlice()
	if err == nil && len(has) != len(groups) {
		err = fmt.Errorf("redisstore: reserve.lua answered %d of %d keys", len(has), len(groups))
	}
	for _, c := range calls {
		if c.err = s.classify(ctx, err); c.err == nil {
			c.has, has = has[:len(c.keys)], has[len(c.keys):]
		}
	}
}

// Reserved implements frontier.Quota.
func (s *Store) Reserved(ctx context.Context, group, key string) (has bool, size uint64, err error) {
	pipe := s.client.Pipeline()
	member := pipe.SIsMember(ctx, s.cfg.quotaKey(group), key)
	count := pipe.SCard(ctx, s.cfg.quotaKey(group))
	if _, err := pipe.Exec(ctx); err != nil {
		return false, 0, s.classify(ctx, err)
	}
	return member.Val(), uint64(count.Val()), nil
}
