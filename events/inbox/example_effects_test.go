package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/bloomfrontier/crawler/events/inbox"
)

// A payment is not rolled back with the transaction. Its request has the event's id
// as Idempotency-Key, so that its receiver recognises a repeat.
func Example_idempotencyKey() {
	ctx := context.Background()
	box, pool := openInbox(ctx, "CREATE TABLE paid (event text)")
	defer pool.Close()
	charges := map[string]string{} // what the service has charged, by key
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		charges[r.Header.Get("Idempotency-Key")] = string(body)
	}))
	defer service.Close()

	const id = "urn:shop order-17"
	for _, lost := range []error{errors.New("the database is away"), nil} {
		_, err := box.Once(ctx, id, func(ctx context.Context, tx pgx.Tx) error {
			if err := post(ctx, service.URL, id, "1200 cents"); err != nil {
				return err
			}
			if lost != nil {
				return lost // the payment was made; the next delivery sends the same key
			}
			_, err := tx.Exec(ctx, "INSERT INTO paid (event) VALUES ($1)", id)
			return err
		})
		fmt.Println(err)
	}
	fmt.Println(charges)
	// Output:
	// inbox: event "urn:shop order-17" of group "example": the database is away
	// <nil>
	// map[urn:shop order-17:1200 cents]
}

// errRefused is the final answer of a service that refused a step.
var errRefused = errors.New("the service refuses")

// post sends a request to a service, which acts once per key.
func post(ctx context.Context, url, key, body string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnprocessableEntity:
		return errRefused
	}
	return fmt.Errorf("post to %s: %s", url, answer.Status)
}

// A saga has three steps, in three services. Each step and its compensation have a key
// of their own. If a service refuses, the earlier steps are compensated in reverse order.
func Example_saga() {
	ctx := context.Background()
	box, pool := openInbox(ctx, "CREATE TABLE steps (saga text, step int, done boolean NOT NULL, PRIMARY KEY (saga, step))")
	defer pool.Close()
	trip := saga{box: box, db: pool}
	for _, name := range []string{"hotel", "rail", "flight"} {
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Println(name, r.URL.Path, r.Header.Get("Idempotency-Key"))
			if name == "flight" {
				w.WriteHeader(http.StatusUnprocessableEntity) // there is no seat
			}
		}))
		defer service.Close()
		trip.services = append(trip.services, service.URL)
	}
	for range 2 { // the order is delivered twice
		booked, err := trip.run(ctx, "trip-17")
		if err != nil {
			log.Fatal(err) // another call of run would continue where this one ended
		}
		fmt.Println("booked:", booked)
	}
	// Output:
	// hotel /do trip-17/0
	// rail /do trip-17/1
	// flight /do trip-17/2
	// rail /undo trip-17/1/undo
	// hotel /undo trip-17/0/undo
	// booked: false
	// booked: false
}

// saga is a list of services. Each service can do and undo one step.
type saga struct {
	box      *inbox.Inbox
	db       inbox.DB
	services []string
}

// run runs the saga and reports whether all services agreed. If a service refuses its step,
// the steps before this step are compensated. After an error, run must be called again with
// the same id.
func (s saga) run(ctx context.Context, id string) (agreed bool, err error) {
	for step := range s.services {
		done, err := s.step(ctx, id, step)
		if err != nil {
			return false, err
		}
		if !done {
			return false, s.compensate(ctx, id, step)
		}
	}
	return true, nil
}

// step does a step and stores the service's answer. The stored answer is final. After a
// refusal the program does not ask the service again, because the earlier steps might
// already be compensated.
func (s saga) step(ctx context.Context, id string, step int) (done bool, err error) {
	key := fmt.Sprintf("%s/%d", id, step)
	_, err = s.box.Once(ctx, key, func(ctx context.Context, tx pgx.Tx) error {
		err := post(ctx, s.services[step]+"/do", key, id)
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		_, stored := tx.Exec(ctx, "INSERT INTO steps (saga, step, done) VALUES ($1, $2, $3)", id, step, err == nil)
		return stored
	})
	if err != nil {
		return false, err
	}
	err = s.db.QueryRow(ctx, "SELECT done FROM steps WHERE saga = $1 AND step = $2", id, step).Scan(&done)
	return done, err
}

// compensate undoes all steps before the given one, in reverse order.
func (s saga) compensate(ctx context.Context, id string, before int) error {
	for step := before - 1; step >= 0; step-- {
		key := fmt.Sprintf("%s/%d/undo", id, step)
		_, err := s.box.Once(ctx, key, func(ctx context.Context, _ pgx.Tx) error {
			return post(ctx, s.services[step]+"/undo", key, id)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
