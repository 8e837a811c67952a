package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/internal/exact"
)

// Config says where a crawl's exact keys are and how a process uses them. DSN
// and Crawl are required, Identity where a crawl is created.
type Config struct {
	DSN   string // URL or keywords and values, as in libpq
	Crawl string // name of the crawl

	Identity string        // fixed: what the crawl's queue calls itself, so that nobody mixes fingerprints of two crawls
	Windows  exact.Windows // fixed: how long finished keys count as seen
	// Card is what the crawl's queue can be made again from. It is kept as it is
	// when the crawl is created; nil: nothing is. It may have secrets: whoever
	// reads the database has them.
	Card []byte

	NoMigrate bool // do not bring the schema up to date: an older one is then refused

	MaxConns         int           // connections that the process has at most; 0 means 8
	ConnectTimeout   time.Duration // of one attempt; 0 means 5 s
	StatementTimeout time.Duration // of one statement; 0 means 10 s
	LockTimeout      time.Duration // how long a statement waits for a lock; 0 means 5 s

	Now func() time.Time // nil: the server's clock; tests
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("pgstore: "+format, args...))
	}
	if c.DSN == "" {
		fault("DSN is empty, want the URL of a database")
	}
	if c.Crawl == "" {
		fault("Crawl is empty, want a crawl's name")
	}
	if c.MaxConns < 0 || c.MaxConns > 1<<15 {
		fault("MaxConns is %d, want 0 to %d", c.MaxConns, 1<<15)
	}
	for class, window := range c.Windows {
		if window < 0 {
			fault("the window of class %d is %v, want 0 or more", class, window)
		}
	}
	for name, timeout := range map[string]time.Duration{
		"ConnectTimeout": c.ConnectTimeout, "StatementTimeout": c.StatementTimeout, "LockTimeout": c.LockTimeout,
	} {
		if timeout != 0 && timeout < time.Millisecond {
			fault("%s is %v, want at least 1ms", name, timeout)
		}
	}
	c.MaxConns = cmp.Or(c.MaxConns, 8)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 5*time.Second)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 10*time.Second)
	c.LockTimeout = cmp.Or(c.LockTimeout, 5*time.Second)
	return c, errors.Join(errs...)
}

// Store is one process's hold on the exact keys and records of a crawl. It is
// safe for concurrent use.
type Store struct {
	cfg   Config
	pool  *pgxpool.Pool
	crawl int // its number, which its tables bear
	sql   statements
	floor atomic.Uint32 // round of unknown keys, as far as this process knows

	closed atomic.Bool
}

var _ exact.Set = (*Store)(nil)

// Open joins the crawl cfg.Crawl, or creates it, and brings the schema up to
// date first unless cfg.NoMigrate.
//
// frontier.ErrParamsMismatch: the crawl of that name has another Identity or
// other Windows. ErrSchema: the schema is newer than this program, or too old.
// frontier.ErrUnavailable: the server cannot be asked now.
func Open(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, true) }

// Inspect opens a crawl to look at it or to steer it. It changes no schema and
// creates no crawl: ErrNoCrawl. Identity and Windows of cfg are not read.
func Inspect(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, false) }

func open(ctx context.Context, cfg Config, worker bool) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err == nil && worker && cfg.Identity == "" {
		err = errors.New("pgstore: Identity is empty, want that of the crawl's fingerprints")
	}
	if err != nil {
		return nil, err
	}
	s, err := connect(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.begin(ctx, worker); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// begin checks the schema and joins the crawl.
func (s *Store) begin(ctx context.Context, worker bool) error {
	if err := s.checkSchema(ctx, worker && !s.cfg.NoMigrate); err != nil {
		return err
	}
	if err := s.join(ctx, worker); err != nil {
		return err
	}
	s.sql = namedFor(s.crawl)
	return nil
}

// connect returns a Store that has a pool and nothing else. It asks nothing of
// the server.
func connect(ctx context.Context, cfg Config) (*Store, error) {
	poolConfig, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		// The parser's own words repeat the DSN, and hide a password in it only
		// as well as they can.
		return nil, errors.New("pgstore: DSN cannot be read, want postgres://user:password@host:port/database")
	}
	poolConfig.MaxConns = int32(cfg.MaxConns)
	poolConfig.PingTimeout = cfg.ConnectTimeout
	poolConfig.ConnConfig.ConnectTimeout = cfg.ConnectTimeout
	given := maps.Clone(poolConfig.ConnConfig.RuntimeParams)
	maps.Copy(poolConfig.ConnConfig.RuntimeParams, cfg.sessionSettings())
	maps.Copy(poolConfig.ConnConfig.RuntimeParams, given) // who says something in the DSN means it
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	return &Store{cfg: cfg, pool: pool}, nil
}

// sessionSettings are what every connection has set.
//
// A statement is planned once for each connection, often while its tables are
// empty, and must be good when they are large and the lists that it is given
// have hundreds of keys, of which the planner knows nothing. So it has one way
// left: go through the list, and ask an index for each.
func (c *Config) sessionSettings() map[string]string {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return map[string]string{
		"application_name":                    "crawler",
		"statement_timeout":                   ms(c.StatementTimeout),
		"lock_timeout":                        ms(c.LockTimeout),
		"idle_in_transaction_session_timeout": ms(c.StatementTimeout),
		"plan_cache_mode":                     "force_generic_plan",
		"enable_seqscan":                      "off",
		"enable_hashjoin":                     "off",
		"enable_mergejoin":                    "off",
		"jit":                                 "off",
	}
}

// Close ends the store's connections; it waits for calls that are under way.
func (s *Store) Close() {
	s.closed.Store(true)
	s.pool.Close()
}

// now returns what statements take as the time: nil, so that the server's clock
// counts, but in tests that set it.
func (s *Store) now() *time.Time {
	if s.cfg.Now == nil {
		return nil
	}
	now := s.cfg.Now()
	return &now
}
