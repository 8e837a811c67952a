package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/policy"
	"github.com/bloomfrontier/crawler/internal/exact"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
	"github.com/bloomfrontier/crawler/internal/name"
	"github.com/bloomfrontier/crawler/internal/recent"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

// DefaultSeenCache is a Config.SeenCache for a worker.
const DefaultSeenCache = 1 << 20

// maxBatch is the maximum number of items in a new lease.
const maxBatch = 32

// Config configures a Store. Redis and Name are required.
type Config struct {
	Redis *redis.UniversalOptions // see ParseURL; MaxRetries is ignored: no command is repeated after its reply was lost
	Name  string                  // name of the crawl: 1 to 64 letters, digits, dots, underscores and dashes

	Settings   frontier.Settings // fixed when the crawl is created, and compared later
	Capacity   uint64            // fixed: URLs that the filter is sized for; 0 means the stored number, or 10,000,000 for a new crawl
	FPR        float64           // fixed: false-positive rate that is never exceeded (see Growth), in [1e-12, 1); 0 means the stored rate, or 1e-6 for a new crawl
	Growth     bloomstore.Growth // fixed: what the filter does with more than Capacity keys
	Partitions int               // fixed: number of partitions, at most 16384; 0 means the stored number, or 256 for a new crawl
	// Contents remembers which item was the first with a content. nil means that the store ignores Completion.Showed.
	Contents frontier.Contents
	// Exact is the exact set, which then decides whether exact items are new. nil means that Redis decides. It is fixed whether
	// there is one. Its fields are used after OpenOutput has returned. A worker needs its End, and an OpenOutput.
	Exact *exact.Client

	// Policy returns the present policy. The store calls it when it adds and leases items, and
	// takes the delays, MaxPerHost and MaxQueued from it. A host whose delay has become longer since
	// its HostUpdate is leased as much later. A host is counted for MaxPerHost only while there is
	// such a limit. MaxQueued holds for the whole crawl: while it is reached, links are refused. Each
	// worker reads the sum of all partitions once a second, so the limit can be exceeded by the items
	// that all workers add within a second. DomainRate holds only in a crawl that was created with one
	// (policy.Policy.LimitsSites), because that decides whether the hosts of a site are in one partition. nil means no
	// delay and no limit.
	Policy func() *policy.Policy

	// LeaseTTL is how long a lease lasts; 0 means 60 s. All processes use the value of the
	// process that created the crawl: after a server has lost its last writes, a worker must
	// know how long other workers can still have leases.
	LeaseTTL time.Duration

	// OpenOutput opens the output of this worker's records. It is optional. If it is nil,
	// completions must not have a Record.
	OpenOutput frontier.OpenOutput

	// TempDir is the directory of the temporary file in which a worker remembers the last 4 million
	// items that it added, 32 bytes each; empty means the default directory of the system.
	TempDir string

	Worker    string           // name of this process among the crawl's workers; empty means host name and process id
	Wait      int              // number of replicas that must confirm added items; 0 means none
	SeenCache int              // number of seen fingerprints that this process caches, 16 bytes each; 0 means none, see DefaultSeenCache
	Now       func() time.Time // for tests; nil means the servers' clocks
	Logger    *slog.Logger     // nil discards

	edit func(script, text string) string // for tests: changes a script's text before it is loaded
}

// delayMillis returns the delay of a host key under the present policy, in milliseconds.
func (c *Config) delayMillis(host string) int64 {
	own := c.Policy().Host(host)
	return millis(own.Politeness.Delay)
}

// maxPartitions is the number of slots of a cluster.
const maxPartitions = 16384

func (c Config) withDefaults() (Config, error) {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("redisstore: "+format, args...))
	}
	if c.Redis == nil {
		fault("Redis is nil, want options: see ParseURL")
	}
	if !name.Valid(c.Name) {
		fault("Name is %q, want %s", c.Name, name.Form)
	}
	if !(c.FPR == 0 || c.FPR >= 1e-12 && c.FPR < 1) {
		fault("FPR is %v, want it in [1e-12, 1)", c.FPR)
	}
	if c.Partitions < 0 || c.Partitions > maxPartitions {
		fault("Partitions is %d, want 1 to %d", c.Partitions, maxPartitions)
	}
	if c.LeaseTTL != 0 && c.LeaseTTL < time.Second {
		fault("LeaseTTL is %v, want at least 1s", c.LeaseTTL)
	}
	if c.Wait < 0 {
		fault("Wait is %d, want 0 or more", c.Wait)
	}
	if c.SeenCache < 0 {
		fault("SeenCache is %d, want 0 or more", c.SeenCache)
	}
	if c.Policy == nil {
		c.Policy = policy.NewLive(new(policy.Policy)).Load
	}
	c.LeaseTTL = cmp.Or(c.LeaseTTL, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// fillFixed sets the defaults of values that are fixed when a crawl is created.
func (c *Config) fillFixed() {
	c.Capacity = cmp.Or(c.Capacity, 10_000_000)
	c.FPR = cmp.Or(c.FPR, 1e-6)
	c.Partitions = cmp.Or(c.Partitions, 256)
}

// Store gives one process access to a crawl. It is safe for concurrent use.
type Store struct {
	cfg    Config
	client redis.UniversalClient // for commands that can be repeated: reads, and writes of fixed values
	card   card
	hasher bloomstore.Hasher
	layout *redisbits.Layout // the filter of every partition has this layout
	parts  []*partition      // by number
	nodes  nodes
	worker bool // false for Inspect
	number int  // number of this worker; 0 if it has none yet, or if the Store is no worker

	background
	heartbeat
	close   func() error    // runs once, in Close
	output  frontier.Output // nil if there is none
	records *groupcommit.Queue[*recordJob]

	// scope caches keys of the scope, and members caches keys of quota groups. In Redis, the
	// scope and each group are a set. A server never removes a key from these sets, but it can
	// lose keys with its last writes.
	scope   atomic.Pointer[recent.Keys]
	members atomic.Pointer[recent.Keys]
	quota   *groupcommit.Queue[*quotaCall]

	countFew int // result of hostsCounted in a test; 0 means the usual one

	adder
	leaser
}

// Open joins the crawl cfg.Name as a worker, or creates it. The worker sends heartbeats until
// Close.
//
// It returns
//   - frontier.ErrParamsMismatch if the format, or fixed values of cfg, differ from the stored
//     ones (for Settings a *frontier.SettingsError),
//   - frontier.ErrFilterLost if bits of the filter are lost, which Rebuild restores,
//   - ErrServer if the server is too old, evicts keys or denies commands,
//   - frontier.ErrUnavailable if the server does not answer.
func Open(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, true) }

func open(ctx context.Context, cfg Config, worker bool) (*Store, error) {
	s, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.worker = worker
	steps := []func(context.Context) error{s.checkServers, s.join, s.checkOpen, s.openFilters, s.beginSums}
	if worker {
		steps = append(steps, s.enrol, s.checkOpen, s.openOutput)
	}
	if err := inOrder(ctx, steps...); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// connect returns a Store that is connected to the servers. It does not read the crawl yet.
func connect(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(cfg)
	if err := s.connect(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStore(cfg Config) *Store {
	s := &Store{cfg: cfg}
	s.forgetKeys()
	s.life, s.end = context.WithCancelCause(context.Background())
	s.stopRequested = make(chan struct{})
	s.close = sync.OnceValue(func() error {
		s.background.stop()
		return errors.Join(s.client.Close(), s.ledger.close())
	})
	s.added = fieldAdded + "0"
	s.seen = newSeenCache(cfg.SeenCache)
	s.quota, s.records = s.newQuotaQueue(), s.newRecordQueue()
	return s
}

// inOrder runs steps until one returns an error, and returns that error.
func inOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, run := range steps {
		if err := run(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) openOutput(context.Context) (err error) {
	if s.cfg.OpenOutput == nil {
		return nil
	}
	crawl := frontier.Identity{ID: s.ID()}
	if crawl.Card, err = s.Card(); err != nil {
		return err
	}
	s.output, err = s.cfg.OpenOutput(crawl, nil)
	return err
}

// Inspect opens the existing crawl cfg.Name to read or control it, without becoming one of its
// workers. Fixed values that are zero in cfg are taken from the crawl.
func Inspect(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, false) }

// Close ends the background work and closes the connections. It does not end the worker's leases,
// which expire.
func (s *Store) Close() error { return s.close() }

// errGone returns the error for a partition that its server has lost.
func (s *Store) errGone(p *partition) error {
	return fmt.Errorf("redisstore: partition %d of crawl %q is gone from its server: %w", p.number, s.cfg.Name, frontier.ErrFilterLost)
}

// ID returns the crawl's random id.
func (s *Store) ID() string { return s.card.ID }

// Hasher returns the hasher of the crawl's fingerprints.
func (s *Store) Hasher() bloomstore.Hasher { return s.hasher }

// clock returns ARGV[1] of the scripts. It is the result of Config.Now if a test sets that field.
// Otherwise it is empty, and the scripts use the server's clock.
func (s *Store) clock() string {
	if s.cfg.Now == nil {
		return ""
	}
	return strconv.FormatInt(s.cfg.Now().UnixMilli(), 10)
}

// background has the goroutines of a Store.
type background struct {
	life context.Context // ends with Close
	end  context.CancelCauseFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// spawn starts the function run in a goroutine. Close ends its ctx and waits until the function
// has returned. After Close, spawn starts nothing and returns frontier.ErrClosed.
func (b *background) spawn(run func(ctx context.Context)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return frontier.ErrClosed
	}
	b.running.Go(func() { run(b.life) })
	return nil
}

// stop ends all goroutines and waits for them.
func (b *background) stop() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.end(frontier.ErrClosed)
	b.running.Wait()
}

// millis returns a duration in milliseconds, the unit of scripts. It rounds up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
