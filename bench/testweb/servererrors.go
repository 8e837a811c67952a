package testweb

import "net/http"

// serverErrors: three pages of each host answer 500, 502 or 504 one, two or
// three times before they answer well, so that the last of four attempts
// succeeds; a fourth page never does.
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

// brokenTimes is the fate of a page that answers with a status so many times,
// and then well.
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

// always is the slot that has the same fate on each host.
func always(f *fate) slot { return func(*Web, int) *fate { return f } }
