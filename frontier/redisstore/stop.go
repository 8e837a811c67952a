package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/internal/name"
)

// stopKey is the key of the hash with the numbers of the workers that were asked to stop.
func (c *Config) stopKey() string { return c.cardKey() + ":stop" }

// StopRequested returns a channel that is closed when StopWorkers has asked this worker to stop. The
// worker notices it with its next heartbeat, which is at most a second later if the server answers.
func (s *Store) StopRequested() <-chan struct{} { return s.stopRequested }

// readStop closes the channel of StopRequested if this worker was asked to stop. It must not be
// called concurrently.
func (s *Store) readStop(ctx context.Context) error {
	asked, err := s.client.HExists(ctx, s.cfg.stopKey(), strconv.Itoa(s.number)).Result()
	if err != nil || !asked {
		return s.classify(ctx, err)
	}
	select {
	case <-s.stopRequested:
	default:
		close(s.stopRequested)
	}
	return nil
}

// StopWorkers asks all live workers to stop, and waits until each has left or is dead. It does not
// concern workers that join later, so the crawl can be continued at once. The results are the
// workers that left, and those that died or were dead already without a word for up to 10 s.
// If ctx ends first, the workers that still run are in neither list, and stop nevertheless.
func (s *Store) StopWorkers(ctx context.Context) (left, died []Worker, err error) {
	workers, err := s.Workers(ctx)
	if err != nil {
		return nil, nil, err
	}
	running := make(map[int]bool)
	for _, w := range workers {
		if !w.Live || w.Number == s.number {
			continue
		}
		running[w.Number] = true
		if err := s.write(ctx, "HSET", s.cfg.stopKey(), strconv.Itoa(w.Number), 1).Err(); err != nil {
			return nil, nil, s.classify(ctx, err)
		}
	}
	for len(running) > 0 {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return left, died, err
		}
		if workers, err = s.Workers(ctx); err != nil {
			return left, died, err
		}
		for _, w := range workers {
			switch {
			case !running[w.Number] || w.Live:
				continue
			case w.Silent > 0:
				died = append(died, w)
				err = s.client.HDel(ctx, s.cfg.stopKey(), strconv.Itoa(w.Number)).Err()
			default:
				left = append(left, w)
			}
			delete(running, w.Number)
			if err != nil {
				return left, died, s.classify(ctx, err)
			}
		}
	}
	return left, died, nil
}

// Summary describes a crawl for a list of crawls.
type Summary struct {
	Name    string
	State   string // "running", "paused", "finished", "stopped", or why it cannot be opened
	Pages   uint64
	Queued  uint64 // queued and leased items
	Workers int    // live workers
}

// listTime bounds the search of List.
const listTime = 30 * time.Second

// List returns the crawls in a Redis, by name. It uses only Redis and Logger of cfg. It searches all
// keys of the database in small steps that do not block the servers, for 30 s at most; complete is
// false if the time was too short.
func List(ctx context.Context, cfg Config) (crawls []Summary, complete bool, err error) {
	s, err := connect(ctx, Config{Redis: cfg.Redis, Name: "list", Logger: cfg.Logger})
	if err != nil {
		return nil, false, err
	}
	defer s.Close()
	names, complete, err := s.names(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, name := range names {
		summary, err := summarize(ctx, Config{Redis: cfg.Redis, Name: name, Logger: cfg.Logger})
		if ctx.Err() != nil {
			return nil, false, context.Cause(ctx)
		}
		if err != nil {
			summary.State = "unknown: " + err.Error()
		}
		crawls = append(crawls, summary)
	}
	return crawls, complete, nil
}

// names returns the names of the crawls whose cards are in the database.
func (s *Store) names(ctx context.Context) (names []string, complete bool, err error) {
	found := make(chan string, scanStep)
	limited, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	scanned := make(chan error, 1)
	go func() {
		defer close(found)
		scanned <- s.scan(limited, "crawler:{*}", func(_ context.Context, _ *redis.Client, keys []string) error {
			for _, key := range keys {
				found <- key
			}
			return nil
		})
	}()
	for key := range found {
		crawl := key[len("crawler:{") : len(key)-1]
		if name.Valid(crawl) && !slices.Contains(names, crawl) { // SCAN can return a key twice
			names = append(names, crawl)
		}
	}
	err = <-scanned
	slices.Sort(names)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return names, false, nil
	}
	return names, err == nil, err
}

// summarize reads the state of one crawl.
func summarize(ctx context.Context, cfg Config) (Summary, error) {
	summary := Summary{Name: cfg.Name}
	s, err := openShut(ctx, cfg)
	if err != nil {
		return summary, err
	}
	defer s.Close()
	closed, err := s.closed(ctx)
	if err != nil {
		return summary, err
	}
	totals, err := s.readTotals(ctx)
	if err != nil {
		return summary, err
	}
	paused, err := s.paused(ctx)
	if err != nil {
		return summary, err
	}
	workers, err := s.Workers(ctx)
	if err != nil {
		return summary, err
	}
	for _, w := range workers {
		if w.Live {
			summary.Workers++
		}
	}
	summary.Pages, summary.Queued = totals.pages, totals.queued+totals.leased
	switch {
	case closed == deleting:
		summary.State = "its deletion was interrupted"
	case closed != "":
		summary.State = fmt.Sprintf("%s was interrupted, or is under way", closed)
	case paused:
		summary.State = "paused"
	case summary.Workers > 0:
		summary.State = "running"
	case summary.Queued == 0:
		summary.State = "finished"
	default:
		summary.State = "stopped"
	}
	return summary, nil
}
