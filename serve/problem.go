package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/serve/idempotency"
)

// problemPage is what the types of problems begin with.
const problemPage = "https://github.com/bloomfrontier/crawler/blob/main/docs/reference/api.md"

// problem is an answer of RFC 9457 to a request that had no effect.
type problem struct {
	Type   string   `json:"type" doc:"address of the section that explains the problem"`
	Title  string   `json:"title" doc:"the kind of problem"`
	Status int      `json:"status"`
	Detail string   `json:"detail,omitempty" doc:"what is wrong with this request"`
	Codes  []string `json:"codes,omitempty" doc:"the names of the error in package control"`
	Errors []fault  `json:"errors,omitempty" doc:"each fault of the request"`

	retryAfter int // seconds; 0 means that the answer has no Retry-After
}

// fault is one fault of a request.
type fault struct {
	Message  string `json:"message"`
	Location string `json:"location,omitempty" doc:"such as body.seeds[3] or query.limit"`
}

// kinds are the kinds of problems. The key is the fragment of the type, and never changes.
var kinds = map[string]struct {
	status int
	title  string
}{
	"invalid":           {http.StatusUnprocessableEntity, "The request is not valid"},
	"syntax":            {http.StatusBadRequest, "The request cannot be read"},
	"token":             {http.StatusUnauthorized, "A token is needed"},
	"scope":             {http.StatusForbidden, "The token does not permit this"},
	"cross-origin":      {http.StatusForbidden, "The request comes from a page of another site"},
	"host":              {http.StatusMisdirectedRequest, "The Host header does not name this server"},
	"no-route":          {http.StatusNotFound, "There is no such resource"},
	"method":            {http.StatusMethodNotAllowed, "The resource does not have this method"},
	"no-crawl":          {http.StatusNotFound, "There is no such crawl"},
	"no-webhook":        {http.StatusNotFound, "There is no such webhook"},
	"exists":            {http.StatusConflict, "There is a crawl with this name"},
	"conflict":          {http.StatusConflict, "The state of the crawl does not permit this"},
	"under-way":         {http.StatusConflict, "An upload with this Idempotency-Key is under way"},
	"other-payload":     {http.StatusUnprocessableEntity, "The Idempotency-Key was used with another request"},
	"digest":            {http.StatusBadRequest, "The body does not have its Content-Digest"},
	"too-large":         {http.StatusRequestEntityTooLarge, "The body is too large"},
	"too-many":          {http.StatusTooManyRequests, "There are too many requests"},
	"cursor-gone":       {http.StatusGone, "The records after the cursor are missing"},
	"unavailable":       {http.StatusServiceUnavailable, "The crawl cannot answer now"},
	"internal":          {http.StatusInternalServerError, "The server failed"},
	"records-elsewhere": {http.StatusConflict, "The records are in the files of the workers"},
	"key-unknown":       {http.StatusBadRequest, "The Idempotency-Key was not issued, or has expired"},
}

// newProblem returns a problem of a kind.
func newProblem(kind, detail string) *problem {
	k := kinds[kind]
	p := &problem{Type: problemPage + "#" + kind, Title: k.title, Status: k.status, Detail: detail}
	if kind == "under-way" || kind == "too-many" || kind == "unavailable" {
		p.retryAfter = 1
	}
	return p
}

// Error implements error.
func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	h := make(http.Header)
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	return h
}

// write answers a request with the problem.
func (p *problem) write(w http.ResponseWriter) {
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", p.ContentType(""))
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone
}

// kindsOfCodes are the kinds of the errors that package control names, the first that matches.
var kindsOfCodes = []struct {
	kind  string
	codes []string
}{
	{"no-crawl", []string{"no_crawl"}},
	{"unavailable", []string{"unavailable", "locked", "closed", "canceled", "deadline", "lease_lost", "stopped", "time_over"}},
	{"conflict", []string{"conflict", "settings", "no_links", "no_recheck", "not_run", "full"}},
	{"invalid", []string{"refused", "robots", "scheme", "malformed", "too_long", "form"}},
}

// problemOf returns the problem of an error. It logs the errors that are faults of the server, and removes paths of this
// machine from others. If the state of the crawl decided the problem, its answer is stored.
func (s *Server) problemOf(ctx context.Context, err error) *problem {
	p, is := errors.AsType[*problem](err)
	if !is {
		p = s.kindOf(ctx, err)
	}
	if p.Status == http.StatusConflict && p.retryAfter == 0 {
		idempotency.StoreRefusal(ctx)
	}
	return p
}

func (s *Server) kindOf(ctx context.Context, err error) *problem {
	if faults, is := errors.AsType[*crawl.ConfigError](err); is {
		p := newProblem("invalid", "settings of the crawl are not valid")
		for _, f := range faults.Faults {
			p.Errors = append(p.Errors, fault{Message: f.Error(), Location: "body.settings"})
		}
		return p
	}
	if _, is := errors.AsType[*control.BrokenCallError](err); is {
		return newProblem("unavailable", "the crawl began or ceased to run meanwhile: repeat the request with the same key")
	}
	switch {
	case errors.Is(err, crawl.ErrOtherPayload), errors.Is(err, idempotency.ErrOtherPayload):
		return newProblem("other-payload", "")
	case errors.Is(err, idempotency.ErrUnknownKey):
		return newProblem("key-unknown", "")
	case errors.Is(err, idempotency.ErrUnderWay):
		return newProblem("under-way", "")
	}
	codes := control.ProblemOf(err).Codes
	slices.Sort(codes)
	for _, k := range kindsOfCodes {
		if slices.ContainsFunc(k.codes, func(code string) bool { return slices.Contains(codes, code) }) {
			p := newProblem(k.kind, s.cfg.hide(err.Error()))
			p.Codes = codes
			return p
		}
	}
	s.cfg.Logger.ErrorContext(ctx, "request failed", "err", err)
	return newProblem("internal", "the log of the server says why; the request can be repeated with the same key")
}

// transform turns the problems of package huma into those of this package.
func transform(_ huma.Context, _ string, body any) (any, error) {
	model, is := body.(*huma.ErrorModel)
	if !is {
		return body, nil
	}
	kind := "syntax"
	switch model.Status {
	case http.StatusUnprocessableEntity:
		kind = "invalid"
	case http.StatusRequestEntityTooLarge:
		kind = "too-large"
	case http.StatusInternalServerError:
		kind = "internal"
	}
	p := newProblem(kind, model.Detail)
	p.Status = model.Status
	for _, e := range model.Errors {
		p.Errors = append(p.Errors, fault{Message: e.Message, Location: e.Location}) // not the value, which can be long
	}
	return p, nil
}
