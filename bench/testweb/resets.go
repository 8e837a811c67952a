package testweb

import "net/http"

// resets is a hardship: for three pages of each host the server breaks the
// connection, before the first byte or in the middle of the body. It does so for
// one of the pages in every attempt, for the others at most twice. So a host
// fails at most eight times in all, and a crawler that gives up hosts after ten
// failures in a row gives up none.
var resets = hardship{
	bit: Resets, name: "reset",
	doc: "pages whose connection breaks before the headers or in the body, up to twice or for ever",
	slots: []slot{
		always(cutTimes(cutReset, 2)),
		always(cutTimes(cutBody, 2)),
		always(&fate{
			name: "closed for ever", outcome: "network", fails: forever,
			inner:  cutTimes(cutClose, 1),
			answer: func(_ *Web, _ page, _ int, answer *answer) { answer.cut, answer.status = cutClose, 0 },
		}),
	},
}

// cutTimes returns the fate of a page whose first answers break off.
func cutTimes(how cut, times int) *fate {
	return &fate{
		name: how.String() + " at first", outcome: "ok", status: http.StatusOK, fails: times,
		answer: func(_ *Web, _ page, try int, answer *answer) {
			if try < times {
				answer.cut, answer.gzip = how, false
			}
		},
	}
}
