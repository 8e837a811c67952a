package crawl

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/bloomfrontier/crawler/crawl/control"
	"github.com/bloomfrontier/crawler/crawl/internal/engine"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/frontier"
)

// verb is one operation of a Handle.
type verb[Q, A any] = control.Verb[*session, Q, A]

type nothing = control.Nothing

type seedQuestion struct {
	Seeds []string `json:"seeds"`
	Check bool     `json:"check"` // first look up the hosts of the seeds: see Handle.SeedChecked
}

type retryQuestion struct {
	Failures
	Who string `json:"who"`
}

var (
	verbSeed   = control.Steer("seed", (*session).seed)
	verbSubmit = control.Steer("submit", (*session).submit)
	verbKeep   = control.Steer("keep", func(ses *session, ctx context.Context, q keepQuestion) (string, error) {
		return ses.engine.Keep(ctx, q.Chunk, q.Answer)
	})
	verbRetryOnce = control.Steer("retry-once", func(ses *session, ctx context.Context, q retryOnceQuestion) (retriedOnce, error) {
		n, repeated, err := ses.engine.RetryOnce(ctx, q.Chunk, q.Failures)
		ses.worker.Wake()
		return retriedOnce{n, repeated}, err
	})
	verbOffer   = control.Steer("offer", (*session).offer)
	verbRetry   = control.Steer("retry", (*session).retry)
	verbRecheck = control.Steer("recheck", (*session).recheck)
	verbPause   = control.Steer("pause", (*session).pause)
	verbChange  = control.Steer("change", (*session).change)
	verbDrop    = control.Steer("drop", (*session).drop)
	verbBlock   = control.Steer("block", (*session).block)
	verbReadmit = control.Steer("readmit", (*session).readmit)
	verbReach   = control.Read("reach", (*session).reach)
	verbHistory = control.Read("history", control.Plain(func(ses *session, ctx context.Context) ([]PolicyVersion, error) {
		return ses.engine.History(ctx)
	}))
	verbHosts  = control.Read("hosts", (*session).hosts)
	verbStatus = control.Read("status", control.Plain((*session).status))
	verbSample = control.Read("sample", control.Plain(func(ses *session, ctx context.Context) (report.Sample, error) {
		if ses.monitor == nil {
			return report.Sample{}, control.ErrNotRun
		}
		return ses.monitor.sample(ctx, time.Now())
	}))
	verbBoard    = control.Read("board", control.Plain((*session).board))
	verbSettings = control.Read("settings", control.Plain((*session).settings))
	verbReport   = control.Read("report", (*session).report)
	verbExplain  = control.Read("explain", (*session).explain)
	verbAudit    = control.Read("audit", control.Plain(func(ses *session, ctx context.Context) (report.Audit, error) {
		return ses.engine.CountBooks(ctx)
	}))
	verbPosition = control.Read("position", control.Plain(func(ses *session, ctx context.Context) (frontier.Position, error) {
		return ses.engine.Position(ctx)
	}))
	verbSeeds     = control.Read("seeds", control.Plain((*session).writeSeeds))
	verbReconcile = control.Steer("reconcile", control.Plain(func(ses *session, ctx context.Context) (Reconciled, error) {
		return ses.engine.ReconcileSet(ctx, false)
	}))
	verbCanonical = control.Read("canonical", func(ses *session, _ context.Context, url string) (string, error) {
		canonical, err := ses.plan.canon.Parse(url)
		return canonical.String(), err
	})
	verbStop = control.Read("stop", control.Plain(func(ses *session, _ context.Context) (nothing, error) {
		if ses.monitor != nil {
			if stop := ses.monitor.stop.Load(); stop != nil {
				(*stop)(ErrStopped)
				return nothing{}, nil
			}
		}
		return nothing{}, control.ErrNotRun
	}))
)

// routes returns the handlers of the verbs that a process answers while it runs a
// crawl.
func (ses *session) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, v := range []interface {
		Route(*http.ServeMux, *session)
	}{
		verbSeed, verbSubmit, verbKeep, verbRetryOnce, verbOffer, verbRetry, verbRecheck, verbPause, verbChange, verbDrop, verbBlock, verbReadmit, verbReach,
		verbHistory, verbHosts, verbStatus, verbSample, verbBoard, verbSettings, verbReport, verbExplain, verbAudit, verbPosition,
		verbSeeds, verbReconcile, verbCanonical, verbStop,
	} {
		v.Route(mux, ses)
	}
	return mux
}

// handoverTime is how long ask waits for a process that opens or closes the crawl.
const handoverTime = 10 * time.Second

// ask returns the answer to a question. It uses the session that this process has open, or
// asks the process that runs the crawl. Otherwise it opens the crawl for this question. While
// another process opens or closes the crawl, ask tries again, for up to handoverTime.
func ask[Q, A any](ctx context.Context, h *Handle, v verb[Q, A], question Q) (answer A, err error) {
	if h.own != nil {
		return v.Perform(h.own, ctx, question)
	}
	for begun := time.Now(); ; {
		answer, err = askOnce(ctx, h, v, question)
		if err == nil || !handedOver(err, v.Steers) || time.Since(begun) > handoverTime {
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
func handedOver(err error, steers bool) bool {
	broken, is := errors.AsType[*control.BrokenCallError](err)
	return is && (!broken.Sent || !steers) || errors.Is(err, frontier.ErrLocked)
}

func askOnce[Q, A any](ctx context.Context, h *Handle, v verb[Q, A], question Q) (answer A, err error) {
	if err := h.lock(ctx); err != nil {
		return answer, err
	}
	if control.Listens(ctx, h.location.Dir) {
		h.unlock()
		return answer, control.Call(ctx, h.location.Dir, v.Name, question, &answer)
	}
	if h.kept == nil && h.location.Redis != nil { // several calls can have a crawl in Redis open at once
		h.unlock()
	} else {
		defer h.unlock()
		if h.kept != nil {
			return v.Perform(h.kept, ctx, question)
		}
	}
	purpose := engine.ToLook
	if v.Steers {
		purpose = engine.ToSteer
	}
	ses, err := h.openStored(ctx, purpose)
	if err != nil {
		return answer, err
	}
	answer, err = v.Perform(ses, ctx, question)
	return answer, errors.Join(err, ses.close())
}

// awaitEnd waits until no process has the crawl in dir open.
func awaitEnd(ctx context.Context, dir string) error {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		running := control.Listens(ctx, dir)
		if !running { // a process closes its socket first, and then the store
			var err error
			if running, err = engine.Locked(dir); err != nil || !running {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}
