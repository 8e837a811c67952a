package crawl

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	policyEvery   = time.Second      // between two questions of a worker for the newest version of the policy
	postgresEvery = 10 * time.Second // between two of them that Postgres answers
)

// watchPolicy obeys the newest version of the policy of a crawl in Redis, until ctx ends. A change of an embedded crawl
// is made by the process that runs it. While the newest version is not known, no request starts.
func (ses *session) watchPolicy(ctx context.Context) {
	ticker := time.NewTicker(policyEvery)
	defer ticker.Stop()
	var asks sync.WaitGroup
	defer asks.Wait()
	asks.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(postgresEvery):
				ses.askPostgres(ctx)
			}
		}
	})
	failed := false
	for {
		ses.adopting.Lock()
		known := ses.plan.version
		ses.adopting.Unlock()
		at := sinceBoot()
		asking, cancel := context.WithTimeout(ctx, answerTime)
		newest, err := ses.engine.NewestVersion(asking)
		switch {
		case err == nil && numberOf(newest) < numberOf(known): // the server has lost its last writes
			err = ses.engine.PublishVersion(asking, known)
		case err == nil && newest != nil:
			err = ses.adopt(newest)
		}
		cancel()
		if err == nil {
			ses.confirmed.extend(at)
		}
		if secret, is := errors.AsType[*SecretError](err); is {
			if stop := ses.monitor.stop.Load(); stop != nil {
				(*stop)(secret)
			}
			return
		}
		if err != nil && ctx.Err() == nil && !failed {
			ses.plan.Logger.Warn("the policy of the crawl is not known", slog.Any("err", err))
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// askPostgres obeys the newest version that Postgres has, if it answers. Redis can have lost this version before a worker
// learnt it.
func (ses *session) askPostgres(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	newest, err := ses.engine.LastVersion(asking)
	if err == nil && newest != nil {
		err = ses.adopt(newest)
	}
	if err != nil {
		ses.plan.Logger.Debug("the newest version of the policy is not known", slog.Any("err", err))
	}
}
