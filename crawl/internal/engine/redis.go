package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Server is the home of a crawl that workers share in a Redis.
type Server struct {
	Redis *redis.UniversalOptions
	Where string // its URL without secrets
	Name  string // of the crawl
	// Dir has the directories of workers; of a worker it is the worker's own.
	// Empty: below NAME.crawl.
	Dir string
	DB  *Database // that has its exact keys; nil: not given
}

var _ Home = (*Server)(nil)

// String implements Home.
func (h *Server) String() string { return h.Name + " on " + h.Where }

// Workers returns the directory that has those of workers.
func (h *Server) Workers() string { return cmp.Or(h.Dir, JournalsOf(h.Name)) }

// config is how the crawl is reached.
func (h *Server) config() redisstore.Config {
	return redisstore.Config{Redis: h.Redis, Name: h.Name}
}

// Stored implements Home. It returns a *LostError for a crawl that Postgres knows
// and Redis does not.
func (h *Server) Stored(ctx context.Context) (frontier.Settings, error) {
	settings, err := redisstore.StoredSettings(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) {
		return h.lost(ctx)
	}
	if err != nil {
		return nil, h.explain(err)
	}
	return settings, nil
}

// Open implements Home.
func (h *Server) Open(ctx context.Context, c *Config, why Purpose) (*Engine, error) {
	config := h.config()
	config.Delay, config.LeaseTTL = orNone(c.Delay, redisstore.NoDelay), c.LeaseTTL
	config.MaxPerHost, config.MaxQueued = c.MaxPerHost, c.MaxQueued
	config.Hosts = func(host string) redisstore.HostLimits {
		delay, most := c.Limits(host)
		return redisstore.HostLimits{Delay: delay, MaxPerHost: most}
	}
	config.Logger = c.Logger
	learnt := newMemory(c)
	if why == Rebuild {
		if err := h.rebuild(ctx, c, learnt); err != nil {
			return nil, err
		}
	}
	if why != Crawl {
		store, err := redisstore.Inspect(ctx, config)
		if err != nil {
			return nil, h.explain(err)
		}
		if err := learnt.restore(ctx, store); err != nil {
			return nil, errors.Join(h.explain(err), store.Close())
		}
		return h.look(ctx, c, store)
	}
	if h.DB == nil && c.Stored[exactSetting] != "" {
		return nil, errExactElsewhere(h.String())
	}
	config.Settings, config.ExactSet = c.Settings, h.DB != nil
	config.FilterKeys, config.FPR, config.NoGrowth = c.FilterURLs, c.FPR, !c.Growth
	config.Partitions, config.Wait = c.Partitions, c.Wait
	config.Worker = cmp.Or(c.Worker, newWorkerName())
	return h.join(ctx, c, config)
}

// join opens the crawl as one of its workers.
func (h *Server) join(ctx context.Context, c *Config, config redisstore.Config) (*Engine, error) {
	w := worker{outputs: outputs{c: c, dir: h.Dir}, home: h}
	config.OpenOutput = func(crawl frontier.Identity, _ frontier.Position) (frontier.Output, error) {
		return w.open(ctx, crawl)
	}
	store, err := redisstore.Open(ctx, config)
	if err != nil {
		w.closeKeys()
		return nil, errors.Join(h.explain(err), w.close())
	}
	e := &sharedEngine{Store: store, home: h, id: store.ID(), log: c.Logger, rows: c.Rows}
	if w.keys != nil {
		e.tier, err = newTier(c, store, w.keys, w.set, w.told)
	}
	engine := newEngine(e, &w.outputs)
	engine.shared = e
	if err != nil {
		w.closeKeys()
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// look opens what stands beside a crawl that is asked or steered. A Postgres that
// is needed and was not given is missed by the call that needs it.
func (h *Server) look(ctx context.Context, c *Config, store *redisstore.Store) (*Engine, error) {
	e := &sharedEngine{Store: store, home: h, id: store.ID(), log: c.Logger, rows: c.Rows, exactElsewhere: c.Stored[exactSetting] != ""}
	engine := newEngine(e, nil)
	engine.shared = e
	if h.DB == nil || !e.exactElsewhere {
		return engine, nil
	}
	keys, err := h.DB.inspect(ctx, h.Name)
	if errors.Is(err, frontier.ErrUnavailable) {
		c.Logger.Warn("no word of exact keys", slog.Any("err", err))
		return engine, nil
	}
	if err == nil {
		e.tier, err = newTier(c, store, keys, exact.NewBreaker(keys, 0), nil)
	}
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// worker is what a worker opens beside the queue: its exact keys and its records.
type worker struct {
	outputs
	home *Server
	keys *pgstore.Store // nil: exact keys are in Redis
	set  *exact.Breaker // of keys
	told *exact.Output  // tells keys of finished items
}

// open opens the exact keys and then the journal in the worker's directory, which
// it may choose, with the answers beside it. Postgres hears of exact items before
// their records are written or, if records are rows, with these: the journal then
// only keeps others out of the directory.
func (w *worker) open(ctx context.Context, crawl frontier.Identity) (_ frontier.Output, err error) {
	if w.home.DB != nil {
		config := pgstore.Config{Crawl: w.home.Name, Identity: crawl.ID, Windows: w.c.Windows, Card: crawl.Card}
		if w.keys, err = w.home.DB.open(ctx, config); err != nil {
			return nil, err
		}
		w.set = exact.NewBreaker(w.keys, 0)
	}
	inRows := w.set != nil && w.c.Rows
	config := w.c.Records
	if (w.c.Save || w.c.Edges) && !inRows {
		config.OpenArchive = w.openBeside
	}
	card := workerCard{workerFormat, w.home.Name, crawl.ID}
	journal, dir, err := card.openJournal(w.dir, config)
	if err != nil {
		return nil, err
	}
	w.dir, w.files = dir, journal
	switch {
	case inRows:
		beside := exact.OutputConfig{Set: w.set, Rows: true}
		if w.c.Save {
			if beside.Files, err = w.openAnswers(dir); err != nil {
				return nil, err
			}
		}
		w.told = exact.NewOutput(beside)
		return w.records(rowFiles{rowSink{w.told}, journal}), nil
	case w.set != nil:
		w.told = exact.NewOutput(exact.OutputConfig{Set: w.set, Files: w.records(journal)})
		return w.told, nil
	}
	return w.records(journal), nil
}

// openBeside opens the files of answers and the journal of links, as far as they
// are kept.
func (w *worker) openBeside(dir string) (_ frontier.Output, err error) {
	var all beside
	if w.c.Save {
		answers, err := w.openAnswers(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, answers)
	}
	if w.c.Edges {
		config := w.c.Records
		config.Dir, config.Series = dir, record.Links
		journal, err := record.OpenJournal(config)
		if err != nil {
			return nil, err
		}
		w.edges, all = journal, append(all, journal)
	}
	return all, nil
}

func (w *worker) openAnswers(dir string) (frontier.Output, error) {
	return w.openArchive(dir, func(c warc.Config) (*warc.Writer, error) { return openWorkerArchive(c) })
}

func (w *worker) closeKeys() {
	if w.keys != nil {
		w.keys.Close()
	}
}

// maxWorkerName is the longest name of a worker.
const maxWorkerName = 64

// newWorkerName names this process: HOST-PID-RANDOM.
func newWorkerName() string {
	host, _ := os.Hostname()
	host = plainName(host)
	return fmt.Sprintf("%s-%d-%04x", host[:min(len(host), maxWorkerName-16)], os.Getpid(), rand.Uint32()&0xffff)
}

// explain adds the crawl to an error of its server.
func (h *Server) explain(err error) error {
	if errors.Is(err, redisstore.ErrNoCrawl) {
		return ErrNoCrawl
	}
	if _, settings := errors.AsType[*frontier.SettingsError](err); settings {
		return err
	}
	return fmt.Errorf("%s: %w", h, err)
}

// Remove deletes the crawl from Redis and Postgres, and returns how many keys
// Redis had. What one of the two has lost is no error.
func (h *Server) Remove(ctx context.Context) (keys int, err error) {
	settings, err := h.Stored(ctx)
	if _, lost := errors.AsType[*LostError](err); err != nil && !lost {
		return 0, err
	}
	if settings[exactSetting] != "" && h.DB == nil {
		return 0, errExactElsewhere(h.String())
	}
	inPostgres := pgstore.ErrNoCrawl
	if h.DB != nil { // first: the queue is what names the crawl there
		inPostgres = pgstore.Delete(ctx, pgstore.Config{DSN: h.DB.DSN, Crawl: h.Name})
		if inPostgres != nil && !errors.Is(inPostgres, pgstore.ErrNoCrawl) {
			return 0, h.DB.explain(inPostgres)
		}
	}
	keys, err = redisstore.Delete(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) && inPostgres == nil {
		return 0, nil
	}
	if err != nil {
		return 0, h.explain(err)
	}
	return keys, nil
}
