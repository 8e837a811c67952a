package testweb

import "net/http"

// huge: up to eight pages of the whole web are longer than a crawler should
// read: Config.HugeBytes, of which Config.MaxBodyBytes count.
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
