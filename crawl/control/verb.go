package control

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Verb is one operation on a crawl. The function Perform implements it on an open crawl S, in this
// process or in the process that runs the crawl. Between processes, the question Q and the answer A
// are JSON.
type Verb[S, Q, A any] struct {
	Name    string
	Steers  bool // it changes the crawl; otherwise it only reads
	Perform func(S, context.Context, Q) (A, error)
}

// Read returns a verb that only reads the crawl.
func Read[S, Q, A any](name string, perform func(S, context.Context, Q) (A, error)) Verb[S, Q, A] {
	return Verb[S, Q, A]{name, false, perform}
}

// Steer returns a verb that changes the crawl.
func Steer[S, Q, A any](name string, perform func(S, context.Context, Q) (A, error)) Verb[S, Q, A] {
	return Verb[S, Q, A]{name, true, perform}
}

// Nothing is the question of a verb without arguments.
type Nothing struct{}

// Plain returns the function of a verb without arguments.
func Plain[S, A any](perform func(S, context.Context) (A, error)) func(S, context.Context, Nothing) (A, error) {
	return func(open S, ctx context.Context, _ Nothing) (A, error) { return perform(open, ctx) }
}

// maxQuestion is the largest size of a question, in bytes.
const maxQuestion = 64 << 20

// Route makes mux answer the verb for an open crawl.
func (v Verb[S, Q, A]) Route(mux *http.ServeMux, open S) {
	mux.HandleFunc("POST /"+v.Name, func(w http.ResponseWriter, r *http.Request) {
		var question Q
		if err := json.NewDecoder(io.LimitReader(r.Body, maxQuestion)).Decode(&question); err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		answer, err := v.Perform(open, r.Context(), question)
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}
