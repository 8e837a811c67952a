package crawl

import (
	"context"
	"log/slog"
	"time"
)

// saveCookiesEvery is how often the kept cookies are written. A crash loses later ones.
const saveCookiesEvery = time.Minute

// saveCookies writes the cookies of answers to their file now and then, and when ctx has ended.
func (ses *session) saveCookies(ctx context.Context) {
	every := time.NewTicker(saveCookiesEvery)
	defer every.Stop()
	for ended := false; !ended; {
		select {
		case <-every.C:
		case <-ctx.Done():
			ended = true
		}
		if err := ses.plan.jar.Save(); err != nil {
			ses.plan.Logger.Warn("the cookies are not written", slog.Any("err", err))
		}
	}
}
