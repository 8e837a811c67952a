package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/bloomfrontier/crawler/bloomstore"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/internal/groupcommit"
	"github.com/bloomfrontier/crawler/internal/redisbits"
)

const (
	NoDelay     = -1 // asks for a Config.Delay of zero
	NoSeenCache = -1 // asks for no Config.SeenCache
)

// MaxBatch is the most items of one host that a lease holds at first.
const MaxBatch = 32

// Config says where a crawl is and how a process takes part in it. Redis and
// Name are required.
type Config struct {
	Redis *redis.UniversalOptions // where: see ParseURL. Retries are the store's: MaxRetries is not heeded
	Name  string                  // of the crawl: 1 to 64 letters, digits, dots, underscores and dashes

	Settings   frontier.Settings // fixed when the crawl is created; compared ever after
	FilterKeys uint64            // fixed: URLs that the filter is made for; 0 means 10,000,000, or what the crawl has
	FPR        float64           // fixed: false-positive rate never passed (see NoGrowth), in [1e-12, 1); 0 means 1e-6, or what the crawl has
	NoGrowth   bool              // fixed: one layer gets the whole FPR, and beyond FilterKeys the rate rises
	Partitions int               // fixed: what the hosts are spread over, at most 16384; 0 means 256, or what the crawl has
	ExactSet   bool              // fixed: an exact set beside the store decides about exact items (package exact), and bulk items only are Undecided

	Delay time.Duration // of hosts whose HostUpdate has not said; 0 means 1 s, NoDelay none
	// LeaseTTL is how long a lease lasts; 0 means 60 s. That of the process that
	// creates the crawl holds for all: who notices that a server lost its last
	// moments must know how long others may still be at work.
	LeaseTTL   time.Duration
	MaxPerHost uint64 // items added to one host over the whole crawl; 0: no limit
	// MaxQueued is about how many items may wait in the whole crawl: outlinks
	// beyond it are refused. Workers know the sum of the others as of their last
	// heartbeat, so it can be passed by what all add within a second. 0: no limit.
	MaxQueued uint64

	// Hosts says what differs for one host key; nil: nothing.
	Hosts func(host string) HostLimits

	// OpenOutput opens the output of this worker's records. It is optional:
	// without it completions must carry no Record.
	OpenOutput frontier.OpenOutput

	Worker    string // names this process among the crawl's workers; "" makes one of host name and process id
	Wait      int    // replicas that must have what a completion relies on; 0: none
	SeenCache int    // fingerprints that this process remembers as known; 0 means 1,048,576, NoSeenCache none

	Now    func() time.Time // nil: the servers' clocks; tests
	Logger *slog.Logger     // nil discards

	edit func(script, text string) string // nil; tests: changes a script's text before it is loaded
}

// HostLimits are what a store does differently for one host key.
type HostLimits struct {
	Delay      time.Duration // instead of Config.Delay; 0: that
	MaxPerHost uint64        // instead of Config.MaxPerHost; 0: that
}

// limits returns the delay and the most items of a host.
func (c *Config) limits(host string) (delay time.Duration, most uint64) {
	var own HostLimits
	if c.Hosts != nil {
		own = c.Hosts(host)
	}
	return cmp.Or(own.Delay, c.Delay), cmp.Or(own.MaxPerHost, c.MaxPerHost)
}

// maxPartitions is the number of slots of a cluster: more would share them.
const maxPartitions = 16384

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (c Config) withDefaults() (Config, error) {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("redisstore: "+format, args...))
	}
	if c.Redis == nil {
		fault("Redis is nil, want options: see ParseURL")
	}
	if !validName.MatchString(c.Name) {
		fault("Name is %q, want 1 to 64 letters, digits, dots, underscores and dashes", c.Name)
	}
	if !(c.FPR == 0 || c.FPR >= 1e-12 && c.FPR < 1) {
		fault("FPR is %v, want it in [1e-12, 1)", c.FPR)
	}
	if c.Partitions < 0 || c.Partitions > maxPartitions {
		fault("Partitions is %d, want 1 to %d", c.Partitions, maxPartitions)
	}
	if c.Delay < NoDelay {
		fault("Delay is %v, want 0 or more", c.Delay)
	}
	if c.LeaseTTL != 0 && c.LeaseTTL < time.Second {
		fault("LeaseTTL is %v, want at least 1s", c.LeaseTTL)
	}
	if c.Wait < 0 {
		fault("Wait is %d, want 0 or more", c.Wait)
	}
	if c.SeenCache < NoSeenCache {
		fault("SeenCache is %d, want 0 or more", c.SeenCache)
	}
	switch c.Delay {
	case 0:
		c.Delay = time.Second
	case NoDelay:
		c.Delay = 0
	}
	switch c.SeenCache {
	case 0:
		c.SeenCache = 1 << 20
	case NoSeenCache:
		c.SeenCache = 0
	}
	c.LeaseTTL = cmp.Or(c.LeaseTTL, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
}

// fillFixed fills in what is fixed when a crawl is created.
func (c *Config) fillFixed() {
	c.FilterKeys = cmp.Or(c.FilterKeys, 10_000_000)
	c.FPR = cmp.Or(c.FPR, 1e-6)
	c.Partitions = cmp.Or(c.Partitions, 256)
}

// Store is one process's part in a crawl. It is safe for concurrent use.
type Store struct {
	cfg    Config
	client redis.UniversalClient // for what is safe to send twice: reads, and writes of fixed values
	card   card
	hasher bloomstore.Hasher
	layout *redisbits.Layout // of the filter of every partition
	parts  []*partition      // by number
	nodes  nodes
	worker bool // not only looking
	number int  // of this worker within the crawl; 0: no worker, or not one yet

	background
	heart
	close   func() error    // what Close does, once
	output  frontier.Output // nil: there is none
	records *groupcommit.Queue[*recordJob]

	scope  *scopeCache
	places *scopeCache // of groups
	quota  *groupcommit.Queue[*quotaCall]

	adder
	leaser
	noted noted
}

// Open joins the crawl cfg.Name as a worker, or creates it, and keeps the
// worker known to the others until Close.
//
// ErrParamsMismatch: cfg's fixed values differ from those the crawl was created
// with (Settings: a *frontier.SettingsError), or its format is another.
// ErrFilterLost: bits of its filter are gone; Rebuild makes it anew.
// ErrServer: the server is too old, evicts keys or denies commands.
// ErrUnavailable: the server cannot be asked now.
func Open(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, true) }

func open(ctx context.Context, cfg Config, worker bool) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(cfg)
	if err := s.begin(ctx, worker); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStore(cfg Config) *Store {
	s := &Store{cfg: cfg, scope: newScopeCache(), places: newScopeCache()}
	s.life, s.end = context.WithCancelCause(context.Background())
	s.close = sync.OnceValue(func() error {
		s.background.stop()
		return s.client.Close()
	})
	s.added = fieldAdded + "0"
	s.seen = newSeenCache(cfg.SeenCache)
	s.quota, s.records = s.newQuotaQueue(), s.newRecordQueue()
	return s
}

// begin connects, joins the crawl, and starts what runs beside callers.
func (s *Store) begin(ctx context.Context, worker bool) error {
	s.worker = worker
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.checkServers(ctx); err != nil {
		return err
	}
	if err := s.join(ctx, worker); err != nil {
		return err
	}
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	if err := s.openFilters(ctx); err != nil {
		return err
	}
	if s.cfg.MaxQueued > 0 {
		if err := s.sumQueued(ctx); err != nil {
			return err
		}
		s.spawn(s.watchQueue)
	}
	if !worker {
		return nil
	}
	if err := s.enrol(ctx); err != nil {
		return err
	}
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	return s.openOutput()
}

// openOutput opens the output of this worker.
func (s *Store) openOutput() (err error) {
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

// Inspect opens the crawl cfg.Name to look at it or to steer it, without
// becoming one of its workers: it fails when there is none. Fixed values that
// cfg leaves zero are the crawl's.
func Inspect(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, false) }

// Close ends what the store started. It gives back no lease: what a worker
// still holds it has to end itself, or it runs out.
func (s *Store) Close() error { return s.close() }

// errGone reports a partition of which its server knows nothing.
func (s *Store) errGone(p *partition) error {
	return fmt.Errorf("redisstore: partition %d of crawl %q is gone from its server: %w", p.number, s.cfg.Name, frontier.ErrFilterLost)
}

// Name returns the crawl's name.
func (s *Store) Name() string { return s.cfg.Name }

// ID returns the crawl's random id.
func (s *Store) ID() string { return s.card.ID }

// Hasher returns the hasher of the crawl's fingerprints.
func (s *Store) Hasher() bloomstore.Hasher { return s.hasher }

// clock returns what scripts take as ARGV[1]: empty, so that they ask the
// server, but in tests that set the time.
func (s *Store) clock() string {
	if s.cfg.Now == nil {
		return ""
	}
	return strconv.FormatInt(s.cfg.Now().UnixMilli(), 10)
}

// background is what runs beside callers.
type background struct {
	life context.Context // ends with Close
	end  context.CancelCauseFunc

	mu      sync.Mutex
	ended   bool
	running sync.WaitGroup
}

// spawn starts a function that returns soon after ctx, which Close ends, is
// done. After Close it starts nothing and returns frontier.ErrClosed.
func (b *background) spawn(run func(ctx context.Context)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return frontier.ErrClosed
	}
	b.running.Go(func() { run(b.life) })
	return nil
}

// stop ends what was started and waits for it.
func (b *background) stop() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.end(frontier.ErrClosed)
	b.running.Wait()
}

// millis rounds a duration up to the milliseconds that scripts count in.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
