package idempotency

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// replayed are the header fields that are stored and replayed. Content-Encoding is one of them,
// because without it the body means something else. Set-Cookie is not: it is often a secret.
var replayed = []string{"Content-Type", "Content-Encoding", "Content-Language", "Location", "ETag"}

// decision is what a handler said about its answer.
type decision struct{ storeRefusal, commitWrites bool }

type decisionKey struct{}

// StoreRefusal says that the state decided the answer with a status from 400 to 499 that the
// handler is about to give, such as 409 for an account without money. The answer is stored, and
// each repeat gets it, although the state may have changed by then. The writes of the handler are
// undone. It has no effect on 401, 403, 413 and 429, and on requests without a Middleware. The
// argument is the context of the request.
func StoreRefusal(ctx context.Context) {
	if d, ok := ctx.Value(decisionKey{}).(*decision); ok {
		d.storeRefusal = true
	}
}

// CommitWrites says that the request had an effect, although the status of the answer is 400 or
// higher. The writes of the handler are committed, and the answer is stored. It has no effect on
// 401, 403, 413 and 429, and on requests without a Middleware. The argument is the context of the
// request.
func CommitWrites(ctx context.Context) {
	if d, ok := ctx.Value(decisionKey{}).(*decision); ok {
		d.commitWrites = true
	}
}

// result returns how the transaction ends after this answer.
func (d decision) result(a *Answer) Result {
	switch s := a.Status; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden || s == http.StatusRequestEntityTooLarge || s == http.StatusTooManyRequests:
		return Result{}
	case s < 400 || d.commitWrites:
		return Result{Commit: true, Answer: a}
	case s < 500 && d.storeRefusal:
		return Result{Answer: a}
	}
	return Result{}
}

// recorder is the http.ResponseWriter of the handler. It keeps the answer until the effect is
// durable. The handler cannot flush it.
type recorder struct {
	header   http.Header
	status   int // 0 until the handler has written
	body     []byte
	limit    int
	tooLarge bool
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter. It ignores informational statuses. As in net/http,
// a status of less or more than three digits is a panic, here before anything is committed.
func (r *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("idempotency: invalid WriteHeader code %d", status))
	}
	if r.status == 0 && status >= 200 {
		r.status = status
	}
}

// Write implements http.ResponseWriter. It returns an error when the answer is too large.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.tooLarge || len(r.body)+len(p) > r.limit {
		r.tooLarge = true
		return 0, errAnswerTooLarge
	}
	r.body = append(r.body, p...)
	return len(p), nil
}

// answer returns the stored part of the answer.
func (r *recorder) answer() *Answer {
	r.WriteHeader(http.StatusOK)
	if _, given := r.header["Content-Type"]; !given && len(r.body) > 0 {
		r.header.Set("Content-Type", http.DetectContentType(r.body))
	}
	a := &Answer{Status: r.status, Header: http.Header{}, Body: r.body}
	for _, name := range replayed {
		name = http.CanonicalHeaderKey(name)
		if values, given := r.header[name]; given {
			a.Header[name] = slices.Clone(values)
		}
	}
	return a
}

// send writes an answer with the header of the handler, or of a replay.
func send(w http.ResponseWriter, header http.Header, status int, body []byte) {
	for name, values := range header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length") // the server sets it
	w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = w.Write(body) // the client is gone, and repeats the request
	}
}
