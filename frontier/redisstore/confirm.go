package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

// waitReplicas is the maximum time to wait for replicas.
const waitReplicas = time.Second

// awaitLinks returns the epoch of the lease's node if answers to the links depend on that epoch,
// otherwise nil. It returns errEpoch if an epoch on which answers depend is over.
//
// Answers of the lease's own node are safe: if the node loses them, it also loses the
// completion. Answers of other nodes must survive a crash. So awaitLinks waits until they are
// on disk and checks that the nodes have not restarted. With Config.Wait, it waits until
// replicas have the answers.
func (c *completing) awaitLinks(ctx context.Context) (own *epoch, err error) {
	node, err := c.nodeOf(ctx, c.h.part)
	if err != nil {
		return nil, err
	}
	others := make(map[*epoch]*partition)
	var answered time.Time
	known := c.known.Load()
	for _, t := range c.todo {
		if links := t.item.pending.links; links.known != nil && links.known != known {
			return nil, errEpoch
		}
		for p, ep := range t.item.pending.links.epochs {
			switch {
			case ep == nil || ep.node.epoch.Load() != ep:
				return nil, errEpoch
			case ep.node == node:
				own = ep
			default:
				others[ep] = p
			}
		}
		if t.item.pending.answered.After(answered) {
			answered = t.item.pending.answered
		}
	}
	if len(others) == 0 {
		return own, nil
	}
	if c.cfg.Wait == 0 {
		if err := sleep(ctx, time.Until(answered.Add(c.durable))); err != nil {
			return nil, err
		}
	}
	for ep, p := range others {
		if err := c.confirm(ctx, ep, p); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// confirm returns nil if the node of p is still in epoch ep, and Config.Wait replicas have
// everything that the node has written so far.
func (s *Store) confirm(ctx context.Context, ep *epoch, p *partition) error {
	if s.cfg.Wait == 0 {
		c := &call{part: p, script: confirmScript, keys: []string{p.meta}, args: []any{""}, required: ep}
		s.runAll(ctx, []*call{c})
		return c.err
	}
	// Another node may have taken over without all writes of the earlier one.
	if n, err := s.nodeOf(ctx, p); err != nil {
		return err
	} else if n != ep.node {
		return errEpoch
	}
	// WAIT waits for the writes of its own connection, and a pipeline uses one connection.
	// Replicas receive writes in order, so they have the earlier writes of other
	// connections, too.
	pipe := ep.node.client.Pipeline()
	alive := pipe.EvalSha(ctx, ep.sha[confirmScript], []string{p.meta}, s.clock(), "1")
	have := pipe.Do(ctx, "wait", s.cfg.Wait, waitReplicas.Milliseconds())
	_, failed := pipe.Exec(ctx)
	switch _, err := result(alive, failed); {
	case err != nil && redis.HasErrorPrefix(err, "NOSCRIPT"):
		if _, err := s.renew(ctx, ep.node, ep); err != nil {
			return err
		}
		return errEpoch
	case err != nil:
		s.misplaced(ctx, p, err)
		return s.classify(ctx, err)
	}
	n, err := have.Int64()
	if err == nil && n < int64(s.cfg.Wait) {
		err = fmt.Errorf("%w: %d of %d replicas have what was added", frontier.ErrUnavailable, n, s.cfg.Wait)
	}
	return s.classify(ctx, err)
}

// sleep waits for d and returns nil. If ctx ends first, it returns the cause.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
