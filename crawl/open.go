package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/redisstore"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/pgstore"
)

// Run crawls from config.Seeds until nothing is left, a limit is reached or ctx
// ends. It calls Open, Crawl.Run, Result.Err and Close. If the crawl exists, Run resumes it.
func Run(ctx context.Context, config Config) error {
	c, err := Open(ctx, config)
	if err != nil {
		return err
	}
	result, err := c.Run(ctx)
	if result != nil {
		err = errors.Join(err, result.Err())
	}
	return errors.Join(err, c.Close())
}

// Open opens a crawl to run it, and creates it if there is none. If the crawl is stored in
// a directory, Open takes the lock of this directory. If another process has the lock, the
// error wraps frontier.ErrLocked. In Redis, this process becomes one of the crawl's workers.
func Open(ctx context.Context, config Config) (*Crawl, error) {
	p, err := Prepare(ctx, config)
	if err != nil {
		p.Close()
		return nil, err
	}
	c, err := p.Open(ctx)
	if p.New() && errors.Is(err, frontier.ErrParamsMismatch) { // another worker has just created the crawl
		if p, err = Prepare(ctx, config); err != nil {
			return nil, err
		}
		return p.Open(ctx)
	}
	return c, err
}

// Open is like the function Open, with the settings that Prepare has read. If another process has created the crawl
// since then, with other settings, the error wraps frontier.ErrParamsMismatch. Open must not be called twice.
func (p *Plan) Open(ctx context.Context) (*Crawl, error) {
	if p.Logger == nil {
		p.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	err := p.prepareEvents()
	if err == nil && p.missing != nil {
		if err = p.missing; p.place.Busy() {
			err = engine.ErrInUse(p.Dir, "crawler")
		}
	}
	if err == nil && p.differs != nil {
		err = p.differing()
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	ses, err := openSession(ctx, p, engine.ToCrawl)
	if err != nil {
		return nil, err
	}
	if err := ses.keepOwn(); err != nil {
		return nil, errors.Join(err, ses.close())
	}
	c, err := ses.serve(ctx)
	if err != nil {
		return nil, errors.Join(err, ses.close())
	}
	return c, nil
}

// serve returns a Crawl for the session, and starts to answer other processes.
func (ses *session) serve(ctx context.Context) (*Crawl, error) {
	if err := ses.newMonitor(ctx, time.Now()); err != nil {
		return nil, err
	}
	endServing := func() {}
	if ses.dir != "" {
		var err error
		if endServing, err = control.Serve(context.WithoutCancel(ctx), ses.dir, ses.routes()); err != nil {
			return nil, err
		}
	}
	h := newHandle(ses.plan.Location(), ses.plan.place)
	h.own = ses
	return &Crawl{Handle: h, ses: ses, endServing: sync.OnceFunc(endServing), ending: &ending{begun: make(chan struct{})}}, nil
}

// Close closes the crawl. It must not be called while Run runs.
func (c *Crawl) Close() error {
	c.endServing()
	return c.ses.close()
}

// Attach returns a Handle on the crawl at l, whether a process runs it or not. Attach
// creates nothing. Methods of the Handle that only read the crawl need no permission to
// write. Attach returns ErrNoCrawl if there is no crawl, and a *WorkerError for the
// directory of a worker that is not running.
func Attach(ctx context.Context, l Location) (*Handle, error) {
	place, err := l.place()
	if err != nil {
		return nil, err
	}
	h := newHandle(l, place)
	if l.Redis == nil {
		card, err := engine.ReadWorkerCard(l.Dir)
		if err != nil {
			return nil, err
		}
		if card != nil {
			if !h.Running(ctx) {
				return nil, &WorkerError{l.Dir, card.Crawl}
			}
			return h, nil
		}
	}
	for begun := time.Now(); ; {
		stored, err := place.Stored(ctx)
		if err != nil || stored != nil {
			return h, err
		}
		if !place.Busy() || time.Since(begun) > handoverTime {
			return nil, fmt.Errorf("%s: %w", l, ErrNoCrawl)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// openStored opens the crawl for a call of the Handle.
func (h *Handle) openStored(ctx context.Context, purpose engine.Purpose) (*session, error) {
	return openStored(ctx, h.location, h.place, h.network, purpose)
}

// openStored opens an existing crawl with its stored settings, without running it.
// No request is made, so the settings of a run do not matter, except those in network that say which seeds are permitted; nil
// permits every address.
func openStored(ctx context.Context, l Location, place engine.Place, network *Settings, purpose engine.Purpose) (*session, error) {
	stored, err := place.Stored(ctx)
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, fmt.Errorf("%s: %w", l, ErrNoCrawl)
	}
	var own frontier.Settings
	if l.Redis == nil { // explanations name the ports that its runs request
		if own, err = ownSettings(stored.Own); err != nil {
			return nil, err
		}
	}
	p := newPlan(Config{Dir: l.Dir, Redis: l.Redis, Postgres: l.Postgres, Anyway: true}, stored.Settings)
	p.place, p.version = place, stored.Version
	errs := slices.Concat(p.merge(own), p.parse())
	p.Settings.Proxy, p.Settings.ProxyHTTP, p.Settings.CAFile, p.Settings.AllowPrivate = "", "tunnel", "", true // no request is made
	if network != nil {
		p.Settings.AllowPrivate, p.Settings.AllowNet, p.Settings.AllowPorts = network.AllowPrivate, network.AllowNet, network.AllowPorts
		p.Settings.ConnectTo, p.Settings.DNS = network.ConnectTo, network.DNS
	}
	if purpose != engine.ToLook {
		errs = append(errs, p.newClient())
	}
	if err := errors.Join(errs...); err != nil {
		p.Close()
		return nil, err
	}
	p.Logger = slog.New(slog.DiscardHandler)
	ses, err := openSession(ctx, p, purpose)
	if err == nil && l.Redis != nil {
		ses.dir = "" // the directory that contains the workers' directories has no report
	}
	return ses, err
}

// Rebuilt is the result of a Rebuild.
type Rebuilt struct {
	Lost       *LostError        // why the crawl was restored from Postgres; nil if Redis had it
	Reconciled *exact.Reconciled // exact URLs that were queued again; nil if Postgres has no exact URLs
	Loss       *Loss             // set by AcceptLoss
	Keys       uint64            // URLs in the filter
}

// Loss describes the records that are missing from the files of a crawl.
type Loss = engine.Loss

// Rebuild rebuilds the filter of a crawl after the filter was lost. For a crawl in
// Redis it needs the records of all workers in l.Dir. It also queues again the exact URLs
// that are not finished according to Postgres. If Redis has lost the whole crawl, Rebuild
// restores the crawl from Postgres. Workers must not run during Rebuild.
func Rebuild(ctx context.Context, l Location) (Rebuilt, error) {
	return rebuild(ctx, l, engine.ToRebuild)
}

// AcceptLoss is Rebuild for a crawl in a directory whose newest file of records has lost
// committed records at its end. The crawl goes on without the missing records.
func AcceptLoss(ctx context.Context, l Location) (Rebuilt, error) {
	return rebuild(ctx, l, engine.ToAcceptLoss)
}

func rebuild(ctx context.Context, l Location, purpose engine.Purpose) (r Rebuilt, err error) {
	place, err := l.place()
	if err != nil {
		return r, err
	}
	if purpose == engine.ToAcceptLoss && !place.OneProcess() {
		return r, engine.ErrSharedLoss(l.String())
	}
	if purpose == engine.ToRebuild {
		if r.Lost, err = place.Recreate(ctx); err != nil {
			return r, err
		}
	}
	ses, err := openStored(ctx, l, place, nil, purpose)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, ses.close()) }()
	if purpose == engine.ToAcceptLoss {
		if r.Loss, err = ses.engine.AcceptRecordLoss(ctx); err != nil {
			return r, err
		}
	}
	if ses.engine.ExactElsewhere() {
		done, err := ses.engine.ReconcileSet(ctx, true)
		if err != nil {
			return r, err
		}
		r.Reconciled = &done
	}
	stats, err := ses.engine.Stats(ctx)
	r.Keys = stats.Filter.Keys
	return r, err
}

// Delete removes a crawl from Redis and from Postgres, and returns how many keys
// Redis had. The records in workers' directories stay. Delete returns an error for a crawl
// that is stored in a directory: to delete such a crawl, remove the directory.
func Delete(ctx context.Context, l Location) (keys int, err error) {
	place, err := l.place()
	if err != nil {
		return 0, err
	}
	return place.Remove(ctx)
}

// Listed is a crawl in a list of crawls.
type Listed struct {
	Name    string `json:"name"`
	State   string `json:"state"`   // "running", "paused", "finished", "stopped", or why it cannot be opened
	Pages   uint64 `json:"pages"`   // pages that were fetched
	Queued  uint64 `json:"queued"`  // URLs that are queued or being fetched
	Workers int    `json:"workers"` // workers that are alive
}

// List returns the crawls in a Redis, by name. It searches all keys of the database for 30 s at
// most. If that was too short, complete is false. List does not use r.Name.
func List(ctx context.Context, r Redis) (crawls []Listed, complete bool, err error) {
	r.Name = "list"
	server, err := Location{Redis: &r}.server(nil)
	if err != nil {
		return nil, false, err
	}
	found, complete, err := redisstore.List(ctx, redisstore.Config{Redis: server.Redis})
	for _, c := range found {
		crawls = append(crawls, Listed(c))
	}
	return crawls, complete, err
}

// RecordsFile returns the path of the file to which the records of the crawl in
// dir are appended.
func RecordsFile(dir string) string { return engine.RecordsIn(dir) }

// Migrate brings the schema of a database up to date, and returns the versions
// before and after.
func Migrate(ctx context.Context, p *Postgres) (from, to int64, err error) {
	if p == nil {
		return 0, 0, errors.New("crawl: Postgres is nil, want a database")
	}
	db, err := p.database()
	if err != nil {
		return 0, 0, err
	}
	if from, to, err = pgstore.Migrate(ctx, pgstore.Config{DSN: db.DSN}); err != nil {
		err = fmt.Errorf("%s: %w", db.Where, err)
	}
	return from, to, err
}
