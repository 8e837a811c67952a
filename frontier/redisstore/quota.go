package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

var _ frontier.Quota = (*Store)(nil)

// quotaKey returns the key of the set of a group. These keys are all in one slot of a cluster.
func (c *Config) quotaKey(group string) string { return c.cardKey() + ":quota:" + group }

// quotaCall is a call of Reserve.
type quotaCall struct {
	keys    []frontier.QuotaKey // keys that this process does not remember
	maxKeys string              // maximum number of keys in each group
	has     []bool              // the answers, index for index
	err     error
}

// maxQuotaKeys bounds the keys of one script.
const maxQuotaKeys = 256

// newQuotaQueue returns a queue that sends the keys of many calls together.
func (s *Store) newQuotaQueue() *groupcommit.Queue[*quotaCall] {
	return groupcommit.New(groupcommit.Config[*quotaCall]{MaxSize: maxQuotaKeys, Go: s.spawn, Commit: s.askQuota})
}

// Reserve implements frontier.Quota. Keys that this process does not remember are sent to the
// server together with those of other callers.
func (s *Store) Reserve(ctx context.Context, keys []frontier.QuotaKey, maxKeys uint64) ([]bool, error) {
	life, has := s.members.current(), make([]bool, len(keys))
	c := &quotaCall{maxKeys: strconv.FormatUint(maxKeys, 10)}
	var open []int // indices in keys of the elements of c.keys
	for i, k := range keys {
		if has[i] = s.members.Has(k.String()); !has[i] {
			c.keys, open = append(c.keys, k), append(open, i)
		}
	}
	if len(open) == 0 {
		return has, nil
	}
	// The server may still add keys after ctx has ended. A repeated call finds them.
	if err := s.quota.Add(c, len(c.keys)).Wait(ctx); err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, c.err
	}
	var reserved []string
	for j, i := range open {
		if has[i] = c.has[j]; has[i] {
			reserved = append(reserved, keys[i].String())
		}
	}
	s.members.add(life, reserved)
	return has, nil
}

func (s *Store) askQuota(ctx context.Context, calls []*quotaCall) {
	var asks []quotaAsk
	for _, c := range calls {
		for _, key := range c.keys {
			asks = append(asks, quotaAsk{c, key})
		}
	}
	for some := range slices.Chunk(asks, maxQuotaKeys) {
		s.askQuotaOnce(ctx, some)
	}
}

// quotaAsk is one key of a call.
type quotaAsk struct {
	call *quotaCall
	key  frontier.QuotaKey
}

// askQuotaOnce sends keys in one run of reserve.lua.
func (s *Store) askQuotaOnce(ctx context.Context, asks []quotaAsk) {
	groups, args := make([]string, len(asks)), make([]any, 0, 2*len(asks))
	for i, a := range asks {
		groups[i], args = s.cfg.quotaKey(a.key.Group), append(args, a.key.Key, a.call.maxKeys)
	}
	has, err := reserveScript.Run(ctx, s.client, groups, args...).BoolSlice()
	if err == nil && len(has) != len(asks) {
		err = fmt.Errorf("redisstore: reserve.lua answered %d of %d keys", len(has), len(asks))
	}
	for i, a := range asks {
		if err != nil {
			a.call.err = s.classify(ctx, err)
		} else {
			a.call.has = append(a.call.has, has[i])
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
