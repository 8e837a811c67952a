package testweb

import "time"

// latency: a quarter of the hosts answer late, by 10 to 60 ms that differ from
// page to page.
var latency = hardship{
	bit: Latency, name: "latency",
	doc: "a quarter of the hosts answer 10 to 60 ms late",
	decorate: func(w *Web, p page, answer *answer) {
		if w.draw(forLatency, page{p.host, 0})%4 == 0 {
			answer.wait = 10*time.Millisecond + time.Duration(w.draw(forLatency, p)%50)*time.Millisecond
		}
	},
}
