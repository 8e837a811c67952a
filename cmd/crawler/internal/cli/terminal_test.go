package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/sanitize"
)

// attack is a text from a hostile server. It sets the title of the window, sets a colour
// with a C1 control character, and contains DEL and text that runs from right to left.
const attack = "\x1b]0;pwned\a\u009b5m\x7f\u202egnp.exe"

// ownSequences are the sequences that the program itself sends to a terminal:
// for colours and for the live view.
var ownSequences = regexp.MustCompile(`\x1b\[(0|1|2|22|31|32|33|91|92|93)m|\x1b\[[0-9]*[AJK]`)

// onTerminal calls f with a pseudo-terminal and returns its output.
func onTerminal(t *testing.T, f func(tty *os.File)) string {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
			t.Fatalf("cannot open a pseudo-terminal: %v", err)
		}
		t.Skipf("cannot open a pseudo-terminal: %v", err)
	}
	defer master.Close()
	var shown bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&shown, master) // ends with an error once tty is closed
	}()
	f(tty)
	_ = tty.Close()
	<-read
	return shown.String()
}

// isInert fails the test if the output has control characters that the program itself does
// not send. It allows \r, because the terminal replaces \n by \r\n.
func isInert(t *testing.T, what, output string) {
	t.Helper()
	for line := range strings.Lines(ownSequences.ReplaceAllString(output, "")) {
		line = strings.NewReplacer("\r", "", "\n", "", "\t", "").Replace(line)
		if sanitize.String(line) != line {
			t.Errorf("%s: the terminal gets %q, want control characters escaped", what, line)
		}
	}
}

// TestLogsOnTerminal: every log handler escapes the control characters that a
// server sends.
func TestLogsOnTerminal(t *testing.T) {
	for _, c := range []struct{ name, term, noColor, format string }{
		{"tint", "xterm", "", "text"}, {"tint without colours", "xterm", "1", "text"},
		{"text", "dumb", "", "text"}, {"JSON", "xterm", "", "json"}, {"JSON on a dumb terminal", "dumb", "", "json"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("TERM", c.term)
			t.Setenv("NO_COLOR", c.noColor)
			shown := onTerminal(t, func(tty *os.File) {
				for _, w := range []io.Writer{newConsole(sanitize.NewWriter(tty), false), sanitize.NewWriter(tty)} {
					log := newLogger(w, "debug", c.format).With("with", attack)
					log.Debug(attack, "title", attack, "literal", `\x1b]0;pwned\x1b\\`, "err", fmt.Errorf("get: %w", errors.New(attack)))
				}
			})
			if n := strings.Count(shown, "pwned"); n != 10 {
				t.Errorf("%d values with \"pwned\" are shown, want 10: %q", n, shown)
			}
			isInert(t, c.name, shown)
		})
	}
}

// TestJSONLogInFileIsExact: JSON that does not go to a terminal has exactly the bytes of
// encoding/json.
func TestJSONLogInFileIsExact(t *testing.T) {
	t.Parallel()
	for _, console := range []bool{false, true} {
		var got, want bytes.Buffer
		var w io.Writer = sanitize.NewWriter(&got)
		if console {
			w = newConsole(w, false)
		}
		newLogger(w, "info", "json").Info("m", "title", attack)
		slog.New(slog.NewJSONHandler(&want, nil)).Info("m", "title", attack)
		_, gotTitle, _ := strings.Cut(got.String(), `"title"`)
		_, wantTitle, _ := strings.Cut(want.String(), `"title"`)
		if gotTitle != wantTitle || wantTitle == "" {
			t.Errorf("logged %q, want %q", gotTitle, wantTitle)
		}
	}
}

// hostile returns the address of a server that sends control characters
// wherever it can send text.
func hostile(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			request, err := http.ReadRequest(bufio.NewReader(conn))
			if err == nil {
				_, _ = io.WriteString(conn, hostileAnswer(request.URL.Path))
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-served })
	return listener.Addr().String()
}

func hostileAnswer(path string) string {
	const end = "\r\nConnection: close\r\n"
	switch path {
	case "/robots.txt":
		return "HTTP/1.1 404 " + attack + end + "\r\n"
	case "/status":
		return "HTTP/1.1 2" + attack + " OK" + end + "\r\n"
	case "/protocol":
		return attack + end + "\r\n"
	case "/header":
		return "HTTP/1.1 200 OK\r\n" + attack + end + "\r\n"
	case "/name":
		return "HTTP/1.1 200 OK\r\n" + attack + ": x" + end + "\r\n"
	case "/encoding":
		return "HTTP/1.1 200 OK\r\nContent-Encoding: " + attack + end + "\r\n"
	case "/length":
		return "HTTP/1.1 200 OK\r\nContent-Length: " + attack + end + "\r\n"
	case "/moved":
		return "HTTP/1.1 302 " + attack + "\r\nLocation: http://" + attack + ".test/" + end + "\r\n"
	}
	body := "<title>" + attack + "</title>"
	for _, path := range []string{"status", "protocol", "header", "name", "encoding", "length", "moved", attack, "?" + attack} {
		body += "<a href='/" + path + "'>" + attack + "</a>"
	}
	return "HTTP/1.1 200 " + attack + "\r\nContent-Type: text/html; charset=utf-8\r\nETag: \"\u009b5m\u202e\"\r\nLast-Modified: \u009b5m\u202e" +
		end + "\r\n" + body
}

// TestHostileServerOnTerminal runs the commands on a terminal. Text from a
// server or an argument is escaped, and data for a pipe is unchanged.
func TestHostileServerOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	dir := filepath.Join(t.TempDir(), "c.crawl")
	shown := func(args ...string) string {
		t.Helper()
		text := onTerminal(t, func(tty *os.File) { Run(t.Context(), args, strings.NewReader(""), tty, tty) })
		isInert(t, strings.Join(args, " "), text)
		return text
	}
	text := shown("crawl", "--dir", dir, "--delay", "0", "--retries", "0", "--backoff", "1ms", "--urls", "1000", "--log-level", "debug", "--out", "-",
		"--connect-to", "*.test="+hostile(t), "http://a.test/")
	if n := strings.Count(text, "pwned"); n < 10 {
		t.Errorf("%d values of the server are shown, want 10 or more\n%q", n, text)
	}
	page := "http://a.test/" + attack
	for _, args := range [][]string{
		{"output"}, {"output", "--referrers"}, {"report", "--probe", "1ms"}, {"report", "--json", "--probe", "1ms"}, {"status"}, {"status", "--json"},
		{"explain", page}, {"explain", "--json", page}, {"config"}, {"config", "--json"}, {"audit"},
	} {
		shown(append([]string{args[0], "--dir", dir}, args[1:]...)...)
	}
	for _, args := range [][]string{
		{attack}, {"crawl", "--" + attack}, {"crawl", "--delay", attack}, {"crawl", "--config", attack}, {"crawl", "http://" + attack + ".test/"},
		{"status", "--dir", attack}, {"output", attack}, {"size", "--urls", attack}, {"dedup", "--print", attack}, {"help", attack},
	} {
		if text := shown(args...); !strings.Contains(text, "pwned") && args[0] != "help" {
			t.Errorf("the output of %q does not contain its argument: %q", args, text)
		}
		if _, _, errs := run(t, "", args...); sanitize.String(strings.ReplaceAll(errs, "\n", "")) != strings.ReplaceAll(errs, "\n", "") {
			t.Errorf("%q writes control characters to a pipe: %q", args, errs)
		}
	}

	var title struct{ Title string }
	_, records, _ := run(t, "", "output", "--dir", dir)
	first, _, _ := strings.Cut(records, "\n")
	if err := json.Unmarshal([]byte(first), &title); err != nil || !strings.Contains(first, "\u009b5m\x7f\u202e") {
		t.Errorf("the record in a pipe is %q (%v), want unescaped control characters", first, err)
	}
	var onScreen struct{ Title string }
	first, _, _ = strings.Cut(shown("output", "--dir", dir), "\n")
	if err := json.Unmarshal([]byte(first), &onScreen); err != nil || onScreen != title {
		t.Errorf("output has the record %+v on a terminal, and %+v in a pipe (%v); want the same", onScreen, title, err)
	}
}

// TestStatusWatchDrawsOnTerminal: on a terminal, status --watch draws the view of a running crawl, and
// not the lines that a file gets.
func TestStatusWatchDrawsOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	drawn := make(chan struct{}) // closed when the view was drawn
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-drawn:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	dir := filepath.Join(t.TempDir(), "c.crawl")
	crawled := make(chan int, 1)
	go func() {
		crawled <- Run(t.Context(), []string{"crawl", "--dir", dir, "--delay", "0", "--urls", "1000", "--robots", "ignore", "--allow-private",
			server.URL}, strings.NewReader(""), io.Discard, io.Discard)
	}()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "control.sock")); err == nil {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the crawl does not run")
		}
	}
	master, tty, err := pty.Open()
	if err != nil {
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
			t.Fatalf("cannot open a pseudo-terminal: %v", err)
		}
		t.Skipf("cannot open a pseudo-terminal: %v", err)
	}
	watched := make(chan int, 1)
	go func() {
		code := Run(t.Context(), []string{"status", "--dir", dir, "--watch"}, strings.NewReader(""), tty, io.Discard)
		_ = tty.Close()
		watched <- code
	}()
	var shown []byte
	buf, first := make([]byte, 4096), true
	for n := 0; err == nil; n, err = master.Read(buf) {
		if shown = append(shown, buf[:n]...); first && len(shown) > 0 {
			first = false
			close(drawn)
		}
	}
	if code, ended := <-watched, <-crawled; code != 0 || ended != 0 {
		t.Errorf("exit codes %d of status and %d of crawl, want 0", code, ended)
	}
	if text := string(shown); !strings.Contains(text, "\x1b[") || strings.Contains(text, "level=INFO") {
		t.Errorf("the terminal shows %q, want the view", text)
	}
}
