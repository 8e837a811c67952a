package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// here is the runner of crawls in directories: this process runs them.
type here struct {
	*fleet
	places chan struct{} // an element for each crawl that runs

	ctx  context.Context // crawls run until it ends; nil until start; guarded by fleet.mu
	runs sync.WaitGroup
}

// run is the run of a crawl in this process. The mutex of its member guards it.
type run struct {
	state  State
	end    string        // why the last run ended
	fault  string        // the error of the last run
	again  bool          // there may be something to fetch since the run began
	stop   func()        // ends the run at once, without waiting; nil if no goroutine runs the crawl
	ended  chan struct{} // closed when that goroutine has ended
	opened *crawl.Crawl  // nil if it does not run
}

func (h *here) at(name string) crawl.Location { return crawl.Location{Dir: h.root.crawl(name)} }

func (h *here) openDir(name string) (dir string, release func() error) {
	return h.root.crawl(name), func() error { return nil }
}

func (h *here) state(_ context.Context, m *member) (state State, end, fault string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.run.state, m.run.end, m.run.fault, nil
}

func (h *here) halt(_ context.Context, m *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run.stop != nil {
		m.run.stop()
	}
	return nil
}

func (h *here) remove(ctx context.Context, m *member) error {
	if err := m.awaitEnd(ctx); err != nil {
		return err
	}
	if err := m.closeHandle(); err != nil {
		return err
	}
	if err := os.RemoveAll(h.root.crawl(m.name)); err != nil {
		return err
	}
	return durable.SyncDir(vfs.Default, h.root.dir)
}

func (h *here) checkRecords(context.Context, *member) error { return nil }

// sharedHosts implements runner. The crawls share a politeness.Gate.
func (h *here) sharedHosts(string) []SharedHost { return nil }

// drop implements runner. A crawl that does not run drops the URLs when it runs.
func (h *here) drop(m *member, handle *crawl.Handle, rule string) {
	if state, _, _, _ := h.state(context.Background(), m); state != Running {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx := h.ctx; ctx != nil && ctx.Err() == nil {
		h.runs.Go(func() {
			if _, err := handle.Drop(ctx, rule); err != nil && ctx.Err() == nil {
				h.cfg.Logger.Info("URLs are dropped when it is their turn", slog.String("crawl", m.name), slog.Any("err", err))
			}
		})
	}
}

// start runs the crawls that should run, until ctx ends.
func (h *here) start(ctx context.Context) {
	h.mu.Lock()
	h.ctx = ctx
	h.mu.Unlock()
	for _, m := range h.list() {
		h.wake(m)
	}
}

// wait waits until no crawl runs. It is called after the context of start has ended.
func (h *here) wait() { h.runs.Wait() }

// wake runs a crawl that should run, because there may be something to fetch.
func (h *here) wake(m *member) {
	h.mu.Lock()
	ctx := h.ctx
	m.mu.Lock()
	defer m.mu.Unlock()
	defer h.mu.Unlock()
	m.run.again = true
	if ctx == nil || ctx.Err() != nil || !m.card.Run || m.card.State != "" || m.run.stop != nil {
		return
	}
	run, stop := context.WithCancel(ctx)
	m.run.stop, m.run.ended, m.run.state = stop, make(chan struct{}), Waiting
	h.runs.Go(func() { h.runAll(run, m) })
}

// runAll runs a crawl as long as there may be something to fetch.
func (h *here) runAll(ctx context.Context, m *member) {
	for {
		state, end, err := h.runOnce(ctx, m)
		if err != nil {
			h.cfg.Logger.Error("crawl failed", slog.String("crawl", m.name), slog.Any("err", err))
		}
		m.mu.Lock()
		if m.run.again && ctx.Err() == nil && err == nil && m.card.Run {
			m.run.state = Waiting
			m.mu.Unlock()
			continue
		}
		m.run.state, m.run.end, m.run.fault = state, end, ""
		if err != nil {
			m.run.fault = h.cfg.hide(err.Error())
		}
		m.run.stop()
		m.run.stop = nil
		close(m.run.ended)
		again := m.run.again && m.card.Run && err == nil // it was stopped and resumed meanwhile
		m.mu.Unlock()
		if again {
			h.wake(m)
		}
		return
	}
}

// runOnce runs a crawl once, when a place is free.
func (h *here) runOnce(ctx context.Context, m *member) (state State, end string, err error) {
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	case <-ctx.Done():
		return Stopped, "", nil
	}
	m.mu.Lock()
	m.run.state, m.run.again = Running, false
	c := m.card
	m.mu.Unlock()
	cfg, _, err := h.config(&c, false)
	if err != nil {
		return Failed, "", err
	}
	opened, err := crawl.Open(ctx, cfg)
	for ; errors.Is(err, frontier.ErrLocked) && ctx.Err() == nil; opened, err = crawl.Open(ctx, cfg) {
		select { // a request has it open, and takes long
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return Stopped, "", nil
	case err != nil:
		return Failed, "", err
	}
	m.setOpened(opened)
	result, err := opened.Run(ctx)
	m.setOpened(nil)
	err = errors.Join(err, opened.Close())
	switch {
	case ctx.Err() != nil && err == nil:
		return Stopped, string(result.End), nil
	case err != nil:
		return Failed, "", err
	}
	return Finished, string(result.End), nil
}

func (m *member) setOpened(c *crawl.Crawl) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run.opened = c
}

// awaitEnd ends the run of a crawl and its requests, and waits until it has ended.
func (m *member) awaitEnd(ctx context.Context) error {
	m.mu.Lock()
	stop, ended := m.run.stop, m.run.ended
	if stop != nil {
		stop()
	}
	if m.run.opened != nil {
		m.run.opened.Abort()
	}
	m.mu.Unlock()
	if stop == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
