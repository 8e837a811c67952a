package testweb

import (
	"fmt"
	"strconv"
	"strings"
)

// dead is a hardship: hosts that close every connection without an answer, even for
// robots.txt. There is one dead host, and one more for every 64 living hosts. The root
// pages of the first living hosts link to the six pages of one dead host each. A crawler can record such a page as a
// network error or as a page of a dead host. It can also record the page as disallowed,
// because RFC 9309 forbids all pages if robots.txt is unreachable. This depends on the
// crawler and on the order of the crawl, so all three outcomes are right.
var dead = hardship{
	bit: Dead, name: "dead",
	doc: "hosts that close every connection: one, and one more for every 64 living hosts",
}

const deadPages = 6

// deadOutcomes are the right outcomes for a page of a dead host.
var deadOutcomes = []string{"network", "host_dead", "robots"}

func (w *Web) deadHosts() int {
	if !w.has(Dead) {
		return 0
	}
	return 1 + w.shape.hosts()/64
}

func deadName(deadHost int) string { return fmt.Sprintf("dead%06d.test", deadHost) }

func (w *Web) parseDeadName(name string) (deadHost int, known bool) {
	digits, begins := strings.CutPrefix(name, "dead")
	digits, ends := strings.CutSuffix(digits, ".test")
	if !begins || !ends {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0 && n < w.deadHosts() && deadName(n) == name
}

func appendDeadPath(dst []byte, part int) []byte {
	if part == 0 {
		return append(dst, '/')
	}
	return fmt.Appendf(dst, "/p/%d.html", part)
}

// parseDeadPath is the reverse of appendDeadPath.
func parseDeadPath(path string) (part int, known bool) {
	for part := range deadPages {
		if string(appendDeadPath(nil, part)) == path {
			return part, true
		}
	}
	return 0, false
}
