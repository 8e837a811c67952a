package testweb

import (
	"math"
	"time"
)

// latency is a hardship: a quarter of the hosts answer 10 to 60 ms late. Each page has
// a different latency.
var latency = hardship{
	bit: Latency, name: "latency",
	doc: "a quarter of the hosts answer 10 to 60 ms late",
	decorate: func(w *Web, p page, answer *answer) {
		if w.draw(forLatency, page{p.host, 0})%4 == 0 {
			answer.wait += 10*time.Millisecond + time.Duration(w.draw(forLatency, p)%50)*time.Millisecond
		}
	},
}

// maxSpread is the maximum of Config.LatencySpread. With a larger spread, the mean would
// depend mostly on hosts that are slower than any crawler's timeout.
const maxSpread = 4

// lateness returns the latency of a host, which Config.Latency describes. The latency
// is 0 for the hosts of corners and for dead hosts.
func (w *Web) lateness(name string) time.Duration {
	if w.cfg.Latency == 0 {
		return 0
	}
	host, known := parseHost(name)
	if !known {
		return 0
	}
	d := w.roll(forLateness, page{host, 0})
	spread := w.cfg.LatencySpread
	return time.Duration(float64(w.cfg.Latency) * math.Exp(spread*d.gauss()-spread*spread/2))
}

const (
	slowPieces = 8
	slowPause  = 25 * time.Millisecond // between two pieces
)

// slow is a hardship: the server sends one page in 256 in slowPieces pieces, slowPause
// apart.
var slow = hardship{
	bit: Slow, name: "slow",
	doc: "one page in 256 comes in eight pieces, 25 ms apart",
	decorate: func(w *Web, p page, answer *answer) {
		answer.slow = w.draw(forSlow, p)%256 == 0
	},
}
