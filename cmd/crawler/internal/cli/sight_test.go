package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"github.com/bloomfrontier/crawler/crawl/report"
)

// heldSite starts a site. Its page /held does not answer before release is called. The
// channel held receives a value when /held is requested.
func heldSite(t *testing.T) (connectTo string, held <-chan struct{}, release func()) {
	asked, open := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/":
			fmt.Fprint(w, `<a href=/a>a</a> <a href=/held>h</a>`)
		case "/held":
			select {
			case asked <- struct{}{}:
			default:
			}
			select {
			case <-open:
			case <-r.Context().Done():
			}
		}
	}))
	release = sync.OnceFunc(func() { close(open) })
	t.Cleanup(func() { release(); server.Close() })
	return "*=" + server.Listener.Addr().String(), asked, release
}

// started runs a crawl in another goroutine. The returned channel receives the exit code
// of the crawl.
func started(stderr io.Writer, args ...string) (code <-chan int) {
	ended := make(chan int, 1)
	go func() { ended <- Run(context.Background(), args, strings.NewReader(""), io.Discard, stderr) }()
	return ended
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// TestCrawlOnTerminal runs a crawl on a pseudo-terminal of 80 columns. All lines must fit, and
// at the end the summary must replace the live view.
func TestCrawlOnTerminal(t *testing.T) {
	for _, noColor := range []string{"", "1"} {
		t.Run("NO_COLOR="+noColor, func(t *testing.T) {
			t.Setenv("TERM", "xterm")
			t.Setenv("NO_COLOR", noColor)
			screen := runOnTerminal(t)
			if colours := strings.Contains(screen, "\x1b[1m"); colours == (noColor != "") {
				t.Errorf("has colours: %t, want %t\n%q", colours, noColor == "", screen)
			}
			for _, line := range regexp.MustCompile("[\r\n]+").Split(escape.ReplaceAllString(screen, ""), -1) {
				if len(line) > 80 {
					t.Errorf("line of %d columns, want at most 80: %q", len(line), line)
				}
			}
			end := screen[strings.LastIndex(screen, "\x1b[J")+len("\x1b[J"):]
			if !strings.HasPrefix(end, "x.crawl: nothing is left to fetch\r\n") || strings.Contains(end, "\x1b") {
				t.Errorf("after the live view, the screen shows %q, want the summary without escape sequences", end)
			}
			for _, want := range []string{"1 of 1 host active", "seen ", "seed refused: argument: \"gopher://x\" is neither http nor https\r\n", "crawling into x.crawl"} {
				if !strings.Contains(screen, want) {
					t.Errorf("no %q in\n%q", want, screen)
				}
			}
		})
	}
}

// runOnTerminal returns everything that a crawl wrote to its terminal.
func runOnTerminal(t *testing.T) string {
	t.Helper()
	master, tty, err := pty.Open()
	if err != nil {
		if os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
			t.Fatalf("cannot open a pseudo-terminal: %v", err)
		}
		t.Skipf("cannot open a pseudo-terminal: %v", err)
	}
	defer func() { _ = master.Close() }()
	if err := pty.Setsize(master, &pty.Winsize{Cols: 80, Rows: 24}); err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	connectTo, held, release := heldSite(t)
	var screen bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			screen.Write(buffer[:n])
			if bytes.Contains(screen.Bytes(), []byte("1 of 1 host active")) {
				release() // the view was seen during the crawl
			}
			if err != nil { // no process has the terminal open any more
				return
			}
		}
	}()
	code := started(tty, "crawl", "--dir", "x.crawl", "--delay", "0", "--urls", "1k", "--connect-to", connectTo, "http://a.test/", "gopher://x")
	<-held
	if got := <-code; got != exitOK {
		t.Errorf("crawl: exit code %d", got)
	}
	_ = tty.Close()
	<-read
	return screen.String()
}

// lineWriter calls seen for each line that is written.
type lineWriter struct {
	part string
	seen func(line string)
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.part += string(p)
	for {
		line, rest, whole := strings.Cut(w.part, "\n")
		if !whole {
			return len(p), nil
		}
		w.part = rest
		w.seen(line)
	}
}

// TestWatchFromOtherProcess: another process can watch a running crawl, as lines and as
// JSON, until the crawl or the watch ends. The watch leaves no files.
func TestWatchFromOtherProcess(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x.crawl")
	connectTo, held, release := heldSite(t)
	var stderr bytes.Buffer
	code := started(&stderr, "crawl", "--dir", dir, "--delay", "0", "--urls", "1k", "--connect-to", connectTo, "http://a.test/")
	<-held
	watch := func(flags []string, seen func(int, string, func())) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		w := &lineWriter{seen: func(line string) { n++; seen(n, line, cancel) }}
		if code := Run(ctx, append([]string{"status", "--dir", dir, "--watch"}, flags...), nil, w, io.Discard); code != exitOK {
			t.Errorf("status --watch %q: exit code %d", flags, code)
		}
		if n == 0 {
			t.Errorf("status --watch %q: no output", flags)
		}
	}
	watch([]string{"--json"}, func(n int, line string, enough func()) {
		var st report.Status
		if err := json.Unmarshal([]byte(line), &st); err != nil || !st.Running || st.Stats.Found == 0 {
			t.Errorf("status --watch --json prints %q (%v), want the status of a running crawl", line, err)
		}
		if n == 2 {
			enough()
		}
	})
	watch(nil, func(_ int, line string, _ func()) {
		if !strings.Contains(line, "msg=progress pages=") || !strings.Contains(line, "limited_by=") {
			t.Errorf("status --watch prints %q, want a line about the progress", line)
		}
		release() // the crawl ends by itself
	})
	if got := <-code; got != exitOK {
		t.Errorf("crawl: exit code %d: %s", got, &stderr)
	}
	if strings.Contains(stderr.String(), "\x1b") {
		t.Errorf("stderr is not a terminal, but has escape sequences: %q", &stderr)
	}
	checkReport(t, dir)
}

// checkReport checks that the report in dir is that of a complete crawl of heldSite.
func checkReport(t *testing.T, dir string) {
	t.Helper()
	r := lastReport(t, dir)
	if r.End != "nothing is left to fetch" || r.Fault != "" || r.Books.Done != 3 || r.Run.Pages != 3 || r.Run.Seconds <= 0 ||
		r.Resume != "" || r.Top.Pages[0] != (report.HostCount{Host: "a.test", Count: 3}) || r.FPR.Probed == nil || r.Filter.Keys != 3 {
		t.Errorf("report %+v, want that of a complete crawl of 3 pages", r)
	}
	for _, name := range []string{"*.tmp", "control.sock"} {
		if left, _ := filepath.Glob(filepath.Join(dir, name)); left != nil {
			t.Errorf("files are left: %q", left)
		}
	}
}

// TestReportOfAKilledRun: after a run was killed, its report does not say that the run
// goes on.
func TestReportOfAKilledRun(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x.crawl")
	connectTo, _, release := heldSite(t)
	release()
	if code := <-started(io.Discard, "crawl", "--dir", dir, "--delay", "0", "--max-pages", "1", "--urls", "1k", "--connect-to", connectTo, "http://a.test/"); code != exitOK {
		t.Fatalf("crawl: exit code %d", code)
	}
	r := lastReport(t, dir)
	r.End, r.Resume = "running, 1 page", ""
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "report.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	_, out, _ := run(t, "", "report", "--dir", dir, "--probe", "1ms")
	for _, want := range []string{": not running; the last run crashed or was killed\n", "  this run    1 page in ", "to go on: crawler crawl --dir "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for text, want := range map[string]string{"{": "unexpected end", `{"version":99}`: "version 99, want 1"} {
		if err := os.WriteFile(filepath.Join(dir, "report.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, errs := run(t, "", "report", "--dir", dir, "--probe", "1ms"); code != exitFailed || !strings.Contains(errs, want) {
			t.Errorf("report.json has %s: exit code %d, want %d and %q in stderr: %s", text, code, exitFailed, want, errs)
		}
	}
}
