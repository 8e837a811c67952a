package idempotency_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/bloomfrontier/crawler/serve/idempotency"
	"github.com/bloomfrontier/crawler/serve/idempotency/embedded"
)

// A service that sells each seat once. A repeat of a sale gets its answer, and so does a repeat of
// a refusal.
func Example() {
	db, err := pebble.Open("seats", &pebble.Options{FS: vfs.NewMem(), Logger: silent{}})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	store, err := embedded.New(embedded.Config{DB: db})
	if err != nil {
		panic(err)
	}
	once, err := idempotency.New(idempotency.Config{
		Store:  store,
		Caller: func(r *http.Request) string { return r.Header.Get("X-User") },
	})
	if err != nil {
		panic(err)
	}
	sell := once.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		batch, seat := embedded.Batch(r.Context()), []byte("seat "+r.PathValue("seat"))
		if _, closer, err := batch.Get(seat); err == nil {
			_ = closer.Close()
			idempotency.StoreRefusal(r.Context()) // the state decided it
			http.Error(w, "sold", http.StatusConflict)
			return
		}
		if err := batch.Set(seat, []byte(r.Header.Get("X-User")), nil); err != nil {
			http.Error(w, "the database failed", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	// Two sales with different keys do not see each other's writes before the commit. So they run
	// one after the other, and the lock is around the middleware, which commits.
	var selling sync.Mutex
	mux := http.NewServeMux()
	mux.HandleFunc("POST /seats/{seat}", func(w http.ResponseWriter, r *http.Request) {
		selling.Lock()
		defer selling.Unlock()
		sell.ServeHTTP(w, r)
	})

	buy := func(user, key, seat string) {
		r := httptest.NewRequest(http.MethodPost, "/seats/"+seat, nil)
		r.Header.Set("X-User", user)
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		text, _ := io.ReadAll(w.Body)
		fmt.Printf("%s %d %q replayed=%q\n", user, w.Code, strings.TrimSpace(string(text)), w.Header().Get(idempotency.Replayed))
	}
	buy("ann", "k1", "12")
	buy("bob", "k1", "12") // a key of another caller
	buy("ann", `"k1"`, "12")
	buy("bob", "k1", "12")
	// Output:
	// ann 201 "" replayed=""
	// bob 409 "sold" replayed=""
	// ann 201 "" replayed="true"
	// bob 409 "sold" replayed="true"
}
