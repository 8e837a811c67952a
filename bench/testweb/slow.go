package testweb

import "time"

// slow is a hardship: the server sends one page in 256 in eight pieces, 25 ms
// apart.
var slow = hardship{
	bit: Slow, name: "slow",
	doc: "one page in 256 comes in eight pieces, 25 ms apart",
	decorate: func(w *Web, p page, answer *answer) {
		if w.draw(forSlow, p)%256 == 0 {
			answer.pieces, answer.pause = 8, 25*time.Millisecond
		}
	},
}
