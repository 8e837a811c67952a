// Package idempotencytest has the tests that every idempotency.Store must pass.
//
// A test opens a Backend: a store with a table of effects beside it, in which handlers write
// through the transaction of their request. The cases send requests to handlers behind a
// Middleware. The package knows no store.
package idempotencytest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// Backend is a store under test, with a table of effects.
type Backend interface {
	// Store returns the store. After Restart it is another one.
	Store() idempotency.Store
	// Write adds an effect in the transaction of ctx.
	Write(ctx context.Context, name string) error
	// Count returns the number of durable effects with this name.
	Count(name string) (int, error)
	// Crash simulates a crash at this moment: whatever is not durable is lost. Calls that are
	// under way have no further effect. It can be called by a handler.
	Crash()
	// Restart opens the store again after Crash. Stores that are shared need no restart.
	Restart()
}

// CallerOf is implemented by backends that need another Config.Caller than the suite's.
type CallerOf interface{ CallerOf(*http.Request) string }

// Open opens a new, empty backend, whose store tells the time with now.
type Open func(t testing.TB, now func() time.Time) Backend

// Case is one part of the contract.
type Case = suite.Case[struct{}, *driver]

// Run runs all cases, one after the other, because some set the crash hook of the process. The
// calling test is not parallel.
func Run(t *testing.T, open Open) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := try(t, c, open); err != nil {
				t.Error(err)
			}
		})
	}
}

// Find runs all cases and returns the names of those that found a fault, for stores that are
// broken on purpose.
func Find(t *testing.T, open Open) (found []string) {
	for _, c := range cases {
		if err := try(t, c, open); err != nil {
			t.Logf("%s: %v", c.Name, err)
			found = append(found, c.Name)
		}
	}
	return found
}

func try(t *testing.T, c Case, open Open) error {
	defer crash.Hook(nil)
	return suite.Try(t, c, func(t *testing.T, _ struct{}) *driver {
		d := &driver{Driver: suite.NewDriver(t.Context())}
		d.backend = open(t, d.Clock.Now)
		return d
	})
}

// Bench measures first requests and replays, each from one client after the other.
func Bench(b *testing.B, open Open) {
	d := &driver{Driver: suite.NewDriver(b.Context()), backend: open(b, time.Now)}
	h := d.serve(d.order)
	for _, kind := range []string{"first", "replay"} {
		b.Run(kind, func(b *testing.B) {
			for i := range b.N {
				key := "k"
				if kind == "first" {
					key = fmt.Sprint(b.N, "-", i)
				}
				if w := send(h, post("/bench", key)); w.Code != http.StatusCreated {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}

// driver makes the calls of a case.
type driver struct {
	suite.Driver
	backend Backend
	serial  atomic.Int64 // a number in each answer of order, so that a replay differs from a second answer
}

const ttl = 24 * time.Hour

func callerOf(r *http.Request) string { return r.Header.Get("X-Caller") }

// middleware returns a Middleware with the store of the backend.
func (d *driver) middleware() *idempotency.Middleware {
	cfg := idempotency.Config{Store: d.backend.Store(), Caller: callerOf, TTL: ttl, MaxAnswerBytes: 1000}
	if own, ok := d.backend.(CallerOf); ok {
		cfg.Caller = own.CallerOf
	}
	m, err := idempotency.New(cfg)
	d.Must(err, "New")
	return m
}

// serve returns the handler h behind a new Middleware.
func (d *driver) serve(h http.HandlerFunc) http.Handler { return d.middleware().Wrap(h) }

// order is a handler that writes one effect, whose name is the path, and answers 201.
func (d *driver) order(w http.ResponseWriter, r *http.Request) {
	crash.Point("handler entered")
	if err := d.backend.Write(r.Context(), r.URL.Path); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	crash.Point("handler wrote")
	n := d.serial.Add(1)
	w.Header().Set("Location", fmt.Sprintf("%s/%d", r.URL.Path, n))
	w.Header().Set("ETag", fmt.Sprintf(`"%d"`, n))
	w.Header().Set("Content-Type", "application/vnd.order+json")
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, `{"order":%d}`, n)
}

// answering returns a handler that writes an effect, calls before and answers with a status.
func (d *driver) answering(status int, before ...func(context.Context)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := d.backend.Write(r.Context(), r.URL.Path); err != nil {
			panic(err)
		}
		for _, f := range before {
			f(r.Context())
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, d.serial.Add(1))
	}
}

// asked is a request of a case.
type asked struct {
	method, target, key, body, caller string
	ctx                               context.Context
}

// post returns a request of the caller "a" with a key.
func post(target, key string) asked {
	return asked{http.MethodPost, target, key, "payload", "a", context.Background()}
}

func (a asked) request() *http.Request {
	r := httptest.NewRequestWithContext(a.ctx, a.method, a.target, strings.NewReader(a.body))
	r.Header.Set("X-Caller", a.caller)
	if a.key != "" {
		r.Header.Set(idempotency.Header, a.key)
	}
	return r
}

// send sends a request to a handler and returns the answer. A panic of the handler is an answer
// with the status 0.
func send(h http.Handler, a asked) (got *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	defer func() {
		if recover() != nil {
			got = &httptest.ResponseRecorder{}
		}
	}()
	h.ServeHTTP(w, a.request())
	return w
}

func isReplay(w *httptest.ResponseRecorder) bool {
	return w.Header().Get(idempotency.Replayed) == "true"
}

// wantStatus sends a request and ends the case unless the answer has this status.
func (d *driver) wantStatus(h http.Handler, a asked, want int) *httptest.ResponseRecorder {
	got := send(h, a)
	d.Require(got.Code == want, "%s %s with key %q: %d %s, want %d", a.method, a.target, a.key, got.Code, got.Body, want)
	return got
}

// wantFirst sends a request that must not be replayed.
func (d *driver) wantFirst(h http.Handler, a asked, status int) *httptest.ResponseRecorder {
	got := d.wantStatus(h, a, status)
	d.Require(!isReplay(got), "%s %s with key %q was replayed, want a first answer", a.method, a.target, a.key)
	return got
}

// wantReplay sends a request, whose answer must be a replay of first.
func (d *driver) wantReplay(h http.Handler, a asked, first *httptest.ResponseRecorder) {
	d.requireReplay(send(h, a), first)
}

func (d *driver) requireReplay(got, first *httptest.ResponseRecorder) {
	d.Require(isReplay(got), "answer %d %s is not a replay, want one", got.Code, got.Body)
	d.Require(got.Code == first.Code && got.Body.String() == first.Body.String(),
		"the replay is %d %s, want %d %s", got.Code, got.Body, first.Code, first.Body)
	for _, name := range []string{"Content-Type", "Location", "ETag"} {
		d.Require(got.Header().Get(name) == first.Header().Get(name),
			"the replay has %s %q, want %q", name, got.Header().Get(name), first.Header().Get(name))
	}
}

// wantEffects ends the case unless there is this number of effects.
func (d *driver) wantEffects(name string, want int) {
	got, err := d.backend.Count(name)
	d.Must(err, "Count")
	d.Require(got == want, "%q has %d effects, want %d", name, got, want)
}

// sweepAll deletes all expired rows.
func (d *driver) sweepAll() {
	for deleted := 1; deleted > 0; {
		var err error
		deleted, err = d.backend.Store().Sweep(d.Ctx, 3)
		d.Must(err, "Sweep")
		d.Require(deleted <= 3, "Sweep(3) deleted %d rows", deleted)
	}
}

// untilDone repeats a request while it is under way or the store fails, as a client does, for at
// most 5 s.
func (d *driver) untilDone(a asked) *httptest.ResponseRecorder {
	h := d.serve(d.order)
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		got := send(h, a)
		again := got.Code == 0 || got.Code == http.StatusConflict || got.Code >= 500
		if !again || time.Now().After(deadline) {
			return got
		}
	}
}
