package testweb

import (
	"bytes"
	"io"
	"strings"
)

// hugeRobots is a hardship: only the first 500 KiB of a robots.txt count (RFC 9309, 2.5),
// and of these only whole lines. The limit is within a line whose first part alone would
// forbid the whole host.
var hugeRobots = hardship{
	bit: HugeRobots, name: "huge-robots",
	doc: "robots.txt of more than 500 KiB, or without end",
	corner: func(c *corners) {
		const begin = "User-agent: *\nDisallow: /early\n"
		for _, file := range []struct{ name, after string }{
			{"robots-long", "\nDisallow: /late\n"},
			{"robots-huge", "\nDisallow: /late\n" + strings.Repeat("Disallow: /late/and/later/rules\n", 100_000)},
		} {
			s := c.site(file.name + ".corner.test")
			s.robots(upToCut(begin, "Disallow: /") + "across" + file.after)
			s.enter("/", "/early", "/across", "/late")
			s.closed("/early")
			s.pages("/across", "/late")
		}
		s := c.site("robots-endless.corner.test")
		s.robots("").stream(func(out io.Writer) error {
			return endlessly(out, begin, "# and so on and on\n")
		})
		s.enter("/", "/early", "/open")
		s.closed("/early")
		s.pages("/open")
	},
}

// robotsLimit is the number of bytes of a robots.txt that count.
const robotsLimit = 500 << 10

// upToCut returns a robots.txt of robotsLimit bytes that starts with begin and
// ends with last.
func upToCut(begin, last string) string {
	filler := strings.Repeat("# a line that says nothing at all\n", robotsLimit/34+1)
	return begin + filler[len(filler)-(robotsLimit-len(begin)-len(last)):] + last
}

// endlessly writes begin, and then more repeatedly until a write fails.
func endlessly(out io.Writer, begin, more string) error {
	piece := bytes.Repeat([]byte(more), 1+(16<<10)/len(more))
	_, err := io.WriteString(out, begin)
	for err == nil {
		_, err = out.Write(piece)
	}
	return err
}
