package testweb

import (
	"net/http"
	"strconv"
	"time"
)

// clientErrors is a hardship: links to pages that do not exist or are forbidden.
// A crawl does not request them again.
var clientErrors = hardship{
	bit: ClientErrors, name: "4xx",
	doc: "4 % of the pages are 404, 410 or 403",
	leaves: []leaf{
		{24, refused(http.StatusNotFound)},
		{8, refused(http.StatusGone)},
		{8, refused(http.StatusForbidden)},
	},
}

func refused(status int) *fate {
	return &fate{
		name: http.StatusText(status), outcome: "client_error", status: status,
		answer: func(_ *Web, _ page, _ int, answer *answer) { answer.refuse(status) },
	}
}

// serverErrors is a hardship: on each host, three pages answer 500, 502 or 504 at first, and
// then normally. One page fails once, one twice and one three times. So each of them
// succeeds in the fourth attempt or earlier. A fourth page always fails.
var serverErrors = hardship{
	bit: ServerErrors, name: "5xx",
	doc: "pages that answer 500, 502 or 504 up to three times, or for ever",
	slots: []slot{
		sameSlot(brokenTimes(http.StatusInternalServerError, 1)),
		sameSlot(brokenTimes(http.StatusBadGateway, 2)),
		sameSlot(brokenTimes(http.StatusGatewayTimeout, 3)),
		sameSlot(&fate{
			name: "5xx for ever", outcome: "server_error", status: http.StatusInternalServerError, fails: forever,
			inner:  brokenTimes(http.StatusInternalServerError, 3),
			answer: func(_ *Web, _ page, _ int, answer *answer) { answer.refuse(http.StatusInternalServerError) },
		}),
	},
}

// brokenTimes returns the fate, which is the behaviour, of a page that answers the first
// requests with an error status, and then normally.
func brokenTimes(status, times int) *fate {
	return failing("5xx at first", times, func(answer *answer) { answer.refuse(status) })
}

// failing returns the fate of a page that fails at first. The function fail changes the
// page's first answers. The argument times is the number of these answers.
func failing(name string, times int, fail func(*answer)) *fate {
	return &fate{
		name: name, outcome: "ok", status: http.StatusOK, fails: times,
		answer: func(_ *Web, _ page, try int, answer *answer) {
			if try < times {
				fail(answer)
			}
		},
	}
}

// sameSlot returns a slot that chooses the fate f on every host.
func sameSlot(f *fate) slot { return func(*Web, int) *fate { return f } }

// throttling is a hardship: on a quarter of the hosts, one page answers the first one or
// two requests with a Retry-After of two seconds, and then normally. A host has at most
// one such page, because for each one a crawler may pause the whole host for much longer
// than two seconds. The answer depends only on the number of earlier requests. So a
// request that comes too early gets the same answer as a later one, but the judge reports
// the early request.
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
	return failing("throttled at first", times, func(answer *answer) {
		answer.refuse(status)
		answer.askRetry = ask
	})
}

// inSeconds and asDate return a Retry-After header and the wait that the header asks
// for.
func inSeconds(time.Time) (header string, wait time.Duration) {
	return strconv.Itoa(int(retryAfter / time.Second)), retryAfter
}

func asDate(now time.Time) (header string, wait time.Duration) {
	until := now.Add(retryAfter).Truncate(time.Second) // a date has no fraction of a second
	return until.UTC().Format(http.TimeFormat), until.Sub(now)
}

// resets is a hardship: for three pages of each host, the server breaks the connection,
// before the first byte or in the middle of the body. One of the pages fails in all four
// attempts of a correct crawl, and the others fail at most twice. So a host fails at most eight times
// in all. A correct crawl does not give up a host before ten failures in a row.
var resets = hardship{
	bit: Resets, name: "reset",
	doc: "pages whose connection breaks before the headers (up to twice or for ever) or once in the body",
	slots: []slot{
		sameSlot(cutTimes(cutReset, 2)),
		sameSlot(cutTimes(cutBody, 1)), // after the second, what arrived is kept
		sameSlot(&fate{
			name: "closed for ever", outcome: "network", fails: forever,
			inner:  cutTimes(cutClose, 1),
			answer: func(_ *Web, _ page, _ int, answer *answer) { answer.cut, answer.status = cutClose, 0 },
		}),
	},
}

// cutTimes returns the fate of a page whose first answers are broken off.
func cutTimes(how cut, times int) *fate {
	return failing(how.String()+" at first", times, func(answer *answer) { answer.cut, answer.gzip = how, false })
}
