package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/bloomfrontier/crawler/internal/exact"
)

// Config configures a Store. DSN and Crawl are required. Open also requires
// Identity.
type Config struct {
	DSN   string // URL or keywords and values, as in libpq
	Crawl string // name of the crawl

	// Identity is the id of the crawl's queue, fixed when the crawl is created. It prevents
	// mixing the fingerprints of two crawls.
	Identity string
	Windows  exact.Windows // how long finished keys count as seen; fixed when the crawl is created
	// Card is data from which the crawl's queue can be restored. It is stored when the
	// crawl is created; nil means that nothing is stored. If it contains secrets,
	// everybody with access to the database can read them.
	Card []byte

	// Capture means that the event of each record is written for change data capture, in
	// the transaction that inserts the record.
	Capture bool

	NoMigrate bool // do not migrate an older schema, but return ErrSchema

	MaxConns         int           // maximum number of connections of the process; 0 means defaultConns
	ConnectTimeout   time.Duration // the timeout of one attempt; 0 means 5 s
	StatementTimeout time.Duration // the timeout of one statement; 0 means 10 s
	LockTimeout      time.Duration // how long a statement waits for a lock; 0 means 5 s
	// HoldTime is how long a process that does not answer keeps the name of its relay; 0 means
	// 5 s. All processes must have the same value.
	HoldTime time.Duration

	Now func() time.Time // for tests; nil means the server's clock
}

// defaultConns is the default of Config.MaxConns.
const defaultConns = 8

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
		"HoldTime": c.HoldTime,
	} {
		if timeout != 0 && timeout < time.Millisecond {
			fault("%s is %v, want at least 1ms", name, timeout)
		}
	}
	c.MaxConns = cmp.Or(c.MaxConns, defaultConns)
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, 5*time.Second)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, 10*time.Second)
	c.LockTimeout = cmp.Or(c.LockTimeout, 5*time.Second)
	c.HoldTime = cmp.Or(c.HoldTime, 5*time.Second)
	return c, errors.Join(errs...)
}

// Store gives one process access to the exact keys and records of a crawl. It is safe
// for concurrent use.
type Store struct {
	cfg        Config
	pool       *pgxpool.Pool     // only the functions send and inTransaction use its connections
	settings   settings          // of every connection to the server, or of every transaction through a pooler
	crawl      int               // the number of the crawl, which is part of the names of its tables
	statements map[string]string // the statements for these tables, by file name
	floor      atomic.Uint32     // the round that a new key gets, as last read; another process might have raised it since

	identity string // the identity of the crawl's queue
	notifier background
	news     chan struct{} // a value means that the notifier has to send a notification
	listener background
	changed  chan struct{} // see Changed
	closed   atomic.Bool
}

var _ exact.Set = (*Store)(nil)

// Open joins the crawl cfg.Crawl, or creates it. Unless cfg.NoMigrate is set, it
// brings the schema up to date first.
//
// It returns
//   - frontier.ErrParamsMismatch if the crawl with this name has another Identity or other
//     Windows,
//   - ErrSchema if the schema is newer than this program, or older and cfg.NoMigrate is set,
//   - ErrForeign if the crawl's records come from another server,
//   - frontier.ErrUnavailable if the server does not answer.
func Open(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, true) }

// Inspect opens an existing crawl to inspect or control it. It does not migrate the
// schema, and returns ErrNoCrawl if there is no such crawl. It ignores Identity and
// Windows of cfg.
func Inspect(ctx context.Context, cfg Config) (*Store, error) { return open(ctx, cfg, false) }

func open(ctx context.Context, cfg Config, worker bool) (*Store, error) {
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
	if worker && s.cfg.Identity == "" {
		return errors.New("pgstore: Identity is empty, want that of the crawl's fingerprints")
	}
	if err := s.checkSchema(ctx, worker && !s.cfg.NoMigrate); err != nil {
		return err
	}
	if err := s.join(ctx, worker); err != nil {
		return err
	}
	if worker {
		return s.checkOrder(ctx, Cursor{})
	}
	return nil
}

// Identity returns the id of the crawl's queue.
func (s *Store) Identity() string { return s.identity }

// connect checks cfg and returns a Store that has only a connection pool. It sends nothing to
// the server.
func connect(ctx context.Context, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	poolConfig, settings, err := cfg.parsed()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
	if err != nil {
		return nil, fmt.Errorf("pgstore: %w", err)
	}
	return &Store{
		cfg: cfg, pool: pool, settings: settings, statements: statementsOf(0), news: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}, nil
}

// sessionSettings returns the settings for every statement.
//
// A statement is planned once for each connection, often while its tables are empty.
// The plan must also be good when the tables are large and the lists in the parameters
// have hundreds of keys. So only one kind of plan is enabled: it goes through the list
// and looks up each key in an index.
func (c *Config) sessionSettings() settings {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return settings{
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

// Close waits for calls under way, and closes the connections.
func (s *Store) Close() {
	s.closed.Store(true)
	s.notifier.close()
	s.listener.close()
	s.pool.Close()
}

// now returns the time argument of statements. Except in tests it is nil, which means
// the server's clock.
func (s *Store) now() *time.Time {
	if s.cfg.Now == nil {
		return nil
	}
	now := s.cfg.Now()
	return &now
}
