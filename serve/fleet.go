package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/durable"
)

// State is what a crawl is doing.
type State string

// States. A crawl begins as waiting or stopped:
//
//	waiting → running    one of Config.MaxRunning places is free
//	running → finished   nothing is left to fetch, or a limit is reached; new seeds lead to waiting
//	running → stopped    after stop; resume leads to waiting
//	running → failed     an error ended the run; resume or a new start of the Server leads to waiting
const (
	Waiting  State = "waiting"
	Running  State = "running"
	Finished State = "finished"
	Stopped  State = "stopped"
	Failed   State = "failed"
)

// fleet runs the crawls of a Server.
type fleet struct {
	root   root
	cfg    *Config
	gate   *politeness.Gate
	places chan struct{} // an element for each crawl that runs

	mu     sync.Mutex
	crawls map[string]*member
	run    context.Context // crawls run until it ends; nil until Server.Run
	runs   sync.WaitGroup
}

// member is a crawl of the fleet.
type member struct {
	name string
	at   crawl.Location

	change sync.Mutex // held while the card is changed; taken before mu

	mu     sync.Mutex
	card   card
	state  State
	end    string        // why the last run ended
	fault  string        // the error of the last run
	again  bool          // there may be something to fetch since the run began
	stop   func()        // ends the run at once, without waiting; nil if no goroutine runs the crawl
	ended  chan struct{} // closed when that goroutine has ended
	handle *crawl.Handle
	opened *crawl.Crawl // the run; nil if it does not run
}

func newFleet(r root, cfg *Config) *fleet {
	return &fleet{
		root: r, cfg: cfg, gate: politeness.NewGate(time.Now()),
		places: make(chan struct{}, cfg.MaxRunning), crawls: make(map[string]*member),
	}
}

// load reads the cards, and finishes creations and deletions.
func (f *fleet) load(ctx context.Context) error {
	names, err := f.root.list("cards")
	if err != nil {
		return err
	}
	for _, name := range names {
		m := f.member(name)
		if _, err := f.root.get("cards", name, &m.card); err != nil {
			return err
		}
		f.crawls[name] = m
		switch m.card.State {
		case creating:
			err = f.create(ctx, m)
		case deleting:
			err = f.remove(m)
		}
		if err != nil {
			return fmt.Errorf("serve: finish %s crawl %s: %w", m.card.State, name, err)
		}
	}
	return nil
}

func (f *fleet) member(name string) *member {
	return &member{name: name, at: crawl.Location{Dir: f.root.crawl(name)}, state: Stopped}
}

// list returns the crawls by name.
func (f *fleet) list() (all []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.crawls)) {
		all = append(all, f.crawls[name])
	}
	return all
}

// get returns a crawl that is neither being created nor deleted.
func (f *fleet) get(name string) (*member, error) {
	f.mu.Lock()
	m := f.crawls[name]
	f.mu.Unlock()
	if m == nil || m.copy().State != "" {
		return nil, newProblem("no-crawl", "no crawl is named "+name)
	}
	return m, nil
}

func (m *member) copy() card {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.card
}

// put stores the card of a crawl. The caller must hold m.change.
func (f *fleet) put(m *member, c card) error {
	if err := f.root.put("cards", m.name, c); err != nil {
		return err
	}
	m.mu.Lock()
	m.card = c
	m.mu.Unlock()
	return nil
}

// add makes a crawl that the card describes. The name must not exist. The caller must have checked the settings.
func (f *fleet) add(ctx context.Context, c card) (*member, error) {
	m := f.member(c.Name)
	m.change.Lock()
	defer m.change.Unlock()
	f.mu.Lock()
	if f.crawls[c.Name] != nil {
		f.mu.Unlock()
		return nil, newProblem("exists", "a crawl is named "+c.Name)
	}
	m.card = c
	m.card.State = creating // before others see it
	f.crawls[c.Name] = m
	f.mu.Unlock()
	err := f.put(m, m.card)
	if err == nil {
		crash.Point("serve create intent")
		err = f.create(ctx, m)
	}
	if err != nil { // take it back
		f.mu.Lock()
		delete(f.crawls, c.Name)
		f.mu.Unlock()
		return nil, errors.Join(err, os.RemoveAll(m.at.Dir), f.root.remove("cards", c.Name))
	}
	return m, nil
}

// create makes the crawl of a card whose state is creating. It can be repeated.
func (f *fleet) create(ctx context.Context, m *member) error {
	cfg, later, err := f.config(&m.card, true)
	if err != nil {
		return err
	}
	c, err := crawl.Open(ctx, cfg)
	if err != nil {
		return err
	}
	crash.Point("serve create opened")
	var history []crawl.PolicyVersion
	if len(later) > 0 {
		if history, err = c.History(ctx); err == nil && history == nil {
			_, err = c.Change(ctx, crawl.Change{Values: later, Who: m.card.By, Why: "settings of the creation"})
		}
	}
	if err = errors.Join(err, c.Close()); err != nil {
		return err
	}
	made := m.card
	made.State = ""
	return f.put(m, made)
}

// delete removes a crawl, and keeps that the request with an ID did so. If it returns an error, it can be repeated.
func (f *fleet) delete(ctx context.Context, name, id string) error {
	f.mu.Lock()
	m := f.crawls[name]
	f.mu.Unlock()
	if m == nil {
		return newProblem("no-crawl", "no crawl is named "+name)
	}
	m.change.Lock()
	defer m.change.Unlock()
	c := m.copy()
	if c.State == creating || c.State == deleting && c.Deletion != id {
		return newProblem("no-crawl", "no crawl is named "+name)
	}
	c.State, c.Deletion, c.Run = deleting, id, false
	if err := f.put(m, c); err != nil {
		return err
	}
	crash.Point("serve delete intent")
	if err := m.awaitEnd(ctx); err != nil {
		return err
	}
	return f.remove(m)
}

// remove removes the files of a crawl whose card says deleting. It can be repeated.
func (f *fleet) remove(m *member) error {
	c := m.copy()
	if m.handle != nil {
		if err := m.handle.Close(); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(m.at.Dir); err != nil {
		return err
	}
	if err := durable.SyncDir(vfs.Default, f.root.dir); err != nil {
		return err
	}
	crash.Point("serve delete removed")
	err := errors.Join(f.root.put("done", c.Deletion, done{}), f.root.put("done", c.Creation, done{createdOf(&c)}))
	if err != nil {
		return err
	}
	if err := f.root.remove("cards", m.name); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.crawls, m.name)
	return nil
}

// open returns the Handle of a crawl.
func (f *fleet) open(ctx context.Context, name string) (*member, *crawl.Handle, error) {
	m, err := f.get(name)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handle == nil {
		if m.handle, err = crawl.Attach(ctx, m.at); err != nil {
			return nil, nil, err
		}
	}
	return m, m.handle, nil
}

// should stores whether a crawl should run, and starts or stops it.
func (f *fleet) should(m *member, run bool) error {
	m.change.Lock()
	defer m.change.Unlock()
	c := m.copy()
	if c.State != "" {
		return newProblem("no-crawl", "no crawl is named "+m.name)
	}
	if c.Run != run {
		c.Run = run
		if err := f.put(m, c); err != nil {
			return err
		}
	}
	if run {
		f.wake(m)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
	}
	return nil
}

// start runs the crawls that should run, until ctx ends.
func (f *fleet) start(ctx context.Context) {
	f.mu.Lock()
	f.run = ctx
	f.mu.Unlock()
	for _, m := range f.list() {
		f.wake(m)
	}
}

// wait waits until no crawl runs. It is called after the context of start has ended.
func (f *fleet) wait() { f.runs.Wait() }

// background calls a function with a context that ends with the runs. It does nothing if no crawl may run.
func (f *fleet) background(do func(ctx context.Context)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx := f.run; ctx != nil && ctx.Err() == nil {
		f.runs.Go(func() { do(ctx) })
	}
}

// wake runs a crawl that should run, because there may be something to fetch.
func (f *fleet) wake(m *member) {
	f.mu.Lock()
	ctx := f.run
	m.mu.Lock()
	defer m.mu.Unlock()
	defer f.mu.Unlock()
	m.again = true
	if ctx == nil || ctx.Err() != nil || !m.card.Run || m.card.State != "" || m.stop != nil {
		return
	}
	run, stop := context.WithCancel(ctx)
	m.stop, m.ended, m.state = stop, make(chan struct{}), Waiting
	f.runs.Go(func() { f.runAll(run, m) })
}

// runAll runs a crawl as long as there may be something to fetch.
func (f *fleet) runAll(ctx context.Context, m *member) {
	for {
		state, end, err := f.runOnce(ctx, m)
		if err != nil {
			f.cfg.Logger.Error("crawl failed", slog.String("crawl", m.name), slog.Any("err", err))
		}
		m.mu.Lock()
		if m.again && ctx.Err() == nil && err == nil && m.card.Run {
			m.state = Waiting
			m.mu.Unlock()
			continue
		}
		m.state, m.end, m.fault = state, end, ""
		if err != nil {
			m.fault = f.root.without(err.Error())
		}
		m.stop()
		m.stop = nil
		close(m.ended)
		again := m.again && m.card.Run && err == nil // it was stopped and resumed meanwhile
		m.mu.Unlock()
		if again {
			f.wake(m)
		}
		return
	}
}

// runOnce runs a crawl once, when a place is free.
func (f *fleet) runOnce(ctx context.Context, m *member) (state State, end string, err error) {
	select {
	case f.places <- struct{}{}:
		defer func() { <-f.places }()
	case <-ctx.Done():
		return Stopped, "", nil
	}
	m.mu.Lock()
	m.state, m.again = Running, false
	c := m.card
	m.mu.Unlock()
	cfg, _, err := f.config(&c, false)
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
	m.opened = c
}

// filterBytes returns the memory of the filters of the crawls that run.
func (f *fleet) filterBytes() (sum uint64) {
	for _, m := range f.list() {
		m.mu.Lock()
		if m.opened != nil {
			sum += m.opened.FilterBytes()
		}
		m.mu.Unlock()
	}
	return sum
}

// awaitEnd ends the run of a crawl and its requests, and waits until it has ended.
func (m *member) awaitEnd(ctx context.Context) error {
	m.mu.Lock()
	stop, ended := m.stop, m.ended
	if stop != nil {
		stop()
	}
	if m.opened != nil {
		m.opened.Abort()
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
