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
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Server is the Place of a crawl that workers share in a Redis.
type Server struct {
	Redis *redis.UniversalOptions
	Where string // its URL without secrets
	Name  string // name of the crawl
	// Dir is the directory that contains the workers' directories. For a process that
	// crawls, Dir is the worker's own directory. Empty means NAME.crawl, or for a
	// worker a directory in NAME.crawl.
	Dir string
	DB  *Database // the database with the crawl's exact keys; nil if no address of a database was given
}

var _ Place = (*Server)(nil)

// String implements Place.
func (h *Server) String() string { return h.Name + " on " + h.Where }

// Home implements Place: it returns the directory that contains the workers' directories.
func (h *Server) Home() string { return cmp.Or(h.Dir, JournalsOf(h.Name)) }

// config returns a config that names the server and the crawl.
func (h *Server) config() redisstore.Config {
	return redisstore.Config{Redis: h.Redis, Name: h.Name}
}

// Stored implements Place. It returns a *LostError for a crawl that is in
// Postgres but not in Redis.
func (h *Server) Stored(ctx context.Context) (*Stored, error) {
	settings, id, err := redisstore.Stored(ctx, h.config())
	switch {
	case errors.Is(err, redisstore.ErrNoCrawl):
		return h.lostCrawl(ctx)
	case err != nil:
		return nil, h.explain(err)
	}
	own, err := workerCard{Format: workerFormat, Crawl: h.Name, ID: id}.own(h.Dir)
	if err != nil {
		return nil, err
	}
	version, err := h.storedVersion(ctx)
	return &Stored{settings, version, own}, err
}

// Busy implements Place.
func (*Server) Busy() bool { return false }

// OneProcess implements Place.
func (*Server) OneProcess() bool { return false }

// errOpen reports a call that needs the crawl to be open, because any process can open it.
var errOpen = errors.New("a crawl in Redis is opened to be read")

// Outbox implements Place.
func (*Server) Outbox(context.Context, bool, func(context.Context) (frontier.Position, error)) (box Outbox, release func() error, err error) {
	return box, nil, errOpen
}

// RowsOf implements Place.
func (*Server) RowsOf(context.Context) (RecordSource, func(), error) { return nil, nil, errOpen }

// RunDirs implements Place.
func (h *Server) RunDirs() ([]string, error) { return FindJournals([]string{h.Home()}) }

// Open implements Place.
func (h *Server) Open(ctx context.Context, c *Config, why Purpose) (*Engine, error) {
	if window := c.Windows[frontier.Bulk]; window > 0 {
		return nil, fmt.Errorf("the window bulk=%v is not possible in Redis: the filter there does not forget; want a crawl in a directory", window)
	}
	config := h.config()
	config.Policy, config.LeaseTTL, config.SeenCache, config.Logger = c.Policy, c.LeaseTTL, redisstore.DefaultSeenCache, c.Logger
	state := newRebuildState(c)
	if why == ToRebuild {
		if err := h.rebuild(ctx, c, state); err != nil {
			return nil, err
		}
	}
	client := &exact.Client{Rules: c.Exact, Log: c.Logger, Err: errElsewhere(h.String(), "exact keys")}
	if why != ToCrawl {
		config.Exact = client
		store, err := redisstore.Inspect(ctx, config)
		if err != nil {
			return nil, h.explain(err)
		}
		if err := state.restore(ctx, store); err != nil {
			return nil, errors.Join(h.explain(err), store.Close())
		}
		engine, err := h.inspectEngine(ctx, c, store, client)
		if err == nil && why == ToRebuild {
			if _, err = engine.LastVersion(ctx); err != nil {
				return nil, errors.Join(err, engine.Close())
			}
		}
		return engine, err
	}
	if h.DB == nil && c.Stored[exactSetting] != "" {
		return nil, errElsewhere(h.String(), "exact keys")
	}
	if h.DB == nil && c.Rows {
		return nil, errElsewhere(h.String(), "records")
	}
	config.Settings = c.Settings
	if h.DB != nil {
		config.Exact = client
	}
	config.Capacity, config.FPR, config.Growth = c.Capacity, c.FPR, c.Growth
	config.Partitions, config.Wait = c.Partitions, c.Wait
	config.Worker = cmp.Or(c.Worker, newWorkerName())
	return h.join(ctx, c, config)
}

// join opens the crawl as one of its workers.
func (h *Server) join(ctx context.Context, c *Config, config redisstore.Config) (*Engine, error) {
	w := worker{outputs: outputs{c: c, dir: h.Dir}, server: h, client: config.Exact}
	config.TempDir = h.Dir // openOutput creates it, if it is not empty
	config.OpenOutput = func(crawl frontier.Identity, _ frontier.Position) (frontier.Output, error) {
		return w.open(ctx, crawl)
	}
	if c.Rows {
		config.Contents = contentsOf{&w}
	}
	store, err := redisstore.Open(ctx, config)
	if err != nil {
		w.closeKeys()
		return nil, errors.Join(h.explain(err), w.close())
	}
	e := &sharedEngine{Store: store, server: h, id: store.ID(), wait: c.Wait, log: c.Logger, rows: c.Rows, journal: w.journal, dir: w.dir, workerEnd: c.WorkerEnd}
	if w.keys != nil {
		e.exact = newExactKeys(c, store, w.keys, w.client)
	}
	return e.engine(&w.outputs), nil
}

// inspectEngine returns the engine of a process that inspects or controls the crawl. The
// engine has no outputs. If the exact keys are in a Postgres that was not given or does not
// answer, the calls that need exact keys return an error.
func (h *Server) inspectEngine(ctx context.Context, c *Config, store *redisstore.Store, client *exact.Client) (*Engine, error) {
	e := &sharedEngine{Store: store, server: h, id: store.ID(), wait: c.Wait, log: c.Logger, rows: c.Rows, workerEnd: c.WorkerEnd, exactElsewhere: c.Stored[exactSetting] != ""}
	if h.DB == nil || !e.exactElsewhere {
		return e.engine(new(outputs)), nil
	}
	keys, err := h.DB.inspect(ctx, h.Name)
	if err == nil {
		client.Set = exact.NewBreaker(keys, 0)
		e.exact = newExactKeys(c, store, keys, client)
	}
	engine := e.engine(new(outputs))
	switch {
	case errors.Is(err, frontier.ErrUnavailable):
		c.Logger.Warn("exact keys not shown", slog.Any("err", err))
	case err != nil:
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// worker has the parts that a worker opens besides the queue: the exact keys and its
// records.
type worker struct {
	outputs
	server  *Server
	keys    *pgstore.Store  // nil means exact keys are in Redis
	client  *exact.Client   // of the queue; open sets its Set and End
	journal *record.Journal // nil means records are rows
}

// open opens the exact keys, then the journal in the worker's directory, and the files
// of answers. If no directory was given, it chooses one.
//
// If the exact keys are in Postgres, Postgres stores the outcome of each exact item. It does so
// after the record of the item was synced, and before Redis completes the item. If records are
// rows, Postgres stores the outcome and the record of an item together. The journal then
// contains no records, and only locks the directory.
func (w *worker) open(ctx context.Context, crawl frontier.Identity) (_ frontier.Output, err error) {
	if w.server.DB != nil {
		config := pgstore.Config{Crawl: w.server.Name, Identity: crawl.ID, Windows: w.c.Windows, Card: crawl.Card, Capture: w.c.CDC}
		if w.keys, err = w.server.DB.open(ctx, config); err != nil {
			return nil, err
		}
		w.client.Set = exact.NewBreaker(w.keys, 0)
	}
	inRows := w.keys != nil && w.c.Rows
	config := w.c.Records
	if !inRows {
		config.OpenArchive = func(dir string) (frontier.Output, error) { return w.openSides(dir, true) }
	}
	card := workerCard{Format: workerFormat, Crawl: w.server.Name, ID: crawl.ID}
	journal, dir, err := card.openJournal(w.dir, config)
	if err != nil {
		return nil, err
	}
	w.dir, w.files = dir, journal
	if !inRows {
		w.journal = journal
	}
	switch {
	case inRows:
		answers, err := w.openSides(dir, false)
		if err != nil {
			return nil, err
		}
		output := exact.NewOutput(exact.OutputConfig{Set: w.client.Set, Files: answers, Rows: true})
		w.client.End = output.End
		return w.setRows(rowFiles{newRowSink(output), journal}), nil
	case w.keys != nil:
		output := exact.NewOutput(exact.OutputConfig{Set: w.client.Set, Files: w.setRecordFiles(journal)})
		w.client.End = output.End
		return output, nil
	}
	return w.setRecordFiles(journal), nil
}

// contentsOf remembers contents in the Postgres of a worker, which is opened after the store has this value.
type contentsOf struct{ *worker }

// First implements frontier.Contents.
func (c contentsOf) First(ctx context.Context, showed []frontier.ShowedBy) ([]frontier.Referrer, error) {
	return c.keys.First(ctx, showed)
}

// openSides opens the files of answers and, if the argument edges is true, the journal of
// links. It returns nil if the crawl keeps none.
func (w *worker) openSides(dir string, edges bool) (frontier.Output, error) {
	return w.outputs.openSides(dir, w.c.Save, openWorkerArchive,
		edges && w.c.Edges, func(c record.Config) (edgeFiles, error) { return record.OpenJournal(c) })
}

func (w *worker) closeKeys() {
	if w.keys != nil {
		w.keys.Close()
	}
}

// maxWorkerName is the length of the longest name of a worker, in bytes.
const maxWorkerName = 64

// newWorkerName names this process: HOST-PID-RANDOM.
func newWorkerName() string {
	host, _ := os.Hostname()
	host = plainName(host)
	return fmt.Sprintf("%s-%d-%04x", host[:min(len(host), maxWorkerName-16)], os.Getpid(), rand.Uint32()&0xffff)
}

// explain adds the name of the crawl to an error of its server.
func (h *Server) explain(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, redisstore.ErrNoCrawl) {
		return ErrNoCrawl
	}
	if _, settings := errors.AsType[*frontier.SettingsError](err); settings {
		return err
	}
	return fmt.Errorf("%s: %w", h, err)
}

// Remove implements Place. It returns no error if only one of the two has the crawl.
func (h *Server) Remove(ctx context.Context) (keys int, err error) {
	stored, err := h.Stored(ctx)
	if _, lost := errors.AsType[*LostError](err); err != nil && !lost {
		return 0, err
	}
	if stored != nil && stored.Settings[exactSetting] != "" && h.DB == nil {
		return 0, errElsewhere(h.String(), "exact keys")
	}
	inPostgres := pgstore.ErrNoCrawl
	// Delete from Postgres first. If that fails, the settings in Redis still say that Postgres
	// has data of the crawl.
	if h.DB != nil {
		inPostgres = pgstore.Delete(ctx, pgstore.Config{DSN: h.DB.DSN, Crawl: h.Name})
		if inPostgres != nil && !errors.Is(inPostgres, pgstore.ErrNoCrawl) {
			return 0, h.DB.explain(inPostgres)
		}
	}
	keys, err = redisstore.Delete(ctx, h.config())
	if errors.Is(err, redisstore.ErrNoCrawl) && inPostgres == nil {
		return 0, nil
	}
	return keys, h.explain(err)
}
