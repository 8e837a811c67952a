package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// Replayed is the header field, with the value true, of an answer that was stored before.
const Replayed = "Idempotent-Replayed"

var (
	errBody           = errors.New("idempotency: read the body")
	errAnswerTooLarge = errors.New("idempotency: the answer is larger than MaxAnswerBytes")
)

// Config configures a Middleware. Store and Caller are required.
type Config struct {
	Store Store
	// Caller returns the name of the caller of a request, such as the name of its token. The keys
	// of different callers are independent of each other. The request is authenticated already.
	Caller func(*http.Request) string
	// TTL is how long an answer is kept; 0 means 24 h. A repeat after it has an effect again,
	// unless the server issued its key.
	TTL time.Duration
	// IssuedTTL is how long an issued key waits for its request; 0 means 1 h.
	IssuedTTL time.Duration
	// MaxBytes is the largest body of a request; 0 means 1 MiB. A larger one is answered with 413.
	// Bodies are held in memory. http.Server.ReadTimeout bounds the time in which they are read.
	MaxBytes int64
	// MaxAnswerBytes is the largest body of an answer; 0 means 1 MiB. If the handler writes more,
	// its writes are undone and the request is answered with 500. So no effect has an answer that
	// could not be repeated.
	MaxAnswerBytes int
	// Timeout bounds the handler, whose context ends after it; 0 means 30 s.
	Timeout time.Duration
	// ProblemPage is the URL with which the types of problems begin; empty means the guide of
	// this package.
	ProblemPage string
	// Logger gets the errors of the Store. They contain no key and no payload. nil discards them.
	Logger *slog.Logger
}

// Middleware makes the handlers that it wraps idempotent. It is safe for concurrent use.
type Middleware struct{ cfg Config }

// New returns a Middleware. The error names every fault of cfg.
func New(cfg Config) (*Middleware, error) {
	var errs []error
	if cfg.Store == nil {
		errs = append(errs, errors.New("idempotency: Config.Store is nil"))
	}
	if cfg.Caller == nil {
		errs = append(errs, errors.New("idempotency: Config.Caller is nil"))
	}
	if cfg.TTL < 0 || cfg.IssuedTTL < 0 || cfg.Timeout < 0 || cfg.MaxBytes < 0 || cfg.MaxAnswerBytes < 0 {
		errs = append(errs, errors.New("idempotency: a duration or a size of Config is negative"))
	}
	cfg.TTL, cfg.IssuedTTL = cmp.Or(cfg.TTL, 24*time.Hour), cmp.Or(cfg.IssuedTTL, time.Hour)
	cfg.MaxBytes, cfg.MaxAnswerBytes = cmp.Or(cfg.MaxBytes, 1<<20), cmp.Or(cfg.MaxAnswerBytes, 1<<20)
	cfg.Timeout, cfg.ProblemPage = cmp.Or(cfg.Timeout, 30*time.Second), cmp.Or(cfg.ProblemPage, problemPage)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Middleware{cfg}, errors.Join(errs...)
}

// Wrap returns a handler that runs next once for each key.
//
// POST and PATCH need a key. With PUT and DELETE it is optional: without a key, next runs for
// each request, also in a transaction of the Store. Requests with other methods go to next
// unchanged, without a transaction.
//
// Handlers around the Middleware must not read the body, which is compared. If next panics, its
// writes are undone, and the panic goes on. The answer of next is sent when the writes
// are durable, so next cannot flush it or hijack the connection.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		required := r.Method == http.MethodPost || r.Method == http.MethodPatch
		if !required && r.Method != http.MethodPut && r.Method != http.MethodDelete {
			next.ServeHTTP(w, r)
			return
		}
		key, err := ParseKey(r.Header.Values(Header))
		keyed := err == nil
		if err != nil && (required || !errors.Is(err, ErrNoKey)) {
			m.refuse(w, r, err)
			return
		}
		if !keyed {
			key = rand.Text() // no other request has it, and its answer is not stored
		}
		if err := m.serve(w, r, next, key, keyed); err != nil {
			m.refuse(w, r, err)
		}
	})
}

// serve answers a request. If it returns an error, it has not written anything.
func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler, key string, keyed bool) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, m.cfg.MaxBytes))
	if err != nil {
		return fmt.Errorf("%w: %w", errBody, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), m.cfg.Timeout)
	defer cancel()
	request := requestOf(m.cfg.Caller(r), r.Method, r.URL.EscapedPath(), key, r.URL.RawQuery, body)
	request.TTL = m.cfg.TTL
	own := &recorder{header: w.Header().Clone(), limit: m.cfg.MaxAnswerBytes}
	replay, err := m.cfg.Store.Do(ctx, request, func(ctx context.Context) Result {
		d := new(decision)
		inner := r.WithContext(context.WithValue(ctx, decisionKey{}, d))
		inner.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(own, inner)
		if own.tooLarge {
			return Result{}
		}
		result := d.result(own.answer())
		if !keyed {
			result.Answer = nil
		}
		return result
	})
	switch {
	case err != nil:
		return err
	case replay != nil:
		w.Header().Set(Replayed, "true")
		send(w, replay.Header, replay.Status, replay.Body)
	case own.tooLarge:
		return errAnswerTooLarge
	default:
		clear(w.Header()) // the handler started with a copy of it
		send(w, own.header, own.status, own.body)
	}
	return nil
}

// refuse answers with the problem of err, and logs the errors that are not faults of the client.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, detail := problemOf(err), ""
	switch {
	case p.status >= 500:
		m.cfg.Logger.ErrorContext(r.Context(), "idempotency: request failed", "method", r.Method, "problem", p.code, "error", err)
	case p == keyInvalid:
		detail = err.Error()
	}
	p.write(w, m.cfg.ProblemPage, detail)
}

// Issue returns a new key for a caller and reserves a slot for it. The key can be used until
// expires for one request of that caller, with any method and path. From then on, and when the
// answer of its request has expired, a request with the key is refused and has no effect. Without
// Issue, a repeat after the TTL has an effect again. No other key can begin with "issued-".
func (m *Middleware) Issue(ctx context.Context, caller string) (key string, expires time.Time, err error) {
	key = issuedPrefix + rand.Text()
	expires, err = m.cfg.Store.Reserve(ctx, slotID(caller, key), m.cfg.IssuedTTL)
	return key, expires, err
}

// Claim binds an issued key to one kind of request, whose effect and answer the program stores itself, such as an upload that is too large
// for Wrap. The first call decides to which method and path; calls with the same ones return nil until the TTL has passed since then. Others
// get ErrOtherPayload, also for requests through Wrap. If the key was not issued to the caller, or has expired, the error is
// ErrUnknownKey. Of calls at the same time, all but one can get ErrUnderWay. Claim does nothing if the key is not an issued one.
func (m *Middleware) Claim(ctx context.Context, caller, method, path, key string) error {
	r := requestOf(caller, method, path, key, "", nil)
	if r.TTL = m.cfg.TTL; !r.Issued {
		return nil
	}
	_, err := m.cfg.Store.Do(ctx, r, func(context.Context) Result {
		return Result{Commit: true, Answer: &Answer{Status: http.StatusAccepted, Header: http.Header{}}}
	})
	return err
}

// Issuer returns the handler for POST /idempotency-keys. It answers 201 with a JSON object: key,
// and expires in RFC 3339. Each request reserves a slot, so the program must bound the rate of
// each caller.
func (m *Middleware) Issuer() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		key, expires, err := m.Issue(r.Context(), m.cfg.Caller(r))
		if err != nil {
			m.refuse(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]any{"key": key, "expires": expires.UTC()}) // the client is gone
	})
}
