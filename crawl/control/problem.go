package control

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"syscall"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/fetcher/record"
	"github.com/bloomfrontier/crawler/frontier"
	"github.com/bloomfrontier/crawler/frontier/canon"
)

// Errors of package crawl that processes tell each other.
var (
	ErrNotRun   = errors.New("no process runs the crawl from here")
	ErrTimeOver = errors.New("crawl: MaxTime is over")
	ErrStopped  = errors.New("crawl: stopped by another process")
	ErrRobots   = errors.New("crawl: robots.txt forbids the page")
	// ErrRefused and ErrConflict are errors of a change of the policy.
	ErrRefused  = errors.New("the policy cannot be changed so")
	ErrConflict = errors.New("the policy was changed meanwhile")
	// ErrNoRecheck reports a crawl in Redis. Its queue keeps nothing of a finished URL except its bits in
	// the filter.
	ErrNoRecheck = errors.New("only a crawl in a directory can queue finished URLs again: the queue in Redis keeps nothing of them")
)

// Codes are the names of errors in a problem. An error that matches several has all their
// names.
var Codes = map[string]error{
	"unavailable": frontier.ErrUnavailable, "full": frontier.ErrFull, "filter_lost": frontier.ErrFilterLost, "locked": frontier.ErrLocked,
	"lease_lost": frontier.ErrLeaseLost, "closed": frontier.ErrClosed, "settings": frontier.ErrParamsMismatch, "no_crawl": engine.ErrNoCrawl,
	"no_links": engine.ErrNoLinks, "no_recheck": ErrNoRecheck, "not_run": ErrNotRun, "stopped": ErrStopped, "time_over": ErrTimeOver,
	"robots": ErrRobots, "refused": ErrRefused, "conflict": ErrConflict, "other_payload": frontier.ErrOtherPayload, "scheme": canon.ErrScheme, "malformed": canon.ErrMalformed, "too_long": canon.ErrTooLong, "form": canon.ErrForm,
	"no_file": fs.ErrNotExist, "canceled": context.Canceled, "deadline": context.DeadlineExceeded,
}

// Problem is an error between processes.
type Problem struct {
	Text  string   `json:"text"`
	Codes []string `json:"codes,omitempty"` // keys of Codes
	// Errno is the error of the operating system, if one is the cause.
	Errno syscall.Errno `json:"errno,omitempty"`

	Settings *frontier.SettingsError `json:"settings,omitempty"`
	Gone     *record.GoneError       `json:"gone,omitempty"`
	Missing  *record.MissingError    `json:"missing,omitempty"`
	URL      *urlProblem             `json:"url,omitempty"`
}

// urlProblem is a canon.Error whose field Err is among the codes.
type urlProblem struct {
	Ref  string `json:"ref"`
	Hint string `json:"hint,omitempty"`
}

// ProblemOf returns an error as a Problem.
func ProblemOf(err error) Problem {
	p := Problem{Text: err.Error()}
	for code, target := range Codes {
		if errors.Is(err, target) {
			p.Codes = append(p.Codes, code)
		}
	}
	p.Errno, _ = errors.AsType[syscall.Errno](err)
	p.Settings, _ = errors.AsType[*frontier.SettingsError](err)
	p.Gone, _ = errors.AsType[*record.GoneError](err)
	p.Missing, _ = errors.AsType[*record.MissingError](err)
	if refused, is := errors.AsType[*canon.Error](err); is {
		p.URL = &urlProblem{refused.Ref, refused.Hint}
	}
	return p
}

// Err returns an error with the text of the problem. errors.Is and errors.As find in it what
// they would find in the original, of the errors that a problem names.
func (p *Problem) Err() error {
	e := &remoteError{text: p.Text}
	add := func(is bool, err error) {
		if is {
			e.causes = append(e.causes, err)
		}
	}
	for _, code := range p.Codes {
		cause, known := Codes[code]
		add(known, cause)
		if p.URL != nil && (cause == canon.ErrScheme || cause == canon.ErrMalformed || cause == canon.ErrTooLong) {
			add(true, &canon.Error{Ref: p.URL.Ref, Err: cause, Hint: p.URL.Hint})
		}
	}
	add(p.Errno != 0, p.Errno)
	add(p.Settings != nil, p.Settings)
	add(p.Gone != nil, p.Gone)
	add(p.Missing != nil, p.Missing)
	return e
}

// remoteError is an error of another process.
type remoteError struct {
	text   string
	causes []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.causes }

// refuse answers a request with an error.
func refuse(w http.ResponseWriter, status int, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(ProblemOf(err))
}
