package get

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/bloomfrontier/crawler/frontier"
)

// received is a connection from which some bytes were received. Each Read returns at most
// piece bytes.
type received struct {
	net.Conn // nil
	bytes    *strings.Reader
	piece    int
}

func (r *received) Read(p []byte) (int, error)  { return r.bytes.Read(p[:min(len(p), r.piece)]) }
func (r *received) Write(p []byte) (int, error) { return len(p), nil }

// read is what net/http reads from an answer.
type read struct {
	answer *http.Response // nil if err is about its header
	body   string
	err    error
}

// readMended reads the answer to a GET through a mending connection, which receives it in
// pieces.
func readMended(wire string, piece int) read {
	m := newMending(&received{bytes: strings.NewReader(wire), piece: piece}, 64<<10)
	if _, err := m.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		return read{err: err}
	}
	answer, err := http.ReadResponse(bufio.NewReader(m), nil)
	if err != nil {
		return read{err: err}
	}
	body, err := io.ReadAll(answer.Body)
	return read{answer, string(body), err}
}

// The forms of answers in TestForms, with what others do. Sources: RFC 9110, RFC 9112;
// Chromium's net/http (http_response_headers.cc, http_stream_parser.cc,
// http_chunked_decoder.cc); curl 7.88.1, run with each answer.
var forms = []struct {
	name, wire string
	want       string // the body, or the beginning of the error
	header     string // the wanted value of the field A
}{
	// Names of fields. Browsers and curl skip or keep such lines; here they are left out.
	{"bracket in a name", ok + "X[0]: 1\r\nA: b\r\n" + five, "hello", "b"},
	{"parenthesis in a name", ok + "X(a): 1\r\nA: b\r\n" + five, "hello", "b"},
	{"name not in ASCII", ok + "X\xe2\x80\x90Y: 1\r\nA: b\r\n" + five, "hello", "b"},
	{"space in a name", ok + "X Y: 1\r\nA: b\r\n" + five, "hello", "b"},
	{"NUL in a name", ok + "X\x00Y: 1\r\nA: b\r\n" + five, "hello", "b"},
	{"empty name", ok + ": x\r\nA: b\r\n" + five, "hello", "b"},
	{"no colon", ok + "nothing\r\nA: b\r\n" + five, "hello", "b"}, // curl refuses the answer
	{"space before the colon", ok + "A : b\r\nContent-Length\t: 5\r\n\r\nhello, world", "hello", "b"},
	{"continued value", ok + "A: b\r\n  c\r\n\td\r\n" + five, "hello", "b c d"},
	{"continued odd line", ok + "X[]: b\r\n c: d\r\nA: b\r\n" + five, "hello", "b"},
	{"space before the first name", ok + " X: 1\r\nA: b\r\n" + five, "hello", "b"}, // RFC 9112, 2.2: ignored
	// Values. RFC 9110, 5.5: NUL, CR and LF become spaces, or the answer is refused (as curl does for NUL).
	{"NUL in a value", ok + "A: b\x00c\r\n" + five, "hello", "b c"},
	{"control in a value", ok + "A: b\x01\x7fc\r\n" + five, "hello", "b  c"},
	{"bare CR in a value", ok + "A: b\rContent-Length: 3\r\n" + five, "hello", "b Content-Length: 3"},
	{"bytes that are not ASCII", ok + "A: \xfc\r\n" + five, "hello", "\xfc"},
	{"empty value", ok + "A:\r\n" + five, "hello", ""},
	// Line ends.
	{"bare LF", "HTTP/1.1 200 OK\nA: b\nContent-Length: 5\n\nhello", "hello", "b"},
	{"mixed line ends", "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 5\r\n\nhello", "hello", "b"},
	{"CR CR LF", "HTTP/1.1 200 OK\r\r\nA: b\r\r\nContent-Length: 5\r\r\n\r\r\nhello", "hello", "b"},
	// Status lines.
	{"no reason", "HTTP/1.1 200 \r\nA: b\r\n" + five, "hello", "b"},
	{"no space", "HTTP/1.1 200\r\nA: b\r\n" + five, "hello", "b"},
	{"lower case", "http/1.1 200 ok\r\nA: b\r\n" + five, "hello", "b"},
	{"HTTP/1.2", "HTTP/1.2 200 OK\r\nA: b\r\n" + five, "hello", "b"}, // curl refuses it; RFC 9110, 2.5: like 1.1
	{"HTTP/2", "HTTP/2 200 OK\r\nA: b\r\n" + five, "hello", "b"},
	{"HTTP/2.0", "HTTP/2.0 200 OK\r\nA: b\r\n" + five, "hello", "b"},
	{"no version", "HTTP 200 OK\r\nA: b\r\n" + five, "hello", "b"}, // as Chromium; curl refuses it
	{"ICY", "ICY 200 OK\r\nA: b\r\n" + five, "hello", "b"},         // as Chromium; curl refuses it by default
	{"spaces", "HTTP/1.1   200   OK\r\nA: b\r\n" + five, "hello", "b"},
	{"tab", "HTTP/1.1\t200\tOK\r\nA: b\r\n" + five, "hello", "b"},
	{"line end before it", "\r\n" + ok + "A: b\r\n" + five, "hello", "b"}, // as Chromium
	{"two digits", "HTTP/1.1 20 OK\r\n" + five, "the answer contradicts HTTP: status line", ""},
	{"four digits", "HTTP/1.1 2000 OK\r\n" + five, "the answer contradicts HTTP: status line", ""},
	{"no status", "HTTP/1.1\r\n" + five, "the answer contradicts HTTP: status line", ""},
	{"HTTP/0.9", "<html>hello", "not an answer of HTTP", ""},
	{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", "not an answer of HTTP", ""},
	{"no status line", "\x00   \n\n", "not an answer of HTTP", ""},
	{"few other bytes", "H", "not an answer of HTTP", ""},
	{"HTTP/2 settings", "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80", "the host speaks only HTTP/2", ""},
	{"HTTP/2 goaway", "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00", "the host speaks only HTTP/2", ""},
	{"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "the host speaks only HTTP/2", ""},
	{"header without end", ok + "A: b\r\n", "the header ends early", ""},
	// Interim answers.
	{"interim answers", strings.Repeat("HTTP/1.1 103 Early\r\nX[]: y\r\n\r\nHTTP/1.1 100\r\n\r\n", 9) + ok + "A: b\r\n" + five, "hello", "b"},
	// Content-Length.
	{"equal lengths", ok + "Content-Length: 5\r\n" + five, "hello", ""},
	{"list of equal lengths", ok + "Content-Length: 5, 5\r\n\r\nhello", "hello", ""},
	{"different lengths", ok + "Content-Length: 4\r\n" + five, "the answer contradicts HTTP: Content-Length", ""}, // RFC 9112, 6.3; curl uses the first
	{"list of different lengths", ok + "Content-Length: 5, 4\r\n\r\nhello", "the answer contradicts HTTP: Content-Length", ""},
	{"negative length", ok + "Content-Length: -5\r\n\r\nhello", "the answer contradicts HTTP: Content-Length", ""}, // curl refuses it
	{"length in hex", ok + "Content-Length: 0x5\r\n\r\nhello", "the answer contradicts HTTP: Content-Length", ""},  // curl refuses it
	{"length with plus", ok + "Content-Length: +5\r\n\r\nhello, world", "hello", ""},                               // as curl
	{"empty length", ok + "Content-Length: \r\n\r\nhello", "hello", ""},                                            // as Chromium; curl refuses it
	{"huge length", ok + "Content-Length: 99999999999999999999\r\n\r\nhello", "hello", ""},                         // as curl
	{"length too large", ok + "Content-Length: 9\r\n\r\nhello", "unexpected EOF", ""},
	{"length too small", ok + five + ", world", "hello", ""},
	{"closed after the header", ok + "Content-Length: 9\r\n\r\n", "unexpected EOF", ""},
	{"until the end", ok + "\r\nhello", "hello", ""},
	{"204 with a body", "HTTP/1.1 204 No\r\nA: b\r\n" + five, "", "b"},
	{"304 with a body", "HTTP/1.1 304 No\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, "", "b"},
	// Transfer-Encoding.
	{"identity", ok + "Transfer-Encoding: identity\r\n" + five, "hello", ""},
	{"identity until the end", ok + "Transfer-Encoding: identity\r\n\r\nhello", "hello", ""},
	{"binary", ok + "Transfer-Encoding: binary\r\n" + five + ", world", "hello", ""}, // as Chromium; curl refuses it
	{"chunked in odd case", ok + "Transfer-Encoding: \t CHUNKed \t\r\n\r\n" + chunk, "hello", ""},
	{"chunked twice", ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, "hello", ""},
	{"list with chunked twice", ok + "Transfer-Encoding: chunked, identity ,, chunked\r\n\r\n" + chunk, "hello", ""},
	{"chunked and a length", ok + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, "hello", ""},
	{"chunked and two lengths", ok + "Content-Length: 3\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, "hello", ""},
	{"chunked in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello", "hello", ""}, // as Chromium
	// Chunks.
	{"extension", chunked + "5;a=\"b\"\r\nhello\r\n0;c\r\n\r\n", "hello", ""},
	{"leading zeros", chunked + strings.Repeat("0", 30) + "5\r\nhello\r\n000\r\n\r\n", "hello", ""}, // curl refuses more than 16 digits
	{"trailing spaces", chunked + "5 \t\r\nhello\r\n0  \r\n\r\n", "hello", ""},
	{"spaces and an extension", chunked + "5 ;a\r\nhello\r\n0\r\n\r\n", "hello", ""},
	{"bare LF in chunks", chunked + "5\nhello\n1\r\n!\n0\n\n", "hello!", ""},
	{"other text after the size", chunked + "5 x\r\nhello\r\n0\r\n\r\n", "hello", ""},
	{"trailer", chunked + "5\r\nhello\r\n0\r\nA: c\r\n\r\n", "hello", ""},
	{"bad trailer", chunked + "5\r\nhello\r\n0\r\nno colon\r\nX[]: y\n\r\n", "hello", ""},
	{"endless trailer", chunked + "5\r\nhello\r\n0\r\n" + strings.Repeat("a: b\r\n", 10_000), "hello", ""},
	{"trailer without end", chunked + "5\r\nhello\r\n0\r\nA: b", "hello", ""},
	{"no line end after the last chunk", chunked + "5\r\nhello\r\n0\r\n", "hello", ""},
	{"announced trailer", ok + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, "hello", ""},
	{"no last chunk", chunked + "5\r\nhello\r\n", "unexpected EOF", ""},
	{"no end of a chunk", chunked + "9\r\nhello", "unexpected EOF", ""},
	{"no chunk", chunked, "unexpected EOF", ""},
	{"first size unreadable", chunked + "hello", "unexpected EOF", ""}, // the line has no end
	{"first size is a word", chunked + "hello\r\n", "the answer contradicts HTTP: the size of its first chunk", ""},
	{"first size empty", chunked + "\r\n5\r\nhello", "the answer contradicts HTTP: the size of its first chunk", ""},
	{"first size with a space", chunked + " 5\r\nhello", "the answer contradicts HTTP: the size of its first chunk", ""}, // curl refuses it
	{"first size in decimal point", chunked + "5.0\r\nhello", "the answer contradicts HTTP: the size of its first chunk", ""},
	{"first size negative", chunked + "-5\r\nhello", "the answer contradicts HTTP: the size of its first chunk", ""},
	{"first size too large", chunked + "fffffffffffffffff\r\nhello", "the answer contradicts HTTP: the size of its first chunk", ""},
	{"later size unreadable", chunked + "5\r\nhello\r\nx\r\n", "a chunk of the body cannot be read", ""},
	{"chunk longer than its size", chunked + "5\r\nhello, world\r\n0\r\n\r\n", "a chunk of the body cannot be read", ""},
}

const (
	ok      = "HTTP/1.1 200 OK\r\n"
	five    = "Content-Length: 5\r\n\r\nhello"
	chunked = ok + "Transfer-Encoding: chunked\r\n\r\n"
	chunk   = "5\r\nhello\r\n0\r\n\r\n"
)

// TestForms reads forms of answers, received at once and in pieces.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			for _, piece := range []int{1 << 20, 1, 2, 7, 4096} {
				got := readMended(form.wire, piece)
				text := got.body
				if got.err != nil {
					text = strings.TrimPrefix(got.err.Error(), "net/http: ")
				}
				if !strings.HasPrefix(text, form.want) || got.err == nil && text != form.want {
					t.Errorf("pieces of %d: %q, %v, want %q", piece, got.body, got.err, form.want)
				}
				if got.answer != nil && got.answer.Header.Get("A") != form.header {
					t.Errorf("pieces of %d: A is %q, want %q", piece, got.answer.Header.Get("A"), form.header)
				}
			}
		})
	}
}

// TestTransferCodings: transfer codings besides chunked count like content codings that were
// applied last.
func TestTransferCodings(t *testing.T) {
	t.Parallel()
	for codings, want := range map[string]string{
		"gzip, chunked": "br,gzip", "gzip": "br,gzip", "x-gzip, deflate, chunked": "br,x-gzip,deflate",
		"chunked, gzip": "br,chunked,gzip", "identity": "br", "chunked": "br",
	} {
		got := readMended(ok+"Content-Encoding: br\r\nTransfer-Encoding: "+codings+"\r\nContent-Length: 3\r\n\r\n"+chunk, 1<<20)
		if got.err != nil || got.answer.Header.Get("Content-Encoding") != want {
			t.Errorf("%s: Content-Encoding %q, %v, want %q", codings, got.answer.Header.Get("Content-Encoding"), got.err, want)
		}
	}
}

// TestMendedMethods: the method of the request says whether a body follows.
func TestMendedMethods(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{"GET": "hello", "HEAD": "", "CONNECT": "hello, world"} {
		m := newMending(&received{bytes: strings.NewReader(ok + "X[]: y\r\n" + five + ", world"), piece: 5}, 1<<10)
		fmt.Fprintf(m, "%s / HTTP/1.1\r\n\r\n", method)
		all, err := io.ReadAll(m)
		if _, body, _ := strings.Cut(string(all), "\n\n"); err != nil || body != want {
			t.Errorf("%s: body %q, %v, want %q", method, body, err, want)
		}
	}
}

// TestKeptAfterForms: a connection is kept after an ordinary answer, even if it arrives in
// pieces. It is closed after a mended answer, and after bytes that belong to no answer, which
// are not taken for the answer to the next request.
func TestKeptAfterForms(t *testing.T) {
	t.Parallel()
	split := strings.Repeat("X: 0123456789\r\n", 1000)
	for name, c := range map[string]struct {
		wire string
		kept bool
	}{
		"ordinary": {ok + five, true}, "long header": {ok + split + five, true},
		"HTTP/1.0, kept": {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n" + five, true},
		"chunked":        {chunked + chunk, true}, "trailer": {chunked + "5\r\nhello\r\n0\r\nA: b\r\n\r\n", true},
		"interim": {"HTTP/1.1 103 Early\r\n\r\n" + ok + five, true}, "no body": {"HTTP/1.1 204 No\r\n\r\n", true},
		"odd name": {ok + "X[]: y\r\n" + five, false}, "excess": {ok + five + ok + five, false},
		"odd chunk": {chunked + "5\nhello\r\n0\r\n\r\n", false}, "odd header, no body": {"HTTP/1.1 204 No\r\nX[]: y\r\n\r\n", false},
		"both lengths": {ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk, false},
	} {
		t.Run(name, func(t *testing.T) {
			conns := make(chan int, 9)
			addr := listen(t, nil, func(n int, conn net.Conn) {
				for from := bufio.NewReader(conn); ; {
					if _, err := readHead(from); err != nil {
						return
					}
					conns <- n
					io.WriteString(conn, c.wire)
				}
			})
			client := client(t, Config{Types: []string{AnyType}})
			for range 2 {
				r := mustGet(t, client, Request{URL: "http://" + addr})
				if string(r.Body) != "hello" && r.Status == 200 {
					t.Errorf("body %q, want hello", r.Body)
				}
				r.Release()
			}
			if first, second := <-conns, <-conns; (first == second) != c.kept {
				t.Errorf("connections %d and %d, want the same: %v", first, second, c.kept)
			}
		})
	}
}

// TestFaultsOfForms: only bytes that are no answer count against the host, and an answer that
// contradicts itself is not requested again.
func TestFaultsOfForms(t *testing.T) {
	t.Parallel()
	silence := Fault{Outcome: frontier.Network, Retry: true}
	answered := Fault{Outcome: frontier.Network, Retry: true, Answered: true}
	discarded := Fault{Outcome: frontier.Network, Answered: true}
	for wire, want := range map[string]Fault{
		"": silence, "SSH-2.0-x\r\n": silence, "<html>": silence, "\x00\x00\x00\x04\x00\x00\x00\x00\x00": silence, "HT": silence,
		ok + "A: b\r\n": answered, "HTTP/1.1 20": answered,
		ok + "Content-Length: 4\r\n" + five: discarded, "HTTP/1.1 20 OK\r\n\r\n": discarded, chunked + "x\r\n": discarded,
	} {
		addr := listen(t, nil, func(_ int, conn net.Conn) {
			readHead(bufio.NewReader(conn))
			io.WriteString(conn, wire)
		})
		_, err := client(t, Config{}).Get(t.Context(), Request{URL: "http://" + addr})
		if got := Classify(err); got != want {
			t.Errorf("%q: Classify(%v) = %+v, want %+v", wire, err, got, want)
		}
	}
}

// TestAnswerBeforeTheRequest: a server that sends first is heard after the request.
func TestAnswerBeforeTheRequest(t *testing.T) {
	t.Parallel()
	addr := listen(t, nil, func(_ int, conn net.Conn) {
		io.WriteString(conn, ok+"Content-Type: text/html\r\n"+five)
		readHead(bufio.NewReader(conn))
	})
	r := mustGet(t, client(t, Config{}), Request{URL: "http://" + addr})
	if string(r.Body) != "hello" {
		t.Errorf("body %q, want hello", r.Body)
	}
	r.Release()
}

// FuzzMending: every answer that net/http reads is read through a mending connection with the
// same status, header and body. Other answers end with an error of mending, never of net/http.
func FuzzMending(f *testing.F) {
	for _, form := range forms {
		f.Add(form.wire, 3)
	}
	f.Fuzz(func(t *testing.T, wire string, piece int) {
		got := readMended(wire, max(piece, 1))
		if again := readMended(wire, 1<<20); got.body != again.body || (got.err == nil) != (again.err == nil) {
			t.Errorf("%q in pieces of %d: %+v, at once %+v", wire, piece, got, again)
		}
		if got.err != nil && !isMendingError(got.err) {
			t.Errorf("%q: %v", wire, got.err)
		}
		from := bufio.NewReader(strings.NewReader(wire))
		answer, err := http.ReadResponse(from, nil)
		for err == nil && answer.StatusCode >= 100 && answer.StatusCode < 200 && answer.StatusCode != 101 {
			answer, err = http.ReadResponse(from, nil)
		}
		if err != nil {
			return
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			return
		}
		for name := range answer.Header {
			if strings.HasSuffix(name, " ") {
				return // RFC 9112, 5.1: the space does not belong to the name
			}
		}
		if got.err != nil || got.answer.StatusCode != answer.StatusCode || got.body != string(body) {
			t.Fatalf("%q: %+v, want %d, %q", wire, got, answer.StatusCode, body)
		}
		if len(answer.Header) != len(got.answer.Header) {
			t.Errorf("%q: header %q, want %q", wire, got.answer.Header, answer.Header)
		}
		for name, values := range answer.Header {
			trim := func(values []string) (all []string) {
				for _, value := range values {
					all = append(all, strings.Trim(value, " \t"))
				}
				return all
			}
			if !slices.Equal(trim(got.answer.Header[name]), trim(values)) {
				t.Errorf("%q: %s %q, want %q", wire, name, got.answer.Header[name], values)
			}
		}
	})
}

// isMendingError reports whether err comes from mending and not from net/http.
func isMendingError(err error) bool {
	_, broken := errors.AsType[brokenHead](err)
	return broken || errors.Is(err, ErrNotHTTP) || errors.Is(err, ErrHTTP2Only) || errors.Is(err, ErrDiscarded) ||
		errors.Is(err, errChunk) || err == io.ErrUnexpectedEOF || strings.Contains(err.Error(), "the header is longer")
}

// BenchmarkMending measures what reading an ordinary answer through a mending connection
// costs.
func BenchmarkMending(b *testing.B) {
	head := ok + "Date: Sat, 28 Nov 2026 12:00:00 GMT\r\nServer: nginx\r\nContent-Type: text/html; charset=utf-8\r\n" +
		"Cache-Control: public, max-age=600\r\nEtag: \"5f3e-1a2b3c\"\r\nVary: Accept-Encoding\r\nX-Frame-Options: DENY\r\n" +
		"Strict-Transport-Security: max-age=31536000; includeSubDomains\r\nContent-Length: 14336\r\n\r\n"
	wire := []byte(head + strings.Repeat("x", 14336))
	for _, mend := range []bool{false, true} {
		b.Run(fmt.Sprintf("mending=%v", mend), func(b *testing.B) {
			from := bytes.NewReader(nil)
			conn := &endless{from: from}
			m := newMending(conn, 64<<10)
			reader := bufio.NewReaderSize(nil, 4<<10)
			body := make([]byte, 16<<10)
			request := []byte("GET / HTTP/1.1\r\n\r\n")
			b.ReportAllocs()
			for b.Loop() {
				from.Reset(wire)
				var source io.Reader = conn
				if mend {
					source = m
					_, _ = m.Write(request)
				}
				reader.Reset(source)
				if _, err := reader.Discard(len(head)); err != nil {
					b.Fatal(err)
				}
				if n, err := io.ReadFull(reader, body[:14336]); err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// endless is a connection that never ends.
type endless struct {
	net.Conn
	from *bytes.Reader
}

func (e *endless) Read(p []byte) (int, error)  { return e.from.Read(p) }
func (e *endless) Write(p []byte) (int, error) { return len(p), nil }
