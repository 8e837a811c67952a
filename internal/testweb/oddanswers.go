package testweb

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// oddAnswers is a hardship: answers of real servers that break a rule of HTTP or HTML, and
// that browsers show all the same. Its pages are tables: a name, and what is odd. In
// these tables, a page NAME has a link to /beside/NAME, which a correct crawl finds unless the
// table says otherwise. Clients need sockets, because many answers are written byte by byte.
var oddAnswers = hardship{
	bit: OddAnswers, name: "odd-answers",
	doc: "what real servers send: odd headers, framing, codings, types, redirects, feeds, calendars",
	corner: func(c *corners) {
		oddHeads(c)
		oddBodies(c)
		oddCodings(c)
		oddTypes(c)
		oddRedirects(c)
		oddContexts(c)
		oddDates(c)
		if c.sitemaps {
			oddSitemaps(c)
		}
	},
}

// addOdd adds a page with a link to the page /beside/NAME. Both are new.
func (s *site) addOdd(name string) *resource {
	s.pages("/beside/" + name)
	return s.addListed("/"+name, "/beside/"+name)
}

// addOddLeaf adds a page whose link to /lost/NAME must not be followed, because a correct crawl
// does not read it as HTML.
func (s *site) addOddLeaf(name, outcome string, status int) *resource {
	return s.addListed("/"+name, "/lost/"+name).expects(outcome, status)
}

// rawText returns the body of p.
func (p *resource) rawText() string {
	var b bytes.Buffer
	_ = p.plain(&b) // writes to a buffer do not fail
	return b.String()
}

// sendRaw makes the answer of p the text that the function write returns for the number of
// earlier requests. After it, the connection is closed.
func (p *resource) sendRaw(write func(try int) string) *resource {
	p.raw = write
	return p
}

const rawType = "Content-Type: text/html; charset=utf-8\r\n"

// oddHeads has heads that break RFC 9112. They are answers all the same: the host is alive.
func oddHeads(c *corners) {
	s := c.site("heads.odd.test")
	s.enter("/")
	for name, lines := range inOrder(
		"bracket", "X[y]: 1\r\n", "parenthesis", "X(y): 1\r\n", "not-ascii", "X-\xe9\xc3\xa9: 1\r\n", "no-name", ": 1\r\n",
		"quotes", "\"X\": 1\r\n", "slash", "X/Y: 1\r\n", "at", "X@Y: 1\r\n", "fold", "X-Fold: a\r\n b\r\n", "latin1-value", "X-Value: \xe9\r\n",
		"identity", "Transfer-Encoding: identity\r\n", "equal-lengths", "Content-Length: %[1]d\r\n", "listed-lengths", "Content-Length: %[1]d, %[1]d\r\n",
	) {
		p := s.addOdd(name)
		body := p.rawText()
		length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
		if name == "listed-lengths" {
			length = ""
		}
		if strings.Contains(lines, "%[1]d") {
			lines = fmt.Sprintf(lines, len(body))
		}
		p.sendRaw(func(int) string { return "HTTP/1.1 200 OK\r\n" + rawType + lines + length + "\r\n" + body })
	}
	for name, head := range inOrder(
		"lines-without-cr", "HTTP/1.1 200 OK\nContent-Type: text/html; charset=utf-8\n\n", "no-reason", "HTTP/1.1 200\r\n"+rawType+"\r\n",
		"http-1.0", "HTTP/1.0 200 OK\r\n"+rawType+"\r\n", "early-hints", "HTTP/1.1 103 Early Hints\r\nLink: </x.css>; rel=preload\r\n\r\nHTTP/1.1 200 OK\r\n"+rawType+"\r\n",
	) {
		p := s.addOdd(name)
		body := p.rawText()
		p.sendRaw(func(int) string { return head + body })
	}
	p := s.addOdd("chunked-and-length") // Transfer-Encoding beats Content-Length
	body := p.rawText()
	p.sendRaw(func(int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\n%sContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", rawType, len(body), body)
	})

	s = c.site("robots.odd.test") // an odd line in robots.txt does not close the site, or open it
	rules := "User-agent: *\nDisallow: /closed\n"
	s.robots(rules).sendRaw(func(int) string {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX[y]: 1\r\nContent-Length: %d\r\n\r\n%s", len(rules), rules)
	})
	s.enter("/", "/open", "/closed")
	s.pages("/open")
	s.addClosed("/closed")
}

// oddBodies has bodies that end early, and framings that contradict themselves. After them, a
// page of the same host is found: the host is alive.
func oddBodies(c *corners) {
	s := c.site("bodies.odd.test")
	s.enter("/")
	cut := func(name string, fails int, begin func(body string) string) {
		p := s.addOdd(name).failing(1, asGood) // a cut body is requested twice
		body := p.rawText()
		p.sendRaw(func(try int) string {
			if try >= fails {
				return "HTTP/1.1 200 OK\r\n" + rawType + "\r\n" + body
			}
			return "HTTP/1.1 200 OK\r\n" + rawType + begin(body)
		})
	}
	tooLong := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body)+100, body) }
	chunks := func(body string) string {
		return fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(body), body)
	}
	cut("cut-once", 1, tooLong)
	cut("length-too-large", forever, tooLong)
	cut("no-last-chunk", forever, chunks)
	cut("no-last-chunk-once", 1, chunks)
	for name, head := range inOrder(
		"two-lengths", "Content-Length: 10\r\nContent-Length: 20\r\n\r\n0123456789", "listed-other-lengths", "Content-Length: 10, 20\r\n\r\n0123456789",
		"no-chunk-size", "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", "negative-length", "Content-Length: -5\r\n\r\n01234",
	) {
		s.addListed("/"+name).expects("network", 0).sendRaw(func(int) string { return "HTTP/1.1 200 OK\r\n" + rawType + head })
	}
	p := s.addOdd("later") // Retry-After with a fraction
	body := p.rawText()
	p.failing(1, asGood).sendRaw(func(try int) string {
		if try == 0 {
			return "HTTP/1.1 503 Later\r\nRetry-After: 1.5\r\nContent-Length: 0\r\n\r\n"
		}
		return "HTTP/1.1 200 OK\r\n" + rawType + "\r\n" + body
	})
}

func deflateOf(b []byte) []byte {
	var out bytes.Buffer
	z, _ := flate.NewWriter(&out, flate.BestCompression) // the level is valid
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

func zlibOf(b []byte) []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	_, _ = z.Write(b)
	_ = z.Close()
	return out.Bytes()
}

// oddCodings has content codings beside those of the hardship codings (RFC 9110 8.4).
func oddCodings(c *corners) {
	s := c.site("codings.odd.test")
	s.enter("/")
	same := func(b []byte) []byte { return b }
	page := func(p *resource, pack func([]byte) []byte, codings ...string) {
		p.with("Content-Encoding", codings...)
		plain := p.plain
		p.packed = func(out io.Writer) error {
			var b bytes.Buffer
			_ = plain(&b) // writes to a buffer do not fail
			_, err := out.Write(pack(b.Bytes()))
			return err
		}
	}
	page(s.addOdd("zlib"), zlibOf, "deflate")
	page(s.addOdd("raw-deflate"), deflateOf, "Deflate")
	page(s.addOdd("upper"), gzipOf, "GZIP")
	page(s.addOdd("listed"), func(b []byte) []byte { return gzipOf(zlibOf(b)) }, "deflate, x-gzip")
	page(s.addOdd("two-lines"), func(b []byte) []byte { return brotliOf(gzipOf(b)) }, "gzip", "br")
	page(s.addOdd("identity"), zstdOf, "identity,zstd,")
	for _, name := range []string{"gzip", "zstd"} { // named, but the body is plain, as its first bytes show
		page(s.addOdd("plain-"+name), same, name)
	}
	for _, name := range []string{"deflate", "br"} { // these have no first bytes of their own
		p := s.addListed("/plain-" + name)
		page(p.alsoAccepts("coding"), same, name)
		p.want.Title, p.want.isRead = "", false
	}
	noise := func([]byte) []byte { return []byte("\x00\x01\x02 no page in any coding \xff\xfe") }
	page(s.addOddLeaf("unknown", "coding", 200), noise, "shrunk")
	page(s.addOddLeaf("compress", "coding", 200), func([]byte) []byte { return []byte("\x1f\x9d\x90no page at all") }, "compress")
}

// oddTypes has content types as the standards Fetch and MIME Sniffing read them.
func oddTypes(c *corners) {
	s := c.site("types.odd.test")
	s.enter("/")
	for name, lines := range inOrder(
		"missing", "", "any", "Content-Type: */*\r\n", "unknown", "Content-Type: unknown/unknown\r\n", "application", "Content-Type: application/unknown\r\n",
		"no-type", "Content-Type: html\r\n", "last-wins", "Content-Type: text/plain\r\nContent-Type: text/html\r\n",
		"last-valid-wins", "Content-Type: text/html\r\nContent-Type: */*\r\nContent-Type: html\r\n", "in-one-line", "Content-Type: text/plain, text/html;charset=utf-8\r\n",
		"upper", "Content-Type: TEXT/HTML;;charset=\"utf-8\"\r\n", "html-nosniff", "Content-Type: text/html\r\nX-Content-Type-Options: nosniff\r\n",
	) {
		p := s.addOdd(name)
		body := p.rawText()
		p.sendRaw(func(int) string { return "HTTP/1.1 200 OK\r\n" + lines + "\r\n" + body })
	}
	for name, lines := range inOrder(
		"nosniff", "X-Content-Type-Options: nosniff\r\n", "any-nosniff", "Content-Type: */*\r\nX-Content-Type-Options: nosniff\r\n",
		"plain", "Content-Type: text/plain\r\n", "plain-last", "Content-Type: text/html\r\nContent-Type: text/plain\r\n", "bytes", "Content-Type: application/octet-stream\r\n",
	) {
		p := s.addOddLeaf(name, "type", 200)
		body := p.rawText()
		p.sendRaw(func(int) string { return "HTTP/1.1 200 OK\r\n" + lines + "\r\n" + body })
	}
}

// oddRedirects has redirects to a spelling with the same canonical form: there is one record.
func oddRedirects(c *corners) {
	s := c.site("redirects.odd.test")
	s.enter("/")
	const id = "0123456789abcdef0123456789abcdef"
	for name, more := range inOrder("session", "?PHPSESSID="+id, "path-session", ";jsessionid="+id, "tracking", "?utm_source=x", "empty-query", "?", "form-of-sid", "?sid="+id) {
		p := s.addOdd(name)
		spelling := s.add("/"+name+more, aside)
		spelling.plain = p.plain
		p.status, p.location = http.StatusFound, "/"+name+more
	}
	s.redirect("/choices", "/beside/choices", s.at("/beside/choices")).expects("redirect", 300).status = 300
	s.resources["/choices"].want.RedirectTo = s.at("/beside/choices")
	s.list = append(s.list, "/choices")
	s.resources["/"].html(s.list...)
	s.pages("/beside/choices")
}

// inOrder returns pairs of a name and a text, in the order of the arguments.
func inOrder(list ...string) func(yield func(name, text string) bool) {
	return func(yield func(name, text string) bool) {
		for i := 0; i < len(list) && yield(list[i], list[i+1]); i += 2 {
		}
	}
}
