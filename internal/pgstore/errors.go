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
	// ErrNoCrawl reports that there is no crawl of that name, or none any more.
	ErrNoCrawl = errors.New("pgstore: no such crawl")
	// ErrSchema reports that the database's schema is not the one that this
	// program works with.
	ErrSchema = errors.New("pgstore: schema has another version")
)

// A trouble is what an error of the driver means to a caller.
type trouble int

const (
	fatal  trouble = iota // it will not pass by itself
	passes                // gone in a moment, as a rule: asked again at once
	away                  // lasts: nobody is helped by asking again at once
	gone                  // the crawl's tables are not there any more
)

// states are the SQLSTATEs that pass or last; two digits are a whole class.
var states = map[string]trouble{
	"08":    passes, // connection lost
	"40001": passes, // serialization failure
	"40P01": passes, // deadlock
	"55P03": passes, // lock timeout
	"57P01": passes, // the backend was told to end
	"57P02": passes, // another backend crashed
	"57P03": passes, // the server is starting or ending
	"57P05": passes, // the session was idle for too long
	"53300": passes, // too many connections
	"25P03": passes, // the transaction was idle for too long
	"25006": away,   // a standby
	"53":    away,   // disk full, out of memory
	"57014": away,   // statement timeout
	"58":    away,   // the server's disk
	"42P01": gone,
}

// noInitFile is what a server that was restarted on a full disk answers a new
// connection. Postgres 15 calls it an internal error, by whose SQLSTATE it would
// last; newer servers say in more words, and by the SQLSTATE, that the disk is full.
const noInitFile = "could not write init file"

// troubleOf is the one place that says what an error of the driver means.
func troubleOf(err error) trouble {
	if reply, ok := errors.AsType[*pgconn.PgError](err); ok {
		if t, ok := states[reply.Code]; ok {
			return t
		}
		if reply.Code == "XX000" && strings.HasPrefix(reply.Message, noInitFile) {
			return away
		}
		return states[reply.Code[:min(2, len(reply.Code))]] // fatal for those that are not there
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded): // the attempt's own, not the caller's
		return away
	case refused, network, pgconn.SafeToRetry(err), errors.Is(err, pgconn.ErrConnClosed),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return passes
	}
	return fatal
}

const (
	tries    = 5               // attempts for what passes
	patience = 3 * time.Second // after which no attempt begins
)

// try calls do, which asks the server once, and again after what passes by
// itself. Its error names the call and is the caller's context's end, a
// frontier.ErrUnavailable, or one that lasts.
func (s *Store) try(ctx context.Context, call string, do func(context.Context) error) error {
	return s.tryWithin(ctx, s.cfg.ConnectTimeout+s.cfg.StatementTimeout, call, do)
}

// tryWithin is try with a bound for each attempt.
func (s *Store) tryWithin(ctx context.Context, bound time.Duration, call string, do func(context.Context) error) error {
	began := time.Now()
	for n := 1; ; n++ {
		err := attempt(ctx, bound, do)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("pgstore: %s: %w", call, context.Cause(ctx))
		}
		if s.closed.Load() {
			return fmt.Errorf("pgstore: %s: %w", call, frontier.ErrClosed)
		}
		if troubleOf(err) != passes || n == tries || time.Since(began) > patience {
			return explain(call, err)
		}
		// 10, 20, 40, 80 ms, each by half at random, so that those who were
		// sent away together do not come back together.
		pause := 10 * time.Millisecond << (n - 1)
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// attempt calls do with a bound that holds when the server says nothing at all.
func attempt(ctx context.Context, bound time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return do(ctx)
}

// explain says what an error is to the caller.
func explain(call string, err error) error {
	// The driver's words may span lines, one for each address that it tried.
	told := errors.New(strings.Join(strings.Fields(err.Error()), " "))
	switch troubleOf(err) {
	case passes, away:
		return fmt.Errorf("pgstore: %s: %w: %w", call, frontier.ErrUnavailable, told)
	case gone:
		return fmt.Errorf("%w: %s: %w", ErrNoCrawl, call, told)
	}
	if _, refused := errors.AsType[*pgconn.ConnectError](err); refused {
		err = told // the driver's own has the connection's settings in it, with the password
	}
	return fmt.Errorf("pgstore: %s: %w", call, err)
}
