package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A power loss can cut a server's log within a transaction. When the server starts, it does not
// run that transaction, but it keeps the transaction's first commands in the log and writes
// later transactions after them. At its next start it runs these first commands as part of the
// next transaction, so that half of a script takes effect. (Redis 7.0.15 does so. Valkey fixed
// this fault in its pull request 4342.) Therefore, once after each restart, a worker makes the
// server rewrite its log from its memory.

// fieldLog is a field in meta of the first partition of a node. It contains the run id of the
// last server process whose log is known to be whole.
const fieldLog = "log"

// renewLog makes a node rewrite its log, unless the log was rewritten in this epoch or the crawl
// was created in this epoch.
func (s *Store) renewLog(ctx context.Context, ep *epoch) {
	if !s.worker { // an inspecting process changes nothing
		return
	}
	if err := s.tryRenewLog(ctx, ep); err != nil && ctx.Err() == nil {
		s.cfg.Logger.WarnContext(ctx, "a server's log was not rewritten after its restart", "err", err)
	}
}

func (s *Store) tryRenewLog(ctx context.Context, ep *epoch) error {
	p, err := s.firstOn(ctx, ep.node)
	if err != nil || p == nil {
		return err
	}
	client := ep.node.client
	known, err := client.HGet(ctx, p.meta, fieldLog).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return s.classify(ctx, err)
	}
	if known == ep.run {
		return nil
	}
	info := client.InfoMap(ctx, "persistence")
	if err := info.Err(); err != nil {
		return s.classify(ctx, err)
	}
	logs := info.Item("Persistence", "aof_enabled") == "1"
	writing := info.Item("Persistence", "aof_rewrite_in_progress") == "1" // a rewrite in progress began in this epoch
	if known != "" && logs && !writing {
		if err := client.BgRewriteAOF(ctx).Err(); err != nil {
			return s.classify(ctx, err)
		}
	}
	return s.classify(ctx, s.write(ctx, "HSET", p.meta, fieldLog, ep.run).Err())
}

// firstOn returns the first partition on a node, or nil if the node has none. All workers must get
// the same partition.
func (s *Store) firstOn(ctx context.Context, n *node) (*partition, error) {
	for _, p := range s.parts {
		if on, err := s.nodeOf(ctx, p); err != nil || on == n {
			return p, err
		}
	}
	return nil, nil
}
