package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/bloomfrontier/crawler/frontier"
)

var (
	// ErrNoCrawl reports that there is no crawl with this name, or that it was deleted.
	ErrNoCrawl = errors.New("pgstore: no such crawl")
	// ErrSchema reports that the version of the database's schema does not fit this
	// program.
	ErrSchema = errors.New("pgstore: schema has another version")
)

// trouble is a class of errors of the driver.
type trouble int

const (
	fatal     trouble = iota // permanent
	transient                // usually over in a moment, so the call is tried again at once
	away                     // lasts longer, so the call is not tried again at once
	gone                     // the crawl's tables no longer exist
)

// states maps SQLSTATEs to troubles. A key of two digits stands for a whole class.
var states = map[string]trouble{
	"08":    transient, // connection lost
	"40001": transient, // serialization failure
	"40P01": transient, // deadlock
	"55P03": transient, // lock timeout
	"57P01": transient, // the backend was terminated
	"57P02": transient, // another backend crashed
	"57P03": transient, // the server is starting or ending
	"57P05": transient, // the session was idle for too long
	"53300": transient, // too many connections
	"25P03": transient, // the transaction was idle for too long
	"25006": away,      // a standby
	"53":    away,      // disk full, out of memory
	"57014": away,      // statement timeout
	"58":    away,      // the server's disk
	"42P01": gone,
	"23503": gone, // foreign key violation: the row of the crawl was deleted
}

// noInitFile is the beginning of an error message. A server that was restarted on a
// full disk refuses connections with this error. Its SQLSTATE is that of an internal error
// in Postgres 15, and that of a full disk in newer servers.
const noInitFile = "could not write init file"

// troubleOf classifies an error of the driver.
func troubleOf(err error) trouble {
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok {
		if t, ok := states[reply.Code]; ok {
			return t
		}
		if reply.Code == "XX000" && strings.HasPrefix(reply.Message, noInitFile) {
			return away
		}
		return states[reply.Code[:min(2, len(reply.Code))]] // fatal if the class is not listed
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded): // the timeout of the attempt; the caller checks its own context
		return away
	case refused, network, errors.Is(err, errPooler), pgconn.SafeToRetry(err), errors.Is(err, pgconn.ErrConnClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return transient
	}
	return fatal
}

const (
	tries    = 5               // maximum number of attempts
	patience = 3 * time.Second // no attempt begins after this time
)

// try calls attempt, which sends one request to the server, and repeats the call after
// transient errors. The error contains the argument call, which names the operation that
// failed. It wraps context.Cause(ctx), frontier.ErrClosed, frontier.ErrUnavailable, or a
// permanent error.
func (s *Store) try(ctx context.Context, call string, attempt func(context.Context) error) error {
	return s.tryWithin(ctx, s.cfg.ConnectTimeout+s.cfg.StatementTimeout, call, attempt)
}

// tryWithin does the same as try, with the given timeout for each attempt.
func (s *Store) tryWithin(ctx context.Context, timeout time.Duration, call string, attempt func(context.Context) error) error {
	began := time.Now()
	for n := 1; ; n++ {
		bounded, cancel := context.WithTimeout(ctx, timeout) // also ends a call that the server does not answer
		err := attempt(bounded)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("pgstore: %s: %w", call, context.Cause(ctx))
		}
		if s.closed.Load() {
			return fmt.Errorf("pgstore: %s: %w", call, frontier.ErrClosed)
		}
		if troubleOf(err) != transient || n == tries || time.Since(began) > patience {
			return explain(call, err)
		}
		// The pauses are about 10, 20, 40 and 80 ms. A part of each is random, so that
		// callers that failed together do not try again together.
		about := 10 * time.Millisecond << (n - 1)
		pause(ctx, about/2+rand.N(about))
	}
}

// quotes are the quotation marks that servers write around names, in several languages.
var quotes = [][2]string{{`"`, `"`}, {"'", "'"}, {"»", "«"}, {"«", "»"}, {"« ", " »"}, {"„", "“"}, {"“", "”"}}

// withoutUser returns the text of an error of the driver without the user of the connection.
func withoutUser(err error) string {
	text := err.Error()
	refused, is := errors.AsType[*pgconn.ConnectError](err)
	if !is || refused.Config == nil || refused.Config.User == "" {
		return text
	}
	user := refused.Config.User
	text = strings.ReplaceAll(text, "`user="+user+" ", "`")
	for _, q := range quotes {
		text = strings.ReplaceAll(text, q[0]+user+q[1], q[0]+"…"+q[1])
	}
	return text
}

// explain turns an error of the driver into an error for the caller.
func explain(call string, err error) error {
	// The driver's text can have several lines, one for each address that the driver
	// tried.
	text := errors.New(strings.Join(strings.Fields(withoutUser(err)), " "))
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok && reply.Code == "53300" {
		text = fmt.Errorf("%w; each process of a crawl needs up to %d connections: raise CONNECTION LIMIT of the role or of the database, or max_connections", text, defaultConns)
	}
	switch troubleOf(err) {
	case transient, away:
		return fmt.Errorf("pgstore: %s: %w: %w", call, frontier.ErrUnavailable, text)
	case gone:
		return fmt.Errorf("%w: %s: %w", ErrNoCrawl, call, text)
	}
	if _, refused := errors.AsType[*pgconn.ConnectError](err); refused {
		err = text // the driver's error contains the connection's settings, with the password
	}
	return fmt.Errorf("pgstore: %s: %w", call, err)
}
