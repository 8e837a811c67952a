package testweb

import (
	"math"
	"time"
)

// latency: a quarter of the hosts answer late, by 10 to 60 ms that differ from
// page to page.
var latency = hardship{
	bit: Latency, name: "latency",
	doc: "a quarter of the hosts answer 10 to 60 ms late",
	decorate: func(w *Web, p page, answer *answer) {
		if w.draw(forLatency, page{p.host, 0})%4 == 0 {
			answer.wait += 10*time.Millisecond + time.Duration(w.draw(forLatency, p)%50)*time.Millisecond
		}
	},
}

// maxSpread is the maximum of Config.LatencySpread. With a larger spread, hosts that are
// slower than any crawler's timeout would dominate the mean.
const maxSpread = 4

// lateness returns how late a host answers by Config.Latency. Hosts of corners
// and dead ones are not late.
func (w *Web) lateness(name string) time.Duration {
	if w.cfg.Latency == 0 {
		return 0
	}
	host, known := parseHost(name)
	if !known {
		return 0
	}
	d := w.roll(forLateness, page{host, 0})
	normal := math.Sqrt2 * math.Erfinv(2*d.unit()-1)
	spread := w.cfg.LatencySpread
	return time.Duration(float64(w.cfg.Latency) * math.Exp(spread*normal-spread*spread/2))
}
