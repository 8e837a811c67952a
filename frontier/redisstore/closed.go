package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

// What keeps workers out of a crawl: the values of closedField.
const (
	deleting   = "deleting"
	rebuilding = "rebuilding"
)

// checkOpen refuses a crawl that is being changed as a whole, also one whose
// change was broken off: it has to be finished. A worker asks before it opens the
// filters and again when it is known to be one, so that either it sees the
// change or the change sees it.
func (s *Store) checkOpen(ctx context.Context) error {
	switch closed, err := s.closed(ctx); {
	case err != nil:
		return err
	case closed == deleting:
		return fmt.Errorf("%w: the deletion of %q has begun: delete it again to end it", ErrNoCrawl, s.cfg.Name)
	case closed != "":
		return fmt.Errorf("%w: the filter of %q is being made anew: rebuild it again to end that", frontier.ErrFilterLost, s.cfg.Name)
	}
	return nil
}

func (s *Store) closed(ctx context.Context) (string, error) {
	closed, err := s.client.HGet(ctx, s.cfg.cardKey(), closedField).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return closed, s.classify(ctx, err)
}

// shut keeps workers out of the crawl from now on. When there are any it lets
// the crawl be and returns an ErrLocked that names them.
func (s *Store) shut(ctx context.Context, why string) error {
	before, err := s.closed(ctx)
	if err != nil {
		return err
	}
	if before == deleting && why != deleting {
		return s.checkOpen(ctx)
	}
	if err := s.client.HSet(ctx, s.cfg.cardKey(), closedField, why).Err(); err != nil {
		return s.classify(ctx, err)
	}
	workers, err := s.Workers(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, w := range workers {
		if w.Live && w.Number != s.number {
			names = append(names, w.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	if before == "" {
		err = s.client.HDel(ctx, s.cfg.cardKey(), closedField).Err()
	} else {
		err = s.client.HSet(ctx, s.cfg.cardKey(), closedField, before).Err()
	}
	locked := fmt.Errorf("%w: crawl %q has workers: %s", frontier.ErrLocked, s.cfg.Name, strings.Join(names, ", "))
	return errors.Join(locked, s.classify(ctx, err))
}

// openShut opens a crawl, whatever it lacks but its card, to change it as a whole.
func openShut(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(cfg)
	err = s.connect(ctx)
	if err == nil {
		err = s.checkServers(ctx)
	}
	if err == nil {
		err = s.join(ctx, false)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
