package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/frontier"
)

// Values of closedField: the reasons why a crawl cannot be opened.
const (
	deleting   = "deleting"
	rebuilding = "rebuilding"
)

// checkOpen returns an error if the crawl is being deleted or rebuilt, or if its deletion or
// rebuild was interrupted. A worker calls it before it opens the filters and again after it has
// registered. So either the worker notices that the crawl is closed, or shut finds the worker.
func (s *Store) checkOpen(ctx context.Context) error {
	switch closed, err := s.closed(ctx); {
	case err != nil:
		return err
	case closed == deleting:
		return fmt.Errorf("%w: the deletion of %q has begun: delete it again to finish it", ErrNoCrawl, s.cfg.Name)
	case closed != "":
		return fmt.Errorf("%w: the filter of %q is being rebuilt: rebuild it again to finish that", frontier.ErrFilterLost, s.cfg.Name)
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

// shut prevents workers from opening the crawl. If the crawl has live workers, shut restores the
// previous state and returns a frontier.ErrLocked with their names.
func (s *Store) shut(ctx context.Context, why string) error {
	before, err := s.closed(ctx)
	if err != nil {
		return err
	}
	if before == deleting && why != deleting {
		return s.checkOpen(ctx)
	}
	if err := s.write(ctx, "HSET", s.cfg.cardKey(), closedField, why).Err(); err != nil {
		return s.classify(ctx, err)
	}
	names, err := s.others(ctx)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return nil
	}
	if before == "" {
		err = s.client.HDel(ctx, s.cfg.cardKey(), closedField).Err()
	} else {
		err = s.write(ctx, "HSET", s.cfg.cardKey(), closedField, before).Err()
	}
	locked := fmt.Errorf("%w: crawl %q has workers: %s", frontier.ErrLocked, s.cfg.Name, strings.Join(names, ", "))
	return errors.Join(locked, s.classify(ctx, err))
}

// others returns the names of the other live workers. A worker that was killed counts as live until
// its heartbeats are missing for beatLimit. So others waits until it knows: either a worker sends a
// heartbeat, or none of them does.
func (s *Store) others(ctx context.Context) (names []string, err error) {
	silent := make(map[int]time.Duration) // by number of the worker
	for {
		workers, err := s.Workers(ctx)
		if err != nil {
			return nil, err
		}
		names = nil
		beats := false
		for _, w := range workers {
			if !w.Live || w.Number == s.number || w.ended() {
				continue
			}
			names = append(names, w.Name)
			before, seen := silent[w.Number]
			beats = beats || seen && w.Silent < before
			silent[w.Number] = w.Silent
		}
		if len(names) == 0 || beats {
			return names, nil
		}
		if err := sleep(ctx, beatEvery/4); err != nil {
			return nil, s.classify(ctx, err)
		}
	}
}

// openShut opens a crawl to delete or rebuild it. Only the crawl's card must exist.
func openShut(ctx context.Context, cfg Config) (*Store, error) {
	s, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := inOrder(ctx, s.checkServers, s.join); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
