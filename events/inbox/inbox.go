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

// Result says what a call such as Once did with an event. The zero Result is returned with an
// error.
type Result int

const (
	Done      Result = iota + 1 // the handler's writes are committed; after Store and Bury, the event is stored
	Duplicate                   // the event was handled or stored before; the call did nothing
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

// Forever, as the Window of a Config, keeps marks for ever.
const Forever time.Duration = math.MaxInt64

// MaxIDBytes is the largest length of an event's id, and of its type.
const MaxIDBytes = 1024

var (
	// ErrInvalid reports an event whose id or type is empty, longer than MaxIDBytes,
	// not UTF-8, or contains a zero byte. No further delivery of it will succeed.
	ErrInvalid = errors.New("inbox: invalid event")
	// ErrSchema reports a database whose tables are missing or have another version.
	ErrSchema = errors.New("inbox: tables are missing or have another version")
	// ErrPermanent is for handlers of Work. If the error of a handler wraps ErrPermanent,
	// the event becomes a dead letter at once, and Work makes no further attempt.
	ErrPermanent = errors.New("inbox: no further attempt will succeed")
	// ErrTransaction is returned to a handler that calls Commit or Rollback of its
	// transaction. Only the inbox ends the transaction.
	ErrTransaction = errors.New("inbox: a handler does not end its transaction")
)

// PanicError is the error of a handler that panicked.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // the stack of the handler, as debug.Stack returns it
}

// Error implements error. It does not contain the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("inbox: handler panicked: %v", e.Value) }

// DB has the methods of pgx that an Inbox calls. A *pgxpool.Pool has them. A *pgx.Conn has
// them too, and can be used by programs that handle one event at a time and do not call
// Work.
type DB interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Cache remembers for some time which events were handled, so that a repeat is answered
// without Postgres. An event is added only after the commit. A Cache is allowed to lose
// keys at any time. Its errors only make the inbox slower. A Cache must be safe for
// concurrent use, and must return quickly if its server is unavailable.
type Cache interface {
	// Contains reports whether key was added and has not expired.
	Contains(ctx context.Context, key string) (bool, error)
	// Add stores key for ttl, which is positive.
	Add(ctx context.Context, key string, ttl time.Duration) error
}

// Metrics receives measurements of an Inbox. Its methods are called by the goroutines that
// handle events. They must return quickly and be safe for concurrent use.
type Metrics interface {
	// Handled is called after each call of Once, Store and Bury with a valid event, and
	// after each attempt of Work.
	Handled(outcome Outcome, took time.Duration)
	// Swept is called after each batch of Sweep that deleted marks. The argument lag is the
	// time between the expiry of the oldest deleted mark and its deletion.
	Swept(deleted int, lag time.Duration)
	// CacheFailed is called when the cache returns an error.
	CacheFailed(err error)
}

// Outcome is the outcome of a call or an attempt, for Metrics.
type Outcome string

// The outcomes.
const (
	OutcomeDone      Outcome = "done"      // a handler succeeded
	OutcomeDuplicate Outcome = "duplicate" // the event was in Postgres
	OutcomeCached    Outcome = "cached"    // the event was in the cache
	OutcomeStored    Outcome = "stored"    // Store stored the event
	OutcomeFailed    Outcome = "failed"    // the handler or Postgres failed
	OutcomeDead      Outcome = "dead"      // the event became a dead letter
)

// Config configures an Inbox. DB and Group are required.
type Config struct {
	DB DB
	// Group is the name of the consumers that share the events: 1 to 64 letters, digits,
	// dots, underscores and dashes. Each group handles every event.
	Group string
	// Window is how long the mark of an event is kept, from the start of its handler's
	// transaction; 0 means 30 days, and Forever is allowed. A repeat after the window is
	// handled again, so Window must be longer than the time within which the broker can
	// deliver repeats. A new value applies to events that are handled from then on.
	Window time.Duration
	// WindowOf is the window of an event, instead of Window; 0 or less means Window, and Forever is allowed. So
	// payments can have a longer window than notifications. Store, Bury, OnceEvent and the adapters for brokers pass the
	// whole event. Once, Mark and MarkSQL know only its ID. WindowOf is called by the goroutines that handle events, and
	// must return the same window for each delivery of an event. nil means Window for all events.
	WindowOf func(Event) time.Duration
	// Prefix is the beginning of the names of the tables. It consists of a schema, a dot
	// and, optionally, the first part of the names, in lower case. Empty means "inbox.".
	Prefix string
	// Cache is optional.
	Cache Cache
	// CacheTTL is the longest time for which Cache keeps an event; 0 means 1 hour. A key
	// never outlives the window.
	CacheTTL time.Duration
	// Metrics is optional.
	Metrics Metrics
}

// Inbox remembers which events a group has handled. It is safe for concurrent use
// if its DB is.
type Inbox struct {
	cfg      Config
	identity string           // id of the tables; part of the cache's keys, so that two databases can share a cache
	wake     chan struct{}    // has an element after Store, so that a worker does not wait for its next poll
	now      func() time.Time // only tests set it; nil means the clock of the database
}

// Open returns the inbox of cfg.Group. The error is ErrSchema if Migrate was not called, or
// was called by a program with another version of the tables. It is ErrPooler if cfg.DB would
// lose its prepared statements.
func Open(ctx context.Context, cfg Config) (*Inbox, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	i := &Inbox{cfg: cfg, wake: make(chan struct{}, 1)}
	var version int64
	if err := checkPooler(ctx, cfg.DB); err != nil {
		return nil, err
	}
	err = explain(cfg.DB.QueryRow(ctx, i.statement(identitySQL)).Scan(&i.identity, &version))
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

// withDefaults returns c with its defaults. The error names every fault.
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

// clock returns the time argument of statements. Except in tests it is nil, which means the
// server's clock.
func (i *Inbox) clock() *time.Time {
	if i.now == nil {
		return nil
	}
	now := i.now()
	return &now
}

// windowOf returns the window of an event.
func (i *Inbox) windowOf(e Event) time.Duration {
	if i.cfg.WindowOf != nil {
		if own := i.cfg.WindowOf(e); own > 0 {
			return own
		}
	}
	return i.cfg.Window
}

// window returns the window of an event in microseconds, rounded up, or nil for Forever.
func (i *Inbox) window(e Event) *int64 {
	window := i.windowOf(e)
	if window == Forever {
		return nil
	}
	us := window.Microseconds()
	if window%time.Microsecond > 0 {
		us++
	}
	return &us
}

// count reports an outcome to Metrics, unless Metrics is nil.
func (i *Inbox) count(outcome Outcome, started time.Time) {
	if i.cfg.Metrics != nil {
		i.cfg.Metrics.Handled(outcome, time.Since(started))
	}
}
