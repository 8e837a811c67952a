package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/net/netutil"

	"github.com/bloomfrontier/crawler/internal/durable"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// keyTTL is how long the answer of a key is kept.
const keyTTL = 24 * time.Hour

// Bounds of requests.
const (
	maxConnections = 1024
	maxHeaderBytes = 16 << 10
	maxBody        = 4 << 20         // bytes; an upload has no bound
	maxAnswer      = 4 << 20         // bytes of an answer that is stored
	effectTime     = 2 * time.Minute // for the effect of a request
	readTime       = 30 * time.Second
	writeTime      = effectTime + time.Minute
	shutdownTime   = 10 * time.Second // for requests that are under way when the Server ends
)

// Server has crawls and the HTTP API for them. It is safe for concurrent use.
type Server struct {
	cfg      Config
	root     root
	lock     io.Closer
	ledger   ledger
	answers  idempotency.Store
	once     *idempotency.Middleware
	fleet    *fleet
	uploads  uploads
	api      huma.API
	mux      *http.ServeMux
	routes   map[string]route // by the pattern of the mux
	limits   limits
	metrics  *metrics
	ending   chan struct{} // closed when the Server ends
	lost     chan struct{} // closed when another Server has begun to use the ledger; nil in a directory
	changes  http.Handler  // the mux behind the Middleware
	handler  http.Handler
	pages    http.Handler // the dashboard
	endPages context.CancelFunc
}

// New opens the crawls below cfg.Root, and finishes what a crash has interrupted. The error names every fault of cfg. The
// caller must close the Server.
func New(ctx context.Context, cfg Config) (_ *Server, err error) {
	if cfg, err = cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Root, err = filepath.Abs(cfg.Root); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, root: root{cfg.Root}, routes: make(map[string]route), limits: newLimits(), ending: make(chan struct{})}
	s.uploads.underWay = make(map[idempotency.ID]bool)
	if err := durable.MkdirAll(vfs.Default, cfg.Root); err != nil {
		return nil, err
	}
	if s.lock, err = durable.Lock(vfs.Default, filepath.Join(cfg.Root, "lock")); err != nil {
		return nil, fmt.Errorf("serve: %s is used by another process: %w", cfg.Root, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.root.open(); err != nil {
		return nil, err
	}
	if err := s.openLedger(ctx); err != nil {
		return nil, err
	}
	if s.fleet, err = newFleet(s.root, &s.cfg, s.ledger); err != nil {
		return nil, err
	}
	if err := s.fleet.load(ctx); err != nil {
		return nil, err
	}
	s.metrics = newMetrics(s)
	s.routeAll()
	var paging context.Context
	paging, s.endPages = context.WithCancel(context.WithoutCancel(ctx))
	s.pages = s.newDashboard(paging)
	s.changes, s.handler = s.once.Wrap(s.mux), s.guard()
	return s, nil
}

// openLedger opens the ledger: below the root, or in Redis.
func (s *Server) openLedger(ctx context.Context) error {
	if s.cfg.Redis == nil {
		local, err := openLocal(s.root.dir)
		if err != nil {
			return err
		}
		s.ledger, s.lost = local, nil
	} else {
		holder, err := s.root.holder()
		if err != nil {
			return err
		}
		shared, err := openShared(ctx, &s.cfg, holder)
		if err != nil {
			return err
		}
		s.ledger, s.lost = shared, shared.lost
	}
	s.answers = identified{s.ledger.answers(), s.ledger}
	var err error
	s.once, err = idempotency.New(idempotency.Config{
		Store: s.answers, Caller: func(r *http.Request) string { return callerOf(r.Context()).Name },
		TTL: keyTTL, MaxBytes: maxBody, MaxAnswerBytes: maxAnswer, Timeout: effectTime, Logger: s.cfg.Logger,
	})
	return err
}

// Handler returns the handler of the API. It checks hosts and tokens itself, and expects an http.Server with the timeouts of
// Run. Crawls run only during Run.
func (s *Server) Handler() http.Handler { return s.handler }

// Run runs the crawls and answers requests on listener until ctx ends. Then it refuses new requests, finishes those under way
// for up to 10 s, and stops the crawls as a signal does, which uses up no attempt of any URL. It returns an error at once if
// the address is not loopback and Config has no tokens, or neither TLS nor BehindProxy. Run closes listener, and must not
// be called twice.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	if err := s.checkAddress(listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	crawling, stopCrawling := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCrawling()
	s.fleet.runner.start(crawling)
	s.fleet.relays.start(crawling)
	sweeping, stopSweeping := context.WithCancel(ctx)
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		s.sweep(sweeping)
	}()
	server := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes,
		TLSConfig: s.cfg.TLS, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0), // what clients do is not an event of the log
	}
	served := make(chan error, 1)
	listener = netutil.LimitListener(listener, maxConnections)
	go func() {
		if s.cfg.TLS != nil {
			served <- server.ServeTLS(listener, "", "")
			return
		}
		served <- server.Serve(listener)
	}()
	var err error
	select {
	case <-ctx.Done():
	case <-s.lost:
		err = ErrLeaseLost
	case err = <-served:
	}
	close(s.ending) // ends the streams
	s.endPages()
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(finish) != nil {
		_ = server.Close()
	}
	stopSweeping()
	<-swept
	stopCrawling()
	s.fleet.runner.wait()
	s.fleet.relays.runs.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// sweep deletes what has expired, until ctx ends.
func (s *Server) sweep(ctx context.Context) {
	var files sync.WaitGroup
	defer files.Wait()
	files.Go(func() {
		for ctx.Err() == nil {
			if err := s.ledger.sweep(ctx); err != nil {
				s.cfg.Logger.Error("sweep failed", slog.Any("err", err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
		}
	})
	for ctx.Err() == nil {
		if err := idempotency.Sweep(ctx, s.answers, 0); err != nil {
			s.cfg.Logger.Error("sweep failed", slog.Any("err", err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
}

// FilterBytes returns how much memory the filters of the running crawls take. It is not part of Config.Memory.
func (s *Server) FilterBytes() uint64 { return s.fleet.filterBytes() }

// Close closes the stores. It must not be called while Run runs, or while the Handler answers requests.
func (s *Server) Close() error {
	var errs []error
	if s.endPages != nil {
		s.endPages()
	}
	if s.fleet != nil {
		for _, m := range s.fleet.list() {
			errs = append(errs, m.closeHandle())
		}
	}
	if s.ledger != nil {
		errs = append(errs, s.ledger.close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}

// identified is a Store whose effects can find out the ID of their request.
type identified struct {
	idempotency.Store
	ledger ledger
}

type requestKey struct{}

// Do implements idempotency.Store.
func (i identified) Do(ctx context.Context, r idempotency.Request, effect func(context.Context) idempotency.Result) (*idempotency.Answer, error) {
	if err := i.ledger.valid(ctx); err != nil {
		return nil, err
	}
	return i.Store.Do(ctx, r, func(ctx context.Context) idempotency.Result {
		return effect(context.WithValue(ctx, requestKey{}, r.ID))
	})
}

type keyKey struct{}

// keyOf returns the Idempotency-Key of a request, or "".
func keyOf(ctx context.Context) string {
	key, _ := ctx.Value(keyKey{}).(string)
	return key
}

// requestID returns the ID of the request that has an effect.
func requestID(ctx context.Context) idempotency.ID {
	id, _ := ctx.Value(requestKey{}).(idempotency.ID)
	return id
}

// author returns the author of a change of the policy: the caller, and the beginning of the ID of the request.
func author(ctx context.Context) string {
	return fmt.Sprintf("%s (request %s)", callerOf(ctx).Name, idText(requestID(ctx))[:16])
}
