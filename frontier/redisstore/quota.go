package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
)

var _ frontier.Quota = (*Store)(nil)

var (
	//go:embed claim.lua
	claimLua string
	// A repeat does no harm, so it is sent as any other command.
	claim = redis.NewScript(claimLua)
)

// quotaKey is the set of the keys that have a place in a group. All of them are
// in one slot of a cluster.
func (c *Config) quotaKey(group string) string { return c.cardKey() + ":quota:" + group }

// quotaCall is a call of Claim.
type quotaCall struct {
	keys []frontier.QuotaKey // that this process does not remember
	most string              // places of each group
	has  []bool              // index for index of keys
	err  error
}

// maxQuotaKeys bounds the keys of one script.
const maxQuotaKeys = 256

// newQuotaQueue returns a queue that asks the server for the keys of many calls.
func (s *Store) newQuotaQueue() *groupcommit.Queue[*quotaCall] {
	return groupcommit.New(groupcommit.Config[*quotaCall]{MaxSize: maxQuotaKeys, Go: s.spawn, Commit: s.askQuota})
}

// Claim implements frontier.Quota. Keys that this process does not remember are
// asked for together with those of other callers.
func (s *Store) Claim(ctx context.Context, keys []frontier.QuotaKey, most uint64) ([]bool, error) {
	life, has := s.places.current(), make([]bool, len(keys))
	c := &quotaCall{most: strconv.FormatUint(most, 10)}
	var open []int // indexes of c.keys among keys
	for i, k := range keys {
		if has[i] = s.places.has(k.String()); !has[i] {
			c.keys, open = append(c.keys, k), append(open, i)
		}
	}
	if len(open) == 0 {
		return has, nil
	}
	// The server may decide after ctx has ended: a place is permanent.
	if err := s.quota.Add(c, len(c.keys)).Wait(ctx); err != nil {
		return nil, err
	}
	if c.err != nil {
		return nil, c.err
	}
	var placed []string
	for j, i := range open {
		if has[i] = c.has[j]; has[i] {
			placed = append(placed, keys[i].String())
		}
	}
	s.places.add(life, placed)
	return has, nil
}

// askQuota asks the server for the keys of a group of calls.
func (s *Store) askQuota(ctx context.Context, calls []*quotaCall) {
	step := quotaStep{Store: s}
	for _, c := range calls {
		for i := range c.keys {
			if step.add(c, i); len(step.groups) == maxQuotaKeys {
				step.run(ctx)
			}
		}
	}
	step.run(ctx)
}

// quotaStep is one run of claim.lua.
type quotaStep struct {
	*Store
	calls  []*quotaCall // of each key
	groups []string
	args   []any
}

func (q *quotaStep) add(c *quotaCall, i int) {
	q.calls = append(q.calls, c)
	q.groups = append(q.groups, q.cfg.quotaKey(c.keys[i].Group))
	q.args = append(q.args, c.keys[i].Key, c.most)
}

// run asks for the keys that were added, and forgets them.
func (q *quotaStep) run(ctx context.Context) {
	if len(q.groups) == 0 {
		return
	}
	has, err := claim.Run(ctx, q.client, q.groups, q.args...).BoolSlice()
	if err == nil && len(has) != len(q.groups) {
		err = fmt.Errorf("redisstore: claim.lua answered %d of %d keys", len(has), len(q.groups))
	}
	for i, c := range q.calls {
		if err != nil {
			c.err = q.classify(ctx, err)
		} else {
			c.has = append(c.has, has[i])
		}
	}
	q.calls, q.groups, q.args = q.calls[:0], q.groups[:0], q.args[:0]
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
