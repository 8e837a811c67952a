package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Result says what became of an event. The zero Result is none: it comes with an
// error.
type Result int

const (
	Done      Result = iota + 1 // the handler ran and its writes are committed; of Store and Bury: the event is kept
	Duplicate                   // the event was handled or stored before; nothing was done
)

// String returns "done" or "duplicate".
func (r Result) String() string {
	switch r {
	case Done:
		return "done"
	case Duplicate:
		return "duplicate"
	}
	return "none"
}

// Forever as the Window of a Config keeps marks without end.
const Forever time.Duration = math.MaxInt64

// MaxIDBytes is the length of an event's id, and of its type, at most.
const MaxIDBytes = 1024

var (
	// ErrInvalid reports an event whose id or type is empty, longer than MaxIDBytes,
	// not UTF-8, or contains a zero byte. No repeat of it will succeed.
	ErrInvalid = errors.New("inbox: invalid event")
	// ErrSchema reports a database whose tables are missing or have another version.
	ErrSchema = errors.New("inbox: tables are missing or have another version")
	// ErrPermanent in the chain of a handler's error makes Work try the event no
	// more: it becomes a dead letter at once.
	ErrPermanent = errors.New("inbox: no further attempt will succeed")
	// ErrTransaction reports a handler that called Commit or Rollback of the
	// transaction it was given, which the inbox ends.
	ErrTransaction = errors.New("inbox: a handler does not end its transaction")
)

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the handler, as debug.Stack returns it
}

// Error implements error. It does not contain the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("inbox: handler panicked: %v", e.Value) }

// DB is what an Inbox needs of pgx: a *pgxpool.Pool has it. A *pgx.Conn has it,
// too, for programs that handle one event at a time and do not call Work.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Cache remembers for some time which events were handled, so that a repeat is
// answered without Postgres. It is told of an event only after the commit. A Cache
// may forget at any time, and its errors change speed only. It is safe for
// concurrent use and returns quickly if its server is away.
type Cache interface {
	// Contains reports whether key was added and has not expired.
	Contains(ctx context.Context, key string) (bool, error)
	// Add stores key for ttl, which is positive.
	Add(ctx context.Context, key string, ttl time.Duration) error
}

// Metrics receives what an Inbox does. Its methods are called from the goroutines
// that handle events: they return quickly and are safe for concurrent use.
type Metrics interface {
	// Handled is called after each Once, Store and Bury, and after each attempt of Work.
	Handled(outcome Outcome, took time.Duration)
	// Swept is called after each batch of Sweep that deleted marks. Lag is the
	// time between the expiry of the oldest of them and its deletion.
	Swept(deleted int, lag time.Duration)
	// CacheFailed is called when the cache returns an error.
	CacheFailed(err error)
}

// Outcome is what Metrics counts.
type Outcome string

// The outcomes.
const (
	OutcomeDone      Outcome = "done"      // a handler succeeded
	OutcomeDuplicate Outcome = "duplicate" // Postgres knew the event
	OutcomeCached    Outcome = "cached"    // the cache knew it
	OutcomeStored    Outcome = "stored"
	OutcomeFailed    Outcome = "failed" // a handler failed, or Postgres did
	OutcomeDead      Outcome = "dead"   // the event became a dead letter
)

// Config says which events an Inbox remembers, and where. DB and Group must be set.
type Config struct {
	DB DB
	// Group names who handles the events: 1 to 64 letters, digits, dots, underscores
	// and dashes. Each group handles every event for itself.
	Group string
	// Window is how long an event is remembered, from the start of its handler's
	// transaction; 0 means 30 days, and Forever is possible. It must be longer than
	// the broker can take to deliver a repeat: behind it, a repeat is handled again.
	// A change applies to events that are handled from then on.
	Window time.Duration
	// Prefix begins the names of the tables: a schema, a dot, and perhaps the
	// beginning of a name, in lower case. Empty means "inbox.".
	Prefix string
	// Cache is optional.
	Cache Cache
	// CacheTTL is how long Cache remembers an event at most; 0 means 1 hour. The
	// end of the window is never exceeded.
	CacheTTL time.Duration
	// Metrics is optional.
	Metrics Metrics
}

// Inbox remembers which events a group has handled. It is safe for concurrent use
// if its DB is.
type Inbox struct {
	cfg      Config
	sql      statements
	identity string           // of the tables, so that a cache is not asked about those of another database
	wake     chan struct{}    // has an element after Store: a worker need not wait for its next poll
	now      func() time.Time // only tests set it; nil is the clock of the database
}

// Open returns the inbox of cfg.Group. It is ErrSchema if Migrate was not run.
func Open(ctx context.Context, cfg Config) (*Inbox, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	i := &Inbox{cfg: cfg, sql: statementsFor(cfg.Prefix), wake: make(chan struct{}, 1)}
	var version int64
	err = cfg.DB.QueryRow(ctx, i.sql.identity).Scan(&i.identity, &version)
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok && (reply.Code == "42P01" || reply.Code == "3F000") {
		return nil, fmt.Errorf("%w: %w: call inbox.Migrate", ErrSchema, err)
	}
	if err != nil {
		return nil, fmt.Errorf("inbox: open group %q: %w", cfg.Group, err)
	}
	if version != schemaVersion {
		return nil, fmt.Errorf("%w: %q has version %d, this program needs %d: call Migrate of the newer program",
			ErrSchema, cfg.Prefix, version, schemaVersion)
	}
	return i, nil
}

var (
	groupForm  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	prefixForm = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}\.([a-z_][a-z0-9_]{0,29})?$`)
)

// withDefaults returns cfg with its defaults, or all its faults.
func (c Config) withDefaults() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, "inbox.")
	var errs []error
	if c.DB == nil {
		errs = append(errs, errors.New("inbox: Config.DB is nil"))
	}
	if !groupForm.MatchString(c.Group) {
		errs = append(errs, fmt.Errorf("inbox: Config.Group is %q, want 1 to 64 letters, digits, dots, underscores and dashes", c.Group))
	}
	if c.Window < 0 {
		errs = append(errs, fmt.Errorf("inbox: Config.Window is %v, want 0 or more", c.Window))
	}
	if c.CacheTTL < 0 {
		errs = append(errs, fmt.Errorf("inbox: Config.CacheTTL is %v, want 0 or more", c.CacheTTL))
	}
	errs = append(errs, checkPrefix(c.Prefix))
	c.Window = cmp.Or(c.Window, 30*24*time.Hour)
	c.CacheTTL = cmp.Or(c.CacheTTL, time.Hour)
	return c, errors.Join(errs...)
}

func checkPrefix(prefix string) error {
	if !prefixForm.MatchString(prefix) {
		return fmt.Errorf(`inbox: the prefix is %q, want a schema and a dot, such as "inbox." or "public.inbox_"`, prefix)
	}
	return nil
}

func checkID(id string) error { return checkText("id", id) }

func checkText(what, text string) error {
	if text == "" || len(text) > MaxIDBytes || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return fmt.Errorf("%w: %s %.40q of %d bytes", ErrInvalid, what, text, len(text))
	}
	return nil
}

// clock returns the time for a statement: nil, the server's, except in tests.
func (i *Inbox) clock() *time.Time {
	if i.now == nil {
		return nil
	}
	now := i.now()
	return &now
}

// window returns the window in microseconds, nil for Forever.
func (i *Inbox) window() *int64 {
	if i.cfg.Window == Forever {
		return nil
	}
	us := i.cfg.Window.Microseconds()
	return &us
}

// count tells Metrics, if there are any.
func (i *Inbox) count(outcome Outcome, started time.Time) {
	if i.cfg.Metrics != nil {
		i.cfg.Metrics.Handled(outcome, time.Since(started))
	}
}

// outcomeOf is the outcome of a call that did, stored or buried an event.
func outcomeOf(result Result, done Outcome, err error) Outcome {
	switch {
	case err != nil:
		return OutcomeFailed
	case result == Duplicate:
		return OutcomeDuplicate
	}
	return done
}
