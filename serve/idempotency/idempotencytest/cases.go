package idempotencytest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/crash"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

var cases = []Case{
	{Name: "Repeat", Check: repeat},
	{Name: "Race", Check: race},
	{Name: "UnderWay", Check: isUnderWay},
	{Name: "OtherPayload", Check: otherPayload},
	{Name: "OtherCaller", Check: otherCaller},
	{Name: "OtherMethodAndPath", Check: otherMethodAndPath},
	{Name: "Refusal", Check: refusal},
	{Name: "NotStored", Check: notStored},
	{Name: "CommitWrites", Check: commitWrites},
	{Name: "AnswerTooLarge", Check: answerTooLarge},
	{Name: "Panic", Check: panics},
	{Name: "ClientGone", Check: clientGone},
	{Name: "WithoutKey", Check: withoutKey},
	{Name: "Expiry", Check: expiry},
	{Name: "ExpiryDuringReplay", Check: expiryDuringReplay},
	{Name: "SweepLag", Check: sweepLag},
	{Name: "SweepBesideWriters", Check: sweepBesideWriters},
	{Name: "Issued", Check: issued},
	{Name: "RandomRequests", Check: randomRequests},
	{Name: "CrashAtEachStep", Check: crashAtEachStep},
}

func repeat(d *driver) {
	h := d.serve(d.order)
	for _, method := range []string{http.MethodPost, http.MethodPatch, http.MethodPut, http.MethodDelete} {
		a := post("/repeat/"+method, "k")
		a.method = method
		first := d.wantFirst(h, a, http.StatusCreated)
		for range 3 {
			d.wantReplay(h, a, first)
		}
		a.key = `"k"`
		d.wantReplay(h, a, first)
		d.wantEffects("/repeat/"+method, 1)
	}
}

// race lets requests with one key race, many times. One of them has the effect.
func race(d *driver) {
	h, rounds := d.serve(d.order), 200
	if testing.Short() {
		rounds = 40
	}
	for round := range rounds {
		const racers = 6
		target := fmt.Sprint("/race/", round)
		answers := make([]*httptest.ResponseRecorder, racers)
		d.Race(racers, func(i int) error {
			answers[i] = send(h, post(target, "k"))
			return nil
		})
		firsts := 0
		for _, w := range answers {
			switch {
			case w.Code == http.StatusCreated && !isReplay(w):
				firsts++
			case w.Code == http.StatusCreated:
			case w.Code == http.StatusConflict && w.Header().Get("Retry-After") != "":
			default:
				d.Failf("a racer got %d %s, want 201, or 409 with Retry-After", w.Code, w.Body)
			}
		}
		d.Require(firsts == 1, "%d racers got a first answer, want 1", firsts)
		d.wantEffects(target, 1)
		first := answers[slices.IndexFunc(answers, func(w *httptest.ResponseRecorder) bool { return w.Code == http.StatusCreated && !isReplay(w) })]
		for _, w := range answers {
			if isReplay(w) {
				d.requireReplay(w, first)
			}
		}
		// Replays do not keep each other out.
		d.Race(racers, func(i int) error {
			if w := send(h, post(target, "k")); !isReplay(w) {
				return fmt.Errorf("a repeat beside others got %d %s, want a replay", w.Code, w.Body)
			}
			return nil
		})
	}
}

// isUnderWay sends a second request while the handler of the first runs.
func isUnderWay(d *driver) {
	entered, proceed := make(chan struct{}), make(chan struct{})
	slow := d.serve(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-proceed
		d.order(w, r)
	})
	done := make(chan *httptest.ResponseRecorder, 1)
	var over sync.WaitGroup
	over.Go(func() { done <- send(slow, post("/slow", "k")) })
	defer over.Wait()
	<-entered
	h := d.serve(d.order)
	got := send(h, post("/slow", "k"))
	other := send(h, post("/slow", "k2"))
	close(proceed)
	first := <-done
	d.Require(got.Code == http.StatusConflict && got.Header().Get("Retry-After") != "",
		"a request beside the first got %d %s, want 409 with Retry-After", got.Code, got.Body)
	d.Require(got.Header().Get("Content-Type") == "application/problem+json", "the problem has the type %q", got.Header().Get("Content-Type"))
	d.Require(other.Code == http.StatusCreated, "a request with another key got %d, want 201", other.Code)
	d.Require(first.Code == http.StatusCreated, "the first request got %d, want 201", first.Code)
	d.wantReplay(h, post("/slow", "k"), first)
	d.wantEffects("/slow", 2)
}

func otherPayload(d *driver) {
	h := d.serve(d.order)
	first := d.wantFirst(h, post("/payload", "k"), http.StatusCreated)
	other := post("/payload", "k")
	other.body = "payload2"
	d.wantStatus(h, other, http.StatusUnprocessableEntity)
	query := post("/payload?dry=1", "k")
	d.wantStatus(h, query, http.StatusUnprocessableEntity)
	d.wantReplay(h, post("/payload", "k"), first)
	d.wantEffects("/payload", 1)
}

func otherCaller(d *driver) {
	h := d.serve(d.order)
	a, b := post("/caller", "k"), post("/caller", "k")
	b.caller = "b"
	first := d.wantFirst(h, a, http.StatusCreated)
	second := d.wantFirst(h, b, http.StatusCreated)
	d.wantReplay(h, a, first)
	d.wantReplay(h, b, second)
	d.wantEffects("/caller", 2)
}

func otherMethodAndPath(d *driver) {
	h := d.serve(d.order)
	put := post("/one", "k")
	put.method = http.MethodPut
	for _, a := range []asked{post("/one", "k"), put, post("/two", "k"), post("/t/wo", "k"), post("/t%2Fwo", "k"), post("/one", "K"),
		post("/hash/k", "1"), post("/hash/", "k1")} {
		d.wantReplay(h, a, d.wantFirst(h, a, http.StatusCreated))
	}
	d.wantEffects("/one", 3)
	d.wantEffects("/two", 1)
	d.wantEffects("/t/wo", 2)
}

// refusal: the answer of a refusal that the state decided is stored without the writes.
func refusal(d *driver) {
	h := d.serve(d.answering(http.StatusConflict, idempotency.StoreRefusal))
	first := d.wantFirst(h, post("/refusal", "k"), http.StatusConflict)
	d.wantReplay(h, post("/refusal", "k"), first)
	d.wantReplay(d.serve(d.order), post("/refusal", "k"), first) // although the state would now allow it
	d.wantEffects("/refusal", 0)
}

// notStored: a repeat runs the handler again, and the writes of the first are undone.
func notStored(d *driver) {
	for _, status := range []int{400, 401, 403, 404, 413, 422, 429, 500, 503} {
		target := fmt.Sprint("/status/", status)
		d.wantFirst(d.serve(d.answering(status)), post(target, "k"), status)
		d.wantEffects(target, 0)
		d.wantFirst(d.serve(d.order), post(target, "k"), http.StatusCreated)
		d.wantEffects(target, 1)
	}
	for _, status := range []int{401, 403, 413, 429} { // whatever the handler says
		target := fmt.Sprint("/never/", status)
		h := d.serve(d.answering(status, idempotency.StoreRefusal, idempotency.CommitWrites))
		d.wantFirst(h, post(target, "k"), status)
		d.wantFirst(h, post(target, "k"), status)
		d.wantEffects(target, 0)
	}
	h := d.serve(d.answering(500, idempotency.StoreRefusal))
	d.wantFirst(h, post("/500", "k"), 500)
	d.wantFirst(h, post("/500", "k"), 500)
}

func commitWrites(d *driver) {
	for _, status := range []int{409, 500} {
		h := d.serve(d.answering(status, idempotency.CommitWrites))
		target := fmt.Sprint("/commit/", status)
		first := d.wantFirst(h, post(target, "k"), status)
		d.wantReplay(h, post(target, "k"), first)
		d.wantEffects(target, 1)
	}
	h := d.serve(d.answering(http.StatusSeeOther))
	d.wantReplay(h, post("/303", "k"), d.wantFirst(h, post("/303", "k"), http.StatusSeeOther))
	d.wantEffects("/303", 1)
}

func answerTooLarge(d *driver) {
	large := d.serve(func(w http.ResponseWriter, r *http.Request) {
		d.order(w, r)
		_, _ = w.Write(make([]byte, 1000))
	})
	d.wantFirst(large, post("/large", "k"), http.StatusInternalServerError)
	d.wantEffects("/large", 0)
	d.wantFirst(d.serve(d.order), post("/large", "k"), http.StatusCreated)
}

func panics(d *driver) {
	h := d.serve(func(w http.ResponseWriter, r *http.Request) {
		d.order(w, r)
		panic(http.ErrAbortHandler)
	})
	d.Require(send(h, post("/panic", "k")).Code == 0, "the panic of a handler was swallowed")
	d.wantEffects("/panic", 0)
	d.wantFirst(d.serve(d.order), post("/panic", "k"), http.StatusCreated)
	d.wantEffects("/panic", 1)
}

// clientGone: the context of a request ends when the handler has written.
func clientGone(d *driver) {
	ctx, cancel := context.WithCancel(context.Background())
	a := post("/gone", "k")
	a.ctx = ctx
	h := d.serve(func(w http.ResponseWriter, r *http.Request) {
		d.order(w, r)
		cancel()
	})
	// Only the effect is bound to the context, so that the work of the handler is not in vain.
	d.wantReplay(h, post("/gone", "k"), d.wantFirst(h, a, http.StatusCreated))
	d.wantEffects("/gone", 1)
}

// withoutKey: PUT and DELETE without a key run each time, in a transaction.
func withoutKey(d *driver) {
	h := d.serve(d.order)
	for _, method := range []string{http.MethodPut, http.MethodDelete} {
		a := post("/keyless/"+method, "")
		a.method = method
		d.wantFirst(h, a, http.StatusCreated)
		d.wantFirst(h, a, http.StatusCreated)
		d.wantFirst(d.serve(d.answering(500)), a, 500)
		d.wantEffects("/keyless/"+method, 2)
	}
	d.Clock.Advance(2 * ttl)
	stats, err := d.backend.Store().Stats(d.Ctx)
	d.Must(err, "Stats")
	d.Require(stats.SweepLag == 0, "a row was stored for a request without a key")
	d.wantStatus(h, post("/keyless", ""), http.StatusBadRequest)
	d.wantEffects("/keyless", 0)
	get := post("/get", "not a key")
	get.method = http.MethodGet
	d.wantFirst(d.serve(func(w http.ResponseWriter, r *http.Request) {}), get, http.StatusOK)
}

func expiry(d *driver) {
	h := d.serve(d.order)
	first := d.wantFirst(h, post("/expiry", "k"), http.StatusCreated)
	d.Clock.Advance(ttl - time.Microsecond)
	d.sweepAll()
	d.wantReplay(h, post("/expiry", "k"), first)
	d.Clock.Advance(time.Microsecond)
	second := d.wantFirst(h, post("/expiry", "k"), http.StatusCreated) // the expired row was not swept
	d.sweepAll()
	d.wantReplay(h, post("/expiry", "k"), second)
	d.Clock.Advance(ttl)
	d.sweepAll()
	d.wantFirst(h, post("/expiry", "k"), http.StatusCreated)
	d.wantEffects("/expiry", 3)
}

// hooked is a ResponseWriter that calls before at the first byte of an answer.
type hooked struct {
	*httptest.ResponseRecorder
	before func()
}

func (h hooked) WriteHeader(status int) {
	h.before()
	h.ResponseRecorder.WriteHeader(status)
}

// expiryDuringReplay: an answer expires and is swept while it is replayed.
func expiryDuringReplay(d *driver) {
	h := d.serve(d.order)
	first := d.wantFirst(h, post("/during", "k"), http.StatusCreated)
	d.Clock.Advance(ttl - time.Microsecond)
	got := httptest.NewRecorder()
	h.ServeHTTP(hooked{got, func() {
		d.Clock.Advance(time.Microsecond)
		d.sweepAll()
	}}, post("/during", "k").request())
	d.requireReplay(got, first)
	d.wantEffects("/during", 1)

	// While readers replay many answers, the answers expire and are swept. Each reader gets the
	// whole first answer, or a new one.
	for round := range 20 {
		target := fmt.Sprint("/during/", round)
		first := d.wantFirst(h, post(target, "k"), http.StatusCreated)
		d.Clock.Advance(ttl - time.Microsecond)
		answers := make([]*httptest.ResponseRecorder, 4)
		d.Race(5, func(i int) error {
			if i == 4 {
				d.Clock.Advance(time.Microsecond)
				_, err := d.backend.Store().Sweep(d.Ctx, 100)
				return err
			}
			answers[i] = send(h, post(target, "k"))
			return nil
		})
		for _, w := range answers {
			d.Require(w.Code == http.StatusCreated || w.Code == http.StatusConflict, "a reader got %d %s", w.Code, w.Body)
			if isReplay(w) && w.Body.String() == first.Body.String() {
				d.requireReplay(w, first)
			}
		}
		n, err := d.backend.Count(target)
		d.Must(err, "Count")
		d.Require(n == 1 || n == 2, "%d effects in two lifetimes of a key, want 1 or 2", n)
	}
}

// sweepLag: Sweep deletes small batches, and Stats tells how late it is.
func sweepLag(d *driver) {
	h := d.serve(d.order)
	for i := range 7 {
		d.wantFirst(h, post("/lag", fmt.Sprint("k", i)), http.StatusCreated)
	}
	wantLag := func(want time.Duration) {
		stats, err := d.backend.Store().Stats(d.Ctx)
		d.Must(err, "Stats")
		d.Require(stats.SweepLag == want, "the sweep lags by %v, want %v", stats.SweepLag, want)
	}
	wantDeleted := func(want int) {
		deleted, err := d.backend.Store().Sweep(d.Ctx, 3)
		d.Must(err, "Sweep")
		d.Require(deleted == want, "Sweep(3) deleted %d rows, want %d", deleted, want)
	}
	wantLag(0)
	wantDeleted(0)
	d.Clock.Advance(ttl + time.Hour)
	for _, want := range []int{3, 3, 1} {
		wantLag(time.Hour)
		wantDeleted(want)
	}
	wantLag(0)
}

// sweepBesideWriters: writers use keys again after their expiry, while the rows are swept.
func sweepBesideWriters(d *driver) {
	h := d.serve(d.order)
	const writers, rounds = 4, 15
	for round := range rounds {
		d.Clock.Advance(ttl) // all rows expire
		d.Race(writers+2, func(i int) error {
			if i >= writers {
				_, err := d.backend.Store().Sweep(d.Ctx, 2)
				return err
			}
			a := post(fmt.Sprint("/writer/", i), "k")
			first := send(h, a)
			if first.Code != http.StatusCreated || isReplay(first) {
				return fmt.Errorf("round %d: the first request after the expiry got %d %s, replay %t", round, first.Code, first.Body, isReplay(first))
			}
			if w := send(h, a); !isReplay(w) || w.Body.String() != first.Body.String() {
				return fmt.Errorf("round %d: the repeat got %d %s, want a replay: the sweep deleted a row that had not expired", round, w.Code, w.Body)
			}
			return nil
		})
	}
	for i := range writers {
		d.wantEffects(fmt.Sprint("/writer/", i), rounds)
	}
	d.Clock.Advance(ttl)
	d.sweepAll()
	stats, err := d.backend.Store().Stats(d.Ctx)
	d.Must(err, "Stats")
	d.Require(stats.SweepLag == 0, "after the sweep, rows are left that expired %v ago", stats.SweepLag)
}

func issued(d *driver) {
	m := d.middleware()
	h := m.Wrap(http.HandlerFunc(d.order))
	issue := func() string {
		key, expires, err := m.Issue(d.Ctx, "a")
		d.Must(err, "Issue")
		d.Require(expires.Equal(d.Clock.Now().Add(time.Hour)), "an issued key expires at %v, want in 1 h", expires)
		return key
	}
	key := issue()
	other := post("/issued", key)
	other.caller = "b"
	d.wantStatus(h, other, http.StatusBadRequest)
	d.wantFirst(m.Wrap(d.answering(500)), post("/issued", key), 500) // leaves the slot
	first := d.wantFirst(h, post("/issued", key), http.StatusCreated)
	d.Clock.Advance(ttl - time.Microsecond) // the slot would have expired long ago
	d.sweepAll()
	d.wantReplay(h, post("/issued", key), first)
	d.wantStatus(h, post("/elsewhere", key), http.StatusUnprocessableEntity)
	d.Clock.Advance(time.Microsecond)
	d.wantStatus(h, post("/issued", key), http.StatusBadRequest) // no second effect after the expiry
	d.sweepAll()
	d.wantStatus(h, post("/issued", key), http.StatusBadRequest)
	d.wantEffects("/issued", 1)

	unused := issue()
	d.Clock.Advance(time.Hour)
	d.wantStatus(h, post("/unused", unused), http.StatusBadRequest)
	d.wantStatus(h, post("/unused", unused+"x"), http.StatusBadRequest)
	d.wantEffects("/unused", 0)
}

// crashAtEachStep crashes at each crash point of the first request, and repeats the request until
// it is answered.
func crashAtEachStep(d *driver) {
	var steps []string
	crash.Hook(func(point string) { steps = append(steps, point) })
	d.wantFirst(d.serve(d.order), post("/steps", "k"), http.StatusCreated)
	crash.Hook(nil)
	d.Require(len(steps) >= 4, "the crash points are %q, want at least 4: two of the handler, and some of the store", steps)
	for _, step := range steps {
		target := "/crash/" + strings.ReplaceAll(step, " ", "-")
		crashed := false
		crash.Hook(func(point string) {
			if point == step && !crashed {
				crashed = true
				d.backend.Crash()
			}
		})
		first := send(d.serve(d.order), post(target, "k"))
		crash.Hook(nil)
		d.Require(crashed, "the request did not reach %q again", step)
		d.backend.Restart()
		n, err := d.backend.Count(target)
		d.Must(err, "Count")
		got := d.untilDone(post(target, "k"))
		d.Require(got.Code == http.StatusCreated, "after a crash at %q, the repeats got %d %s, want 201", step, got.Code, got.Body)
		d.Require(isReplay(got) == (n == 1), "after a crash at %q there were %d effects, and the repeat was a replay: %t", step, n, isReplay(got))
		d.wantEffects(target, 1)
		if first.Code == http.StatusCreated && step == "idempotency committed" {
			d.requireReplay(got, first)
		}
		d.wantReplay(d.serve(d.order), post(target, "k"), got)
	}
}
