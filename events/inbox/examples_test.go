package inbox_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// These tests check the claims of the examples.

// TestIndex delivers the events of all rounds of a page twice, in a random order. Then the
// index has the data of the last round.
func TestIndex(t *testing.T) {
	t.Parallel()
	pool := database(t)
	_, err := pool.Exec(t.Context(), "CREATE TABLE pages (url text PRIMARY KEY, round int NOT NULL, title text NOT NULL)")
	must(t, err)
	box := open(t, pool)
	seed := rand.Uint64()
	rounds := rand.New(rand.NewPCG(seed, 0)).Perm(10)
	for _, round := range append(rounds, rounds...) {
		e := inbox.Event{ID: fmt.Sprint("k-", round), Data: fmt.Appendf(nil, `{"data":{"url":"http://a/","round":%d,"title":"%d"}}`, round, round)}
		_, err := box.Once(t.Context(), e.ID, func(ctx context.Context, tx pgx.Tx) error { return indexPage(ctx, tx, e) })
		must(t, err)
	}
	var title string
	must(t, pool.QueryRow(t.Context(), "SELECT title FROM pages").Scan(&title))
	if title != "9" {
		t.Errorf("after the rounds %v, each twice, the index has the title of round %s, want 9 (seed %d)", rounds, title, seed)
	}
}

// TestStateMachine: a purchase ends in its last state, in whatever sequence its events come.
func TestStateMachine(t *testing.T) {
	t.Parallel()
	pool := database(t)
	_, err := pool.Exec(t.Context(), `CREATE TYPE state AS ENUM ('placed', 'paid', 'sent');
		CREATE TABLE orders (id bigint PRIMARY KEY, state state NOT NULL)`)
	must(t, err)
	for order, states := range [][]string{
		{"placed", "paid", "sent"}, {"placed", "sent", "paid"}, {"paid", "placed", "sent"},
		{"paid", "sent", "placed"}, {"sent", "placed", "paid"}, {"sent", "paid", "placed"},
	} {
		for _, state := range states {
			must(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error { return advance(t.Context(), tx, int64(order), state) }))
		}
	}
	var wrong int
	must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM orders WHERE state <> 'sent'").Scan(&wrong))
	if wrong > 0 {
		t.Errorf("%d of 6 orders are not in the state sent, want 0", wrong)
	}
}

// service does and undoes an action once per Idempotency-Key. It sometimes fails, before or
// after the action.
type service struct {
	refuses bool
	mu      sync.Mutex
	seen    map[string]bool // keys
	balance int             // actions that were done and not undone
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rand.IntN(3) == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if s.refuses {
		w.WriteHeader(http.StatusUnprocessableEntity)
		return
	}
	if key := r.Header.Get("Idempotency-Key"); !s.seen[key] {
		s.seen[key] = true
		s.balance += map[string]int{"/do": 1, "/undo": -1}[r.URL.Path]
	}
	if rand.IntN(3) == 0 {
		w.WriteHeader(http.StatusBadGateway)
	}
}

// TestSaga: either all steps are done or no step is done, although services fail before and
// after they act, and several runs of a saga happen at once.
func TestSaga(t *testing.T) {
	t.Parallel()
	for refuses := range 4 { // which service refuses; 3 means that none does
		t.Run(fmt.Sprint("refuses=", refuses), func(t *testing.T) {
			t.Parallel()
			pool := database(t)
			_, err := pool.Exec(t.Context(), "CREATE TABLE steps (saga text, step int, done boolean NOT NULL, PRIMARY KEY (saga, step))")
			must(t, err)
			trip := saga{box: open(t, pool), db: pool}
			var services []*service
			for step := range 3 {
				services = append(services, &service{refuses: step == refuses, seen: map[string]bool{}})
				server := httptest.NewServer(services[step])
				defer server.Close()
				trip.services = append(trip.services, server.URL)
			}
			var runs sync.WaitGroup
			for range 4 {
				runs.Go(func() {
					for {
						agreed, err := trip.run(t.Context(), "trip")
						if err == nil && agreed != (refuses == 3) {
							t.Errorf("run of the saga = %v, want %v", agreed, refuses == 3)
						}
						if err == nil || t.Context().Err() != nil {
							return
						}
					}
				})
			}
			runs.Wait()
			for step, service := range services {
				want := 0
				if refuses == 3 {
					want = 1
				}
				if service.balance != want {
					t.Errorf("service %d did its action %d times more than it undid it, want %d", step, service.balance, want)
				}
			}
		})
	}
}
