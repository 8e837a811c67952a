package testweb

import "net/http"

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
