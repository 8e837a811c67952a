package crawl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/fetcher"
	"github.com/bloomfrontier/crawler/fetcher/get"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/fetcher/warc"
	"github.com/bloomfrontier/crawler/frontier"
)

// session is an open crawl: its frontier and its outputs, and a worker unless it only looks.
type session struct {
	plan   *Plan
	dir    string // contains this process's records, the socket and the report; empty means none
	engine *engine.Engine
	worker *fetcher.Crawl // nil if the session only looks

	changing  sync.Mutex   // held during a change of the policy
	adopting  sync.Mutex   // guards plan.version
	confirmed confirmation // of the policy of a crawl in Redis
	digests   secretDigests

	feeding  atomic.Int64         // calls of Feed that are not done yet
	closed   atomic.Bool          // nothing can be added any more: see report.Sample
	seedsMu  sync.Mutex           // guards seedsFile, counts and partial
	counts   SeedCounts           // the seeds of this run; All is not set
	blocked  *report.BlockedHosts // set before the worker's Run ends with fetcher.Blocked
	partial  bool                 // a Feed ended before all its seeds were added
	refusal  string               // the first of Config.Seeds that was refused, and why; read after the run
	handlers handlers
	revisits *revisits     // nil if the session only looks, or the crawl cannot visit pages again
	monitor  *monitor      // the monitor of a Crawl; nil means the session only answers a Handle
	changed  chan struct{} // signals a change that a Watch shows at once
	close    func() error  // closes the crawl at the first call, and returns the same error at each call
}

// openSession opens the crawl of a plan. It creates the crawl only if the argument purpose
// is engine.ToCrawl.
func openSession(ctx context.Context, p *Plan, purpose engine.Purpose) (*session, error) {
	opened, err := p.openEngine(ctx, purpose)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.opened = true
	hashed := *p.policy.Load()
	hashed.Block.Hash = opened.Hasher().Fingerprint
	p.policy.Store(&hashed)
	ses := &session{plan: p, engine: opened, dir: opened.Dir(), changed: make(chan struct{}, 1)}
	ses.close = sync.OnceValue(func() error {
		var err error
		if ses.revisits != nil {
			err = ses.revisits.close()
		}
		err = errors.Join(err, opened.Close())
		if p.client != nil {
			p.client.Close()
		}
		return err
	})
	if p.Redis == nil {
		ses.dir = p.Dir
	}
	if p.Redis != nil && purpose != engine.ToRebuild {
		ses.askPostgres(ctx)
	}
	if purpose == engine.ToLook {
		return ses, nil
	}
	if purpose == engine.ToCrawl {
		if err := ses.settleSecrets(ctx); err != nil {
			return nil, errors.Join(err, ses.close())
		}
	}
	var unconfirmed func() <-chan struct{}
	if p.Redis != nil {
		unconfirmed = ses.confirmed.opening
	}
	var known fetcher.Visits
	if (p.Redis != nil && opened.Postgres() != nil || p.Redis == nil && p.Settings.Sink != sinkPostgres) && purpose == engine.ToCrawl {
		bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
		ses.revisits = &revisits{ses: ses, ctx: bounded, cancel: cancel}
		if ses.revisits.Active() {
			ses.revisits.since = time.Now().Truncate(time.Second).Add(-1) // rows have times in seconds
		}
		known = ses.revisits
	}
	ses.worker, err = fetcher.New(fetcher.Config{
		Visits:      known,
		Unconfirmed: unconfirmed, Pass: p.Gate.Join(),
		// If this process adds seeds but does not run the crawl, it stores the origins of the
		// seeds. A later run might have private headers, which it sends only to these origins.
		SeedOrigins: purpose == engine.ToSteer,
		Store:       opened, Scope: opened, Quota: opened, Client: p.client, Canon: p.canon, Sink: opened.Sink(), Worker: p.Settings.Worker,
		Policy: p.policy.Load, Exact: p.exact, Memory: p.Memory, Archive: ses.archive(),
		Concurrency: p.Settings.Concurrency, MaxConnections: p.maxConnections(), Scarce: p.Scarce,
		Rate: p.Settings.Rate, Bandwidth: p.Settings.Bandwidth, Grace: requestGrace(p.Settings.Grace),
		Edges: ses.edges(), Fields: p.fields, Text: p.Settings.Text,
		OnPage: ses.onPage(), OnAnswer: ses.onAnswer(), OnRefused: p.OnRefused, OnlyBlocked: ses.onlyBlocked, Logger: p.Logger,
	})
	if err != nil {
		return nil, errors.Join(err, ses.close())
	}
	return ses, nil
}

// openEngine opens the frontier. A process that only reads something, such as a relay,
// locks the directory for a moment. So if the directory is locked and no process runs
// the crawl there, openEngine waits up to handoverTime. A process that wants to run the crawl
// tries more often than those that only read, which otherwise could keep it waiting.
func (p *Plan) openEngine(ctx context.Context, purpose engine.Purpose) (*engine.Engine, error) {
	pause := 20 * time.Millisecond
	if purpose == engine.ToCrawl {
		pause = time.Millisecond
	}
	for begun := time.Now(); ; {
		opened, err := p.place.Open(ctx, p.engineConfig(), purpose)
		if !errors.Is(err, frontier.ErrLocked) || control.Listens(ctx, p.Dir) || time.Since(begun) > handoverTime {
			return opened, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// file returns the path of a file in the crawl's directory.
func (ses *session) file(name string) string { return filepath.Join(ses.dir, name) }

// onPage returns a function that calls Config.OnPage, or nil if there is no OnPage.
func (ses *session) onPage() func(context.Context, *fetcher.Page) error {
	if ses.plan.OnPage == nil {
		return nil
	}
	return func(ctx context.Context, page *fetcher.Page) error {
		return ses.handle(ctx, &page.Item, func() error { return ses.plan.OnPage(ctx, newPage(page)) })
	}
}

// onAnswer does the same for Config.OnAnswer.
func (ses *session) onAnswer() func(context.Context, *Answer) error {
	if ses.plan.OnAnswer == nil {
		return nil
	}
	return func(ctx context.Context, answer *Answer) error {
		return ses.handle(ctx, &answer.Item, func() error { return ses.plan.OnAnswer(ctx, answer) })
	}
}

// handle calls a handler, turns a panic into an error, and notes the error of the last attempt.
func (ses *session) handle(ctx context.Context, item *frontier.Item, call func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			ses.plan.Logger.Error("a handler panicked", slog.String("url", item.URL),
				slog.Any("panic", fault), slog.String("stack", string(debug.Stack())))
			err = fmt.Errorf("a handler panicked: %v", fault)
		}
		if err != nil && ctx.Err() == nil && int(item.Attempts) >= ses.plan.policy.Load().Retries {
			ses.handlers.note(item.URL, err)
		}
	}()
	return call()
}

// archive returns the archive of answers, or nil if none are kept.
func (ses *session) archive() fetcher.Archive {
	if ses.plan.Settings.Save == "none" || ses.engine.Archive() == nil {
		return nil
	}
	return archive{ses.engine.Archive(), ses.plan.Settings.Save == "all"}
}

// edges returns the sink for links, or nil if links are not kept.
func (ses *session) edges() record.EdgeSink {
	if !ses.plan.Settings.Links {
		return nil
	}
	return ses.engine.Edges()
}

// archive keeps the answers that Settings.Save selects.
type archive struct {
	*warc.Writer
	all bool
}

// Wants implements fetcher.Archive.
func (a archive) Wants(answer *get.Response) bool {
	return a.all || answer.Status/100 == 2 && answer.IsHTML()
}

// WantsRobots implements fetcher.Archive. A robots.txt is kept only with "all".
func (a archive) WantsRobots() bool { return a.all }

// requestGrace returns the part of the grace that requests under way can use. The rest is
// for the steps after them: storing the results, the summary and closing the store.
func requestGrace(grace time.Duration) time.Duration {
	return grace - min(grace/4, 5*time.Second)
}
