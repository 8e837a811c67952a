package idempotencytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/bloomfrontier/crawler/internal/suite"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// stored is what the model knows about a key.
type stored struct {
	body    string
	first   *httptest.ResponseRecorder
	expires time.Time
}

// outcomes are what handlers of the random run do, and what follows from it.
var outcomes = []struct {
	status         int
	before         func(context.Context)
	commits, keeps bool
}{
	{http.StatusCreated, func(context.Context) {}, true, true},
	{http.StatusConflict, idempotency.StoreRefusal, false, true},
	{http.StatusNotFound, func(context.Context) {}, false, false},
	{http.StatusInternalServerError, func(context.Context) {}, false, false},
	{http.StatusBadGateway, idempotency.CommitWrites, true, true},
	{http.StatusForbidden, idempotency.CommitWrites, false, false},
}

// randomRequests sends random requests with few keys, moves the clock and sweeps, and compares
// each answer and the number of effects with a model.
func randomRequests(d *driver) {
	seed := rand.Uint64()
	d.Note("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	answers, effects := make(map[asked]stored), make(map[string]int)
	request := func() {
		a := post(fmt.Sprint("/random/", rng.IntN(2)), fmt.Sprint("k", rng.IntN(3)))
		a.caller = []string{"a", "b"}[rng.IntN(2)]
		known, outcome := answers[a], outcomes[rng.IntN(len(outcomes))]
		row := a // selects the row: it has the same payload in all requests
		a.body = []string{"payload", "payload", "other"}[rng.IntN(3)]
		d.Note("%s of %s with key %s and payload %s: %d", a.target, a.caller, a.key, a.body, outcome.status)
		h := d.serve(d.answering(outcome.status, outcome.before))
		switch alive := known.first != nil && known.expires.After(d.Clock.Now()); {
		case alive && known.body != a.body:
			d.wantStatus(h, a, http.StatusUnprocessableEntity)
		case alive:
			d.wantReplay(h, a, known.first)
		default:
			first := d.wantFirst(h, a, outcome.status)
			if outcome.commits {
				effects[a.target]++
			}
			if outcome.keeps {
				answers[row] = stored{a.body, first, d.Clock.Now().Add(ttl)}
			}
		}
		d.wantEffects(a.target, effects[a.target])
	}
	for range 400 {
		suite.Step(rng, []suite.Move{
			{Weight: 20, Make: request},
			{Weight: 2, Make: func() {
				ahead := time.Duration(rng.Int64N(int64(ttl)))
				d.Note("%v pass", ahead)
				d.Clock.Advance(ahead)
			}},
			{Weight: 1, Make: func() {
				d.Note("sweep")
				_, err := d.backend.Store().Sweep(d.Ctx, rng.IntN(5)+1)
				d.Must(err, "Sweep")
			}},
		})
	}
}
