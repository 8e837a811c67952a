package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier/politeness"
	"github.com/bloomfrontier/crawler/internal/crash"
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

// fleet has the crawls of a Server, each with a card.
type fleet struct {
	root   root
	cfg    *Config
	gate   *politeness.Gate
	ledger ledger
	runner runner
	relays *relays // of webhooks

	mu     sync.Mutex
	crawls map[string]*member
}

// runner is where the crawls of a fleet are stored and run: in directories, by this process, or in Redis, by workers elsewhere.
type runner interface {
	// at returns where a crawl is stored.
	at(name string) crawl.Location
	// openDir returns the directory in which this process opens a new crawl, and a function that ends its use.
	openDir(name string) (dir string, release func() error)
	// start runs the crawls that should run, until ctx ends. wait waits until then, and until none runs.
	start(ctx context.Context)
	wait()
	// wake runs a crawl that should run, because there may be something to fetch.
	wake(m *member)
	// halt ends the run of a crawl. The requests under way finish; halt does not wait for all of them.
	halt(ctx context.Context, m *member) error
	// remove ends the run and the requests of a crawl, and removes the crawl. It can be repeated.
	remove(ctx context.Context, m *member) error
	// state returns what a crawl is doing, why its last run ended, and the error of that.
	state(ctx context.Context, m *member) (state State, end, fault string, err error)
	// checkRecords returns a problem if the records of a crawl cannot be read here.
	checkRecords(ctx context.Context, m *member) error
	// sharedHosts returns hosts from which other crawls fetch, too, without regard for this one.
	sharedHosts(name string) []SharedHost
	// drop ends waiting URLs that a rule selects, in the background. If it does not, they are dropped when it is their turn.
	drop(m *member, h *crawl.Handle, rule string)
}

// member is a crawl of the fleet.
type member struct {
	name   string
	change sync.Mutex // held while the card is changed; taken before mu

	mu     sync.Mutex
	card   card
	handle *crawl.Handle
	run    run // of this process
}

func newFleet(r root, cfg *Config, l ledger) (f *fleet, err error) {
	f = &fleet{root: r, cfg: cfg, ledger: l, gate: politeness.NewGate(time.Now()), crawls: make(map[string]*member)}
	if cfg.Redis != nil {
		f.runner = newElsewhere(f)
	} else {
		f.runner = &here{fleet: f, places: make(chan struct{}, cfg.MaxRunning)}
	}
	f.relays, err = newRelays(f)
	return f, err
}

// load reads the cards, and finishes creations and deletions.
func (f *fleet) load(ctx context.Context) error {
	cards, err := f.ledger.cards(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(cards)) {
		m := newMember(name)
		if err := json.Unmarshal(cards[name], &m.card); err != nil {
			return fmt.Errorf("serve: card of crawl %s: %w", name, err)
		}
		f.crawls[name] = m
		switch m.card.State {
		case creating:
			err = f.create(ctx, m)
		case deleting:
			err = f.remove(ctx, m)
		}
		if err != nil {
			return fmt.Errorf("serve: finish %s crawl %s: %w", m.card.State, name, err)
		}
	}
	return nil
}

func newMember(name string) *member { return &member{name: name, run: run{state: Stopped}} }

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
func (f *fleet) put(ctx context.Context, m *member, c card) error {
	text, err := json.Marshal(c)
	if err == nil {
		err = f.ledger.putCard(ctx, m.name, text)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.card = c
	m.mu.Unlock()
	return nil
}

// add makes a crawl that the card describes. The name must not exist. The caller must have checked the settings.
func (f *fleet) add(ctx context.Context, c card) (*member, error) {
	stored, err := crawl.Stored(ctx, f.runner.at(c.Name))
	if err != nil {
		return nil, err
	}
	m := newMember(c.Name)
	m.change.Lock()
	defer m.change.Unlock()
	f.mu.Lock()
	if f.crawls[c.Name] != nil {
		f.mu.Unlock()
		return nil, newProblem("exists", "a crawl is named "+c.Name)
	}
	m.card = c
	m.card.State, m.card.Adopted = creating, stored != nil // before others see it
	f.crawls[c.Name] = m
	f.mu.Unlock()
	err = f.put(ctx, m, m.card)
	if err == nil {
		crash.Point("serve create intent")
		err = f.create(ctx, m)
	}
	if err != nil { // take it back
		f.mu.Lock()
		delete(f.crawls, c.Name)
		f.mu.Unlock()
		if !m.card.Adopted {
			err = errors.Join(err, f.runner.remove(ctx, m))
		}
		return nil, errors.Join(err, f.ledger.putCard(ctx, c.Name, nil))
	}
	return m, nil
}

// create makes the crawl of a card whose state is creating. It can be repeated.
func (f *fleet) create(ctx context.Context, m *member) error {
	cfg, later, err := f.config(&m.card, true)
	if err != nil {
		return err
	}
	var release func() error
	cfg.Dir, release = f.runner.openDir(m.name)
	c, err := crawl.Open(ctx, cfg)
	if err != nil {
		return errors.Join(err, release())
	}
	crash.Point("serve create opened")
	var history []crawl.PolicyVersion
	if len(later) > 0 {
		if history, err = c.History(ctx); err == nil && history == nil {
			_, err = c.Change(ctx, crawl.Change{Values: later, Who: m.card.By, Why: "settings of the creation"})
		}
	}
	if err = errors.Join(err, c.Close(), release()); err != nil {
		return err
	}
	made := m.card
	made.State = ""
	return f.put(ctx, m, made)
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
	if err := f.put(ctx, m, c); err != nil {
		return err
	}
	crash.Point("serve delete intent")
	return f.remove(ctx, m)
}

// remove removes a crawl whose card says deleting. It can be repeated.
func (f *fleet) remove(ctx context.Context, m *member) error {
	f.relays.end(m)
	if err := f.runner.remove(ctx, m); err != nil {
		return err
	}
	crash.Point("serve delete removed")
	c := m.copy()
	err := errors.Join(
		putNote(ctx, f.ledger, doneKey(c.Deletion), done{}, 2*keyTTL), putNote(ctx, f.ledger, doneKey(c.Creation), done{createdOf(&c)}, 2*keyTTL))
	if err != nil {
		return err
	}
	if err := f.ledger.putCard(ctx, m.name, nil); err != nil {
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
		if m.handle, err = crawl.Attach(ctx, f.runner.at(name)); err != nil {
			return nil, nil, err
		}
		m.handle.Guard(f.cfg.Settings)
	}
	return m, m.handle, nil
}

// should stores whether a crawl should run, and starts or stops it.
func (f *fleet) should(ctx context.Context, m *member, run bool) error {
	m.change.Lock()
	defer m.change.Unlock()
	c := m.copy()
	if c.State != "" {
		return newProblem("no-crawl", "no crawl is named "+m.name)
	}
	if c.Run != run {
		c.Run = run
		if err := f.put(ctx, m, c); err != nil {
			return err
		}
	}
	if run {
		f.runner.wake(m)
		return nil
	}
	return f.runner.halt(ctx, m)
}

// summary returns the summary of a crawl.
func (f *fleet) summary(ctx context.Context, m *member) (Summary, error) {
	state, end, fault, err := f.runner.state(ctx, m)
	c := m.copy()
	return Summary{*createdOf(&c), c.Run, state, end, fault}, err
}

// summaries returns the summaries of all crawls. A crawl that cannot be asked has failed.
func (f *fleet) summaries(ctx context.Context) []Summary {
	var asking errgroup.Group
	asking.SetLimit(8)
	members := slices.DeleteFunc(f.list(), func(m *member) bool { return m.copy().State != "" })
	all := make([]Summary, len(members))
	for i, m := range members {
		asking.Go(func() (err error) {
			if all[i], err = f.summary(ctx, m); err != nil {
				all[i].State, all[i].Fault = Failed, f.cfg.hide(err.Error())
			}
			return nil
		})
	}
	_ = asking.Wait() // see above
	return all
}

// closeHandle closes the Handle of a crawl, if there is one.
func (m *member) closeHandle() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.handle == nil {
		return nil
	}
	return m.handle.Close()
}

// filterBytes returns the memory of the filters of the crawls that run.
func (f *fleet) filterBytes() (sum uint64) {
	for _, m := range f.list() {
		m.mu.Lock()
		if m.run.opened != nil {
			sum += m.run.opened.FilterBytes()
		}
		m.mu.Unlock()
	}
	return sum
}
