package serve

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/frontier"
)

const (
	haltTime      = 10 * time.Second // for workers to end, before the answer to a stop
	compareEvery  = time.Minute
	comparedHosts = crawl.MaxHosts // of each crawl, those with the longest queues
	shownHosts    = 100            // of those that two crawls share
)

// elsewhere is the runner of crawls in Redis: workers on any machines run them.
type elsewhere struct {
	*fleet
	changed   chan struct{} // has an element if a crawl has changed since the hosts were compared
	comparing sync.WaitGroup

	sharing sync.Mutex
	shared  map[string][]SharedHost // by crawl
}

// SharedHost is a host from which several crawls fetch.
type SharedHost struct {
	Host   string   `json:"host"`
	Crawls []string `json:"crawls" doc:"the other crawls"`
}

func newElsewhere(f *fleet) *elsewhere {
	return &elsewhere{fleet: f, changed: make(chan struct{}, 1), shared: make(map[string][]SharedHost)}
}

func (e *elsewhere) at(name string) crawl.Location {
	r := *e.cfg.Redis
	r.Name = name
	return crawl.Location{Redis: &r, Postgres: e.cfg.Postgres}
}

// openDir implements runner. The process that creates a crawl is a worker for a moment, and has no records.
func (e *elsewhere) openDir(name string) (dir string, release func() error) {
	dir = filepath.Join(e.root.temp(), name)
	return dir, func() error { return os.RemoveAll(dir) }
}

func (e *elsewhere) start(ctx context.Context) {
	e.comparing.Go(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			e.compareHosts(ctx)
			rest := max(20*time.Since(begun), time.Second)
			select { // comparing takes at most a twentieth of the time
			case <-ctx.Done():
			case <-time.After(rest):
			}
			select {
			case <-ctx.Done():
			case <-e.changed:
			case <-time.After(compareEvery):
			}
		}
	})
}

func (e *elsewhere) wait() { e.comparing.Wait() }

// wake implements runner. Workers look for URLs themselves.
func (e *elsewhere) wake(*member) {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *elsewhere) halt(ctx context.Context, m *member) error {
	limited, cancel := context.WithTimeout(ctx, haltTime)
	defer cancel()
	err := e.stopWorkers(limited, m)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil // they end when their requests are done
	}
	return err
}

// stopWorkers ends the workers of a crawl, and waits until they have ended.
func (e *elsewhere) stopWorkers(ctx context.Context, m *member) error {
	h, err := crawl.Attach(ctx, e.at(m.name))
	if err == nil {
		_, err = h.StopWorkers(ctx)
	}
	return err
}

// remove implements runner. If an earlier call was interrupted, the crawl can have no workers, and cannot be opened.
func (e *elsewhere) remove(ctx context.Context, m *member) error {
	if err := errors.Join(m.closeHandle(), e.ledger.valid(ctx)); err != nil {
		return err
	}
	if err := e.stopWorkers(ctx, m); errors.Is(err, frontier.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	_, err := crawl.Delete(ctx, e.at(m.name))
	if errors.Is(err, crawl.ErrNoCrawl) {
		return nil
	}
	return err
}

// state implements runner: a crawl without workers waits for one, unless it has nothing to fetch, or should not run.
func (e *elsewhere) state(ctx context.Context, m *member) (state State, end, fault string, err error) {
	_, h, err := e.open(ctx, m.name)
	if err != nil {
		return Failed, "", "", err
	}
	status, err := h.Status(ctx)
	switch {
	case err != nil:
		return Failed, "", "", err
	case status.Shared != nil && len(status.Shared.Workers) > 0:
		return Running, "", "", nil
	case !m.copy().Run:
		return Stopped, "", "", nil
	case status.Stats.Queued+status.Stats.Leased == 0:
		return Finished, "", "", nil
	}
	return Waiting, "", "", nil
}

// drop implements runner. Workers drop the URLs when it is their turn.
func (e *elsewhere) drop(*member, *crawl.Handle, string) {}

func (e *elsewhere) checkRecords(ctx context.Context, m *member) error {
	stored, err := crawl.Stored(ctx, e.at(m.name))
	if err == nil && stored["sink"] != "postgres" {
		err = newProblem("records-elsewhere", "read them with crawler export on the machines of the workers, or create the crawl with records in Postgres")
	}
	return err
}

func (e *elsewhere) sharedHosts(name string) []SharedHost {
	e.sharing.Lock()
	defer e.sharing.Unlock()
	return e.shared[name]
}

// compareHosts finds hosts from which several crawls fetch: each crawl keeps the delay of a host only by itself.
func (e *elsewhere) compareHosts(ctx context.Context) {
	users := make(map[string][]string) // crawls by host
	for _, m := range e.list() {
		_, h, err := e.open(ctx, m.name)
		if err != nil {
			continue // it is asked again
		}
		hosts, err := h.Hosts(ctx, crawl.HostQuery{Sort: "queued", Most: comparedHosts})
		if err != nil {
			continue
		}
		for i := range hosts.Hosts {
			if host := &hosts.Hosts[i]; host.Queued+host.Leased > 0 {
				users[host.Host] = append(users[host.Host], m.name)
			}
		}
	}
	shared := make(map[string][]SharedHost)
	for _, host := range slices.Sorted(maps.Keys(users)) {
		for i, name := range users[host] {
			if others := slices.Delete(slices.Clone(users[host]), i, i+1); len(others) > 0 && len(shared[name]) < shownHosts {
				shared[name] = append(shared[name], SharedHost{host, others})
			}
		}
	}
	e.sharing.Lock()
	defer e.sharing.Unlock()
	for name, hosts := range shared {
		if len(e.shared[name]) == 0 {
			e.cfg.Logger.Warn("crawls share hosts, and each keeps the delay of a host only by itself",
				slog.String("crawl", name), slog.String("host", hosts[0].Host), slog.Any("others", hosts[0].Crawls))
		}
	}
	e.shared = shared
}
