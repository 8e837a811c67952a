package testweb

import (
	"net/http"
	"strconv"
	"time"
)

// throttling is a hardship: one page on a quarter of the hosts answers the first
// one or two requests with a Retry-After of two seconds, and then normally. There
// are not more such pages, because a crawler may back off from the whole host, and
// for much longer. The page counts requests and ignores their times: a request
// that comes too early gets the same answer, but the judge reports it.
var throttling = hardship{
	bit: Throttling, name: "429",
	doc: "a page on a quarter of the hosts answers 429 or 503 with Retry-After (seconds or date) at first",
	slots: []slot{
		func(w *Web, host int) *fate {
			if drawn := w.draw(forSlots, page{host, 1}); drawn%4 == 0 {
				return throttled[drawn>>32%uint64(len(throttled))]
			}
			return nil
		},
	},
}

// retryAfter is the wait that a throttled page asks for. HTTP allows only whole
// seconds.
const retryAfter = 2 * time.Second

var throttled = [...]*fate{
	throttledTimes(1, http.StatusTooManyRequests, inSeconds),
	throttledTimes(1, http.StatusTooManyRequests, asDate),
	throttledTimes(2, http.StatusServiceUnavailable, inSeconds),
}

func throttledTimes(times, status int, ask func(time.Time) (string, time.Duration)) *fate {
	return &fate{
		name: "throttled at first", outcome: "ok", status: http.StatusOK, fails: times,
		answer: func(_ *Web, _ page, try int, answer *answer) {
			if try >= times {
				return
			}
			answer.refuse(status)
			answer.askRetry = ask
		},
	}
}

// inSeconds and asDate return a Retry-After header and the wait that it asks for.
func inSeconds(time.Time) (header string, wait time.Duration) {
	return strconv.Itoa(int(retryAfter / time.Second)), retryAfter
}

func asDate(now time.Time) (header string, wait time.Duration) {
	until := now.Add(retryAfter).Truncate(time.Second) // a date has no fraction of a second
	return until.UTC().Format(http.TimeFormat), until.Sub(now)
}
