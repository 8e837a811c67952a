package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// A server that starts with a log cut in the middle of a transaction, as a power
// failure leaves it, does not carry the transaction out, but leaves its first
// commands in the log and writes on behind them. When it starts the next time,
// they are carried out after all, as part of the next transaction: half of what
// a script did comes back. (Redis 7.0.15 does so; Valkey mended it in its pull
// request 4342.) So in a new life of a server its log is written anew once, from
// what the server has.

// fieldLog, of the first partition of a node, is the run id in which the node's
// log was last known to be whole.
const fieldLog = "log"

// renewLog has a node write its log anew, unless that was done in this epoch, or
// the crawl began in it.
func (s *Store) renewLog(ctx context.Context, ep *epoch) {
	if !s.worker { // who only looks changes nothing
		return
	}
	if err := s.tryRenewLog(ctx, ep); err != nil && ctx.Err() == nil {
		s.cfg.Logger.WarnContext(ctx, "a server's log was not written anew after its restart", "err", err)
	}
}

func (s *Store) tryRenewLog(ctx context.Context, ep *epoch) error {
	p := s.firstOn(ep.node)
	if p == nil {
		return nil
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
	writing := info.Item("Persistence", "aof_rewrite_in_progress") == "1" // begun in this life
	if known != "" && logs && !writing {
		if err := client.BgRewriteAOF(ctx).Err(); err != nil {
			return s.classify(ctx, err)
		}
	}
	return s.classify(ctx, client.HSet(ctx, p.meta, fieldLog, ep.run).Err())
}

// firstOn returns the first partition that is known to be on a node, or nil.
func (s *Store) firstOn(n *node) *partition {
	if n == s.nodes.single {
		return s.parts[0]
	}
	for _, p := range s.parts {
		if p.node.Load() == n {
			return p
		}
	}
	return nil
}
