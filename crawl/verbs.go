package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/internal/explain"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
)

// verb is one operation of a Handle. The function perform implements it, and runs in this
// process or in the process that runs the crawl. Between processes, the question Q and
// the answer A are JSON.
type verb[Q, A any] struct {
	name    string
	purpose engine.Purpose // the purpose of opening the crawl if no process runs it
	perform func(*session, context.Context, Q) (A, error)
}

// nothing is the question of a verb without arguments.
type nothing struct{}

type seedQuestion struct {
	Seeds []string `json:"seeds"`
	Check bool     `json:"check"` // first look up the hosts of the seeds: see Handle.SeedChecked
}

var errNotRun = errors.New("no process runs the crawl from here")

var (
	verbSeed    = verb[seedQuestion, []SeedAnswer]{"seed", engine.ToSteer, (*session).seed}
	verbRetry   = verb[string, int]{"retry", engine.ToSteer, (*session).retry}
	verbRecheck = verb[[]frontier.Finished, int]{"recheck", engine.ToSteer, (*session).recheck}
	verbPause   = verb[bool, bool]{"pause", engine.ToSteer, (*session).pause}
	verbStatus  = verb[nothing, report.Status]{"status", engine.ToLook, plain((*session).status)}
	verbSample  = verb[nothing, report.Sample]{"sample", engine.ToLook, plain(func(ses *session, ctx context.Context) (report.Sample, error) {
		if ses.monitor == nil {
			return report.Sample{}, errNotRun
		}
		return ses.monitor.sample(ctx, time.Now())
	})}
	verbReport  = verb[time.Duration, *report.Report]{"report", engine.ToLook, (*session).report}
	verbExplain = verb[string, *explain.Explanation]{"explain", engine.ToLook, (*session).explain}
	verbAudit   = verb[nothing, report.Audit]{"audit", engine.ToLook, plain(func(ses *session, ctx context.Context) (report.Audit, error) {
		return ses.engine.CountBooks(ctx)
	})}
	verbPosition = verb[nothing, frontier.Position]{"position", engine.ToLook, plain(func(ses *session, ctx context.Context) (frontier.Position, error) {
		return ses.engine.Position(ctx)
	})}
	verbFilter    = verb[nothing, FilterState]{"filter", engine.ToLook, plain((*session).filter)}
	verbSeeds     = verb[nothing, uint64]{"seeds", engine.ToLook, plain((*session).writeSeeds)}
	verbReconcile = verb[nothing, Reconciled]{"reconcile", engine.ToSteer, plain(func(ses *session, ctx context.Context) (Reconciled, error) {
		return ses.engine.ReconcileSet(ctx, false)
	})}
	verbCanonical = verb[string, string]{"canonical", engine.ToLook, func(ses *session, _ context.Context, url string) (string, error) {
		canonical, err := ses.plan.canon.Parse(url)
		return canonical.String(), err
	}}
	verbStop = verb[nothing, nothing]{"stop", engine.ToLook, plain(func(ses *session, _ context.Context) (nothing, error) {
		if ses.monitor != nil {
			if stop := ses.monitor.stop.Load(); stop != nil {
				(*stop)(ErrStopped)
				return nothing{}, nil
			}
		}
		return nothing{}, errNotRun
	})}
)

// plain returns the function of a verb without arguments.
func plain[A any](perform func(*session, context.Context) (A, error)) func(*session, context.Context, nothing) (A, error) {
	return func(ses *session, ctx context.Context, _ nothing) (A, error) { return perform(ses, ctx) }
}

// routes returns the handlers of the verbs that a process answers while it runs a
// crawl.
func (ses *session) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, v := range []interface {
		serve(*http.ServeMux, *session)
	}{
		verbSeed, verbRetry, verbRecheck, verbPause, verbStatus, verbSample, verbReport, verbExplain, verbAudit, verbPosition, verbFilter,
		verbSeeds, verbReconcile, verbCanonical, verbStop,
	} {
		v.serve(mux, ses)
	}
	return mux
}

// handoverTime is how long ask waits for a process that opens or closes the crawl.
const handoverTime = 10 * time.Second

// ask returns the answer to a question. It uses the session that this process has open, or
// asks the process that runs the crawl. Otherwise it opens the crawl for this question. While
// another process opens or closes the crawl, ask tries again, for up to handoverTime.
func (v verb[Q, A]) ask(ctx context.Context, h *Handle, question Q) (answer A, err error) {
	if h.own != nil {
		return v.perform(h.own, ctx, question)
	}
	for begun := time.Now(); ; {
		answer, err = v.askOnce(ctx, h, question)
		if err == nil || !v.handedOver(err) || time.Since(begun) > handoverTime {
			return answer, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return answer, ctx.Err()
		}
	}
}

// handedOver reports whether an error of askOnce can mean that a process has just begun or ceased
// to run the crawl, and the question can be asked again.
func (v verb[Q, A]) handedOver(err error) bool {
	broken, is := errors.AsType[*brokenCallError](err)
	return is && (!broken.sent || v.purpose == engine.ToLook) || errors.Is(err, frontier.ErrLocked)
}

func (v verb[Q, A]) askOnce(ctx context.Context, h *Handle, question Q) (answer A, err error) {
	if err := h.lock(ctx); err != nil {
		return answer, err
	}
	if listens(ctx, h.location.Dir) {
		h.unlock()
		return answer, callControl(ctx, h.location.Dir, v.name, question, &answer)
	}
	if h.kept == nil && h.location.Redis != nil { // several calls can have a crawl in Redis open at once
		h.unlock()
	} else {
		defer h.unlock()
		if h.kept != nil {
			return v.perform(h.kept, ctx, question)
		}
	}
	ses, err := openStored(ctx, h.location, h.place, v.purpose)
	if err != nil {
		return answer, err
	}
	answer, err = v.perform(ses, ctx, question)
	return answer, errors.Join(err, ses.close())
}

// maxQuestion is the largest size of a question, in bytes.
const maxQuestion = 64 << 20

func (v verb[Q, A]) serve(mux *http.ServeMux, ses *session) {
	mux.HandleFunc("POST /"+v.name, func(w http.ResponseWriter, r *http.Request) {
		var question Q
		if err := json.NewDecoder(io.LimitReader(r.Body, maxQuestion)).Decode(&question); err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		answer, err := v.perform(ses, r.Context(), question)
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}
