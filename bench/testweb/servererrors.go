package testweb

import "net/http"

// serverErrors is a hardship: three pages of each host answer 500, 502 or 504 to
// the first one, two or three requests, and then normally, so that one of four
// attempts succeeds. A fourth page always fails.
var serverErrors = hardship{
	bit: ServerErrors, name: "5xx",
	doc: "pages that answer 500, 502 or 504 up to three times, or for ever",
	slots: []slot{
		always(brokenTimes(http.StatusInternalServerError, 1)),
		always(brokenTimes(http.StatusBadGateway, 2)),
		always(brokenTimes(http.StatusGatewayTimeout, 3)),
		always(&fate{
			name: "5xx for ever", outcome: "server_error", status: http.StatusInternalServerError, fails: forever,
			inner:  brokenTimes(http.StatusInternalServerError, 3),
			answer: func(_ *Web, _ page, _ int, answer *answer) { answer.refuse(http.StatusInternalServerError) },
		}),
	},
}

// brokenTimes returns the fate of a page that answers the first requests with
// status, and then normally.
func brokenTimes(status, times int) *fate {
	return &fate{
		name: "5xx at first", outcome: "ok", status: http.StatusOK, fails: times,
		answer: func(_ *Web, _ page, try int, answer *answer) {
			if try < times {
				answer.refuse(status)
			}
		},
	}
}

// always returns a slot with the same fate on every host.
func always(f *fate) slot { return func(*Web, int) *fate { return f } }
