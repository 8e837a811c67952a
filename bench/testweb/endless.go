package testweb

import (
	"bytes"
	"io"
	"time"
)

// endless is a hardship: bodies that never end. A correct crawl cuts those that
// come fast at its limit, also inside a tag or a comment. Bodies that come a byte
// a second, or stop, are failures in every attempt.
var endless = hardship{
	bit: Endless, name: "endless",
	doc: "bodies without end, fast or a byte a second",
	corner: func(c *corners) {
		s := c.site("endless.corner.test")
		s.enter("/", "/text", "/tag", "/comment", "/attribute")
		for _, body := range []struct{ name, begin, more string }{
			{"text", "", "<p>and on</p>\n"}, {"tag", "", "<b><i>"}, {"comment", "<!--", " <a href=/decoy> "}, {"attribute", "<a title='", "and on "},
		} {
			p := s.page("/" + body.name)
			begin := string(documentOf(p.titleOf(), []string{"/beside/" + body.name})) + body.begin
			p.stream(func(out io.Writer) error { return endlessly(out, begin, body.more) })
			p.want.Truncated = true
			s.pages("/beside/" + body.name)
		}
		for _, name := range []string{"drip", "pause"} {
			s := c.site(name + ".corner.test")
			s.enter("/", "/body", "/open")
			s.pages("/open")
			p := s.page("/body").stream(dripping(name == "drip")).expects("network", 0)
			p.failing(forever, asGood)
		}
	},
}

// dripping returns a function that writes some text, and then a byte a second
// without end; or, if isSlow is false, one byte more and then nothing.
func dripping(isSlow bool) func(io.Writer) error {
	return func(out io.Writer) error {
		if !drip(out, bytes.Repeat([]byte("<p>on</p>"), 100), 0) {
			return io.ErrShortWrite
		}
		for drip(out, []byte("."), time.Second) {
			for !isSlow && drip(out, nil, time.Second) {
			}
		}
		return io.ErrShortWrite
	}
}
