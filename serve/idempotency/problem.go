package idempotency

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
)

// problemPage is what the types of problems begin with, unless Config.ProblemPage is set.
const problemPage = "https://github.com/bloomfrontier/crawler/blob/main/docs/guide/idempotency.md"

// problem is a kind of refusal. Its code is the fragment of its type, and never changes.
type problem struct {
	status     int
	code       string
	title      string
	retryAfter int // seconds; 0 means that the answer has no Retry-After
}

var (
	keyMissing     = problem{http.StatusBadRequest, "key-missing", "Idempotency-Key is missing", 0}
	keyInvalid     = problem{http.StatusBadRequest, "key-invalid", "Idempotency-Key is invalid", 0}
	keyUnknown     = problem{http.StatusBadRequest, "key-unknown", "Idempotency-Key was not issued or has expired", 0}
	bodyUnreadable = problem{http.StatusBadRequest, "body-unreadable", "The body could not be read", 0}
	underWay       = problem{http.StatusConflict, "under-way", "A request with this Idempotency-Key is under way", 1}
	bodyTooLarge   = problem{http.StatusRequestEntityTooLarge, "body-too-large", "The body is too large", 0}
	otherPayload   = problem{http.StatusUnprocessableEntity, "other-payload", "Idempotency-Key was used with another payload", 0}
	answerTooLarge = problem{http.StatusInternalServerError, "answer-too-large", "The answer is too large to be stored; the request had no effect", 0}
	storeFailed    = problem{http.StatusServiceUnavailable, "store-failed", "The store failed; repeat the request with the same key", 1}
)

// problemOf returns the problem for an error of ParseKey, of reading the body, or of a Store.
func problemOf(err error) problem {
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case errors.Is(err, ErrNoKey):
		return keyMissing
	case errors.Is(err, ErrInvalidKey):
		return keyInvalid
	case errors.Is(err, ErrUnknownKey):
		return keyUnknown
	case errors.Is(err, ErrUnderWay):
		return underWay
	case errors.Is(err, ErrOtherPayload):
		return otherPayload
	case errors.Is(err, errBody) && tooLarge:
		return bodyTooLarge
	case errors.Is(err, errBody):
		return bodyUnreadable
	case errors.Is(err, errAnswerTooLarge):
		return answerTooLarge
	}
	return storeFailed
}

// write writes p as the answer. The type is page, a number sign and the code.
func (p problem) write(w http.ResponseWriter, page, detail string) {
	body, _ := json.Marshal(struct { // two strings and a number cannot fail
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{page + "#" + p.code, p.title, p.status, detail})
	if p.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.status)
	_, _ = w.Write(append(body, '\n')) // the client is gone
}
