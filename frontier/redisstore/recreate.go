package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ErrExists reports that a crawl with the given name exists already.
var ErrExists = errors.New("redisstore: the crawl exists already")

// Recreate creates the crawl cfg.Name again after its Redis has lost it. The argument card is the
// result of an earlier call of Store.Card. The crawl has the same id, key of fingerprints, sizes
// and settings as before. If servers of a cluster still have keys of the crawl, these belong to it
// again. The crawl cannot be opened before Rebuild has rebuilt its filter.
//
// It uses only Redis, Name and Logger of cfg. It returns ErrExists if the crawl is not lost, and
// frontier.ErrParamsMismatch if the card is damaged or of another version.
func Recreate(ctx context.Context, cfg Config, card []byte) (err error) {
	if _, err := parseCard(cfg.Name, string(card)); err != nil {
		return err
	}
	s, err := connect(ctx, Config{Redis: cfg.Redis, Name: cfg.Name, Logger: cfg.Logger})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.checkServers(ctx); err != nil {
		return err
	}
	made, err := recreateScript.Run(ctx, s.client, []string{cfg.cardKey()}, card, rebuilding).Int()
	if err != nil {
		return s.classify(ctx, err)
	}
	if made == 0 {
		return fmt.Errorf("%w: %q", ErrExists, cfg.Name)
	}
	return nil
}

// Waiting returns how many items are queued or leased, and how many of these are exact items of
// a crawl whose exact set is in Postgres. If the Redis servers lose the crawl, all these items
// are lost, but the exact set can restore the exact items.
func (s *Store) Waiting(ctx context.Context) (all, exact uint64, err error) {
	sum, err := s.readTotals(ctx)
	if err != nil || s.cfg.Exact == nil {
		return sum.queued + sum.leased, 0, err
	}
	sizes, err := pipelined(ctx, s.client, s.parts, func(pipe redis.Pipeliner, p *partition) *redis.IntCmd {
		return pipe.SCard(ctx, p.exact)
	})
	if err != nil {
		return 0, 0, s.classify(ctx, err)
	}
	for _, size := range sizes {
		exact += uint64(size.Val())
	}
	return sum.queued + sum.leased, exact, nil
}
