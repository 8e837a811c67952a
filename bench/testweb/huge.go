package testweb

import "net/http"

// huge is a hardship: up to eight pages of the whole web are Config.HugeBytes
// long, of which a correct crawl reads Config.MaxBodyBytes.
var huge = hardship{
	bit: Huge, name: "huge",
	doc: "a few pages are longer than the limit of a body",
	slots: []slot{
		func(w *Web, host int) *fate {
			if every := 1 + w.shape.hosts()/8; host%every == every/2 {
				return fateHuge
			}
			return nil
		},
	},
}

var fateHuge = &fate{
	name: "huge", outcome: "ok", status: http.StatusOK, truncated: true,
	answer: func(w *Web, _ page, _ int, answer *answer) { answer.size = w.cfg.HugeBytes },
}
