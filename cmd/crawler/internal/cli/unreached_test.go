package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/crawl"
	"github.com/bloomfrontier/crawler/crawl/report"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
)

// output is the output of a process. It can be read while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the given text was written.
func (o *output) await(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(o.String(), text); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute, the output has no %q:\n%s", text, o)
		}
	}
}

// refusedPort returns an address where no server listens. The test keeps the port, so that no other server gets it.
func refusedPort(t *testing.T) string {
	t.Helper()
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", at.(*syscall.SockaddrInet4).Port)
}

// silentServer accepts connections and sends nothing.
func silentServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// deadNameServer answers that no name exists.
func deadNameServer(t *testing.T) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		packet := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(packet)
			if err != nil {
				return
			}
			packet[2], packet[3] = packet[2]|0x80, 0x83 // an answer: NXDOMAIN
			_, _ = conn.WriteTo(packet[:n], from)
		}
	}()
	return conn.LocalAddr().String()
}

// TestUnreachedSeedsAreReported: if no seed of a crawl answers, the output, the records
// and the report of the crawl name the cause, and the exit code is exitUnreached.
func TestUnreachedSeedsAreReported(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, test := range []struct {
		name, seed, cause string
		args              []string
	}{
		{"port", "http://a.test/", "connect: connection refused", []string{"--connect-to", "*=" + refusedPort(t)}},
		{"certificate", "https://a.test/", "x509: certificate", []string{"--connect-to", "*=" + secure.Listener.Addr().String()}},
		{"timeout", "http://a.test/", "no header of an answer in time", []string{"--header-timeout", "100ms", "--connect-to", "*=" + silentServer(t)}},
		{"name", "http://a.test/", "no such host", []string{"--dns", deadNameServer(t)}},
	} {
		for _, robots := range []string{"obey", "ignore"} {
			t.Run(test.name+"/"+robots, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "x.crawl")
				again := append([]string{"crawl", "--dir", dir, "--urls", "1k", "--retries", "0", "--robots", robots}, append(test.args, test.seed)...)
				code, _, errs := run(t, "", again...)
				if code != exitUnreached || !strings.Contains(errs, "crawler: no seed could be reached: a.test: ") ||
					strings.Count(unbroken(errs), test.cause) < 3 || !strings.Contains(errs, "1 failed\n") {
					t.Errorf("exit code %d, want %d and %q in the log, the summary and the message: %s", code, exitUnreached, test.cause, errs)
				}
				checkCause(t, dir, test.seed, test.cause)
				if code, _, errs := run(t, "", again...); code != exitUnreached || !strings.Contains(errs, test.cause) {
					t.Errorf("second run: exit code %d, want %d and %q in stderr: %s", code, exitUnreached, test.cause, errs)
				}
				if r := lastReport(t, dir); len(r.TopAll.Errors) != 1 || !strings.Contains(r.TopAll.Errors[0].Cause, test.cause) {
					t.Errorf("after a run without requests: hosts %+v, want one with the cause %q", r.TopAll, test.cause)
				}
			})
		}
	}
}

// unbroken returns a summary in which each fact is on one line.
func unbroken(text string) string { return strings.ReplaceAll(text, "\n              ", " ") }

// checkCause checks that all output of a crawl names the cause of its only
// failure.
func checkCause(t *testing.T, dir, seed, cause string) {
	t.Helper()
	for name, args := range map[string][]string{
		"record": {"output"}, "explanation": {"explain", seed}, "explanation in JSON": {"explain", "--json", seed},
		"report": {"report", "--probe", "1ms"}, "report in JSON": {"report", "--probe", "1ms", "--json"},
	} {
		code, out, errs := run(t, "", append(args, "--dir", dir)...)
		if code != exitOK || !strings.Contains(unbroken(out), cause) {
			t.Errorf("%s: exit code %d, want 0 and %q in the output: %s%s", name, code, cause, out, errs)
		}
	}
	r := lastReport(t, dir)
	if r.Run.Errors != 1 || r.Run.Pages != 0 || r.Pages != 0 || r.LastError == nil || !strings.Contains(r.LastError.Error, cause) ||
		len(r.Top.Errors) != 1 || !strings.Contains(r.Top.Errors[0].Cause, cause) || len(r.Top.Pages) != 0 {
		t.Errorf("report: run %+v, last error %+v, hosts %+v; want one error, with the cause %q", r.Run, r.LastError, r.Top, cause)
	}
}

// TestUnreachedIsShownEarly: after the first failed attempts the crawl and its status
// say that no seed could be reached, and why. The crawl continues to try.
func TestUnreachedIsShownEarly(t *testing.T) {
	t.Parallel()
	for name, where := range map[string]func(t *testing.T) []string{
		"directory": func(*testing.T) []string { return nil },
		"Redis": func(t *testing.T) []string {
			return []string{"--redis", servers.Redis(t, servers.RedisOptions{}).URL(), "--name", "n", "--partitions", "2"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			const cause = "connect: connection refused"
			shared := where(t)
			dir := filepath.Join(t.TempDir(), "x")
			var errs output
			code := started(&errs, append([]string{"crawl", "--dir", dir, "--urls", "1k", "--log-level", "debug",
				"--connect-to", "*=" + refusedPort(t), "http://a.test/", "http://b.test/"}, shared...)...)
			errs.await(t, "no seed could be reached so far: ")
			errs.await(t, "check the seeds' names, ports and certificates")
			for _, args := range [][]string{{"status"}, {"report"}, {"explain", "http://a.test/"}} {
				if code, out, more := run(t, "", append(args, "--dir", dir)...); code != exitOK ||
					!strings.Contains(unbroken(out), cause) {
					t.Errorf("%v: exit code %d, want 0 and %q in the output: %s%s", args, code, cause, out, more)
				}
			}
			if shared != nil { // the command reads the state from Redis
				_, out, more := run(t, "", append([]string{"explain", "--json", "http://b.test/"}, shared[:4]...)...)
				var e crawl.Explanation
				if err := json.Unmarshal([]byte(out), &e); err != nil || e.Robots == nil || !strings.Contains(e.Robots.Cause, cause) {
					t.Errorf("explain prints %s%s (%v), want the cause %q", out, more, err, cause)
				}
			}
			s := sampleOf(t, dir)
			s.Gauges.CPU = 0 // that of all tests of the package
			if words := new(report.Meter).Read(s).Limit.Words(); s.Queued > 0 && s.Gauges.Worker.BackingOff == 2 && !strings.Contains(words, "2 hosts wait ") {
				t.Errorf("the limit of the crawl is %q, want that 2 hosts wait", words)
			}
			if code, _, more := run(t, "", "stop", "--dir", dir); code != exitOK {
				t.Fatalf("stop fails: %s", more)
			}
			if got := <-code; got != exitInt {
				t.Errorf("stopped crawl: exit code %d: %s", got, &errs)
			}
			if n := strings.Count(errs.String(), "no seed could be reached so far"); n != 1 {
				t.Errorf("stderr says %d times that no seed could be reached so far, want once: %s", n, &errs)
			}
			if n := strings.Count(errs.String(), `msg="robots.txt failed"`); n != 2 {
				t.Errorf("%d warnings about robots.txt, want one for each of 2 hosts: %s", n, &errs)
			}
		})
	}
}

// TestNoNeedlessWarnings: with --quiet, a crawl without problems prints nothing, and a
// crawl with problems prints only warnings and errors.
func TestNoNeedlessWarnings(t *testing.T) {
	t.Parallel()
	address := site(t)
	quiet := func(want int, args ...string) string {
		t.Helper()
		code, _, errs := run(t, "", append([]string{"crawl", "--dir", filepath.Join(t.TempDir(), "x"), "--urls", "1k", "--delay", "0", "--retries", "0"}, args...)...)
		if code != want {
			t.Errorf("exit code %d, want %d: %s", code, want, errs)
		}
		return errs
	}
	if errs := quiet(exitOK, "--quiet", "--max-depth", "0", "--connect-to", "*="+address, "http://a.test/"); errs != "" {
		t.Errorf("a crawl without problems prints %q, want nothing", errs)
	}
	errs := quiet(exitUnreached, "-q", "--log-level", "debug", "--connect-to", "*="+refusedPort(t), "gopher://x", "http://a.test/")
	for text, want := range map[string]bool{
		"level=WARN": true, "seed refused: ": true, "crawler: no seed could be reached: ": true,
		"level=INFO": false, "level=DEBUG": false, "crawling into": false, "this run": false,
	} {
		if strings.Contains(errs, text) != want {
			t.Errorf("stderr contains %q: want %t\n%s", text, want, errs)
		}
	}
}

// TestPauseShowsAtOnce: a pause and its end are in the log of the crawl at once. They are
// also in the first line of a command that watches the crawl.
func TestPauseShowsAtOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x.crawl")
	connectTo, held, release := heldSite(t)
	var errs output
	code := started(&errs, "crawl", "--dir", dir, "--delay", "0", "--urls", "1k", "--connect-to", connectTo, "http://a.test/")
	<-held
	limited := func() (words string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := &lineWriter{seen: func(line string) {
			if words == "" {
				words = line
			}
			cancel()
		}}
		if code := Run(ctx, []string{"status", "--dir", dir, "--watch"}, nil, w, io.Discard); code != exitOK {
			t.Errorf("status --watch: exit code %d", code)
		}
		return words
	}
	for range 20 { // samples that were read before a pause must not delay the pause's display
		sampleOf(t, dir)
	}
	for _, step := range []struct {
		command, log string
		paused       bool
	}{{"pause", "msg=paused", true}, {"resume", "msg=resumed", false}} {
		if code, _, more := run(t, "", step.command, "--dir", dir); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", step.command, code, more)
		}
		errs.await(t, step.log)
		if words := limited(); strings.Contains(words, `limited_by="paused`) != step.paused {
			t.Errorf("after %s: status --watch prints %q, want limited_by=paused: %t", step.command, words, step.paused)
		}
	}
	release()
	if got := <-code; got != exitOK {
		t.Errorf("crawl: exit code %d: %s", got, &errs)
	}
}

// TestNewCrawlIsNotEmpty: a crawl whose seeds were not read yet is reported as waiting
// for seeds.
func TestNewCrawlIsNotEmpty(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "x.crawl")
	stdin, seeds := io.Pipe()
	var errs output
	ended := make(chan int, 1)
	go func() {
		ended <- Run(context.Background(), []string{"crawl", "--dir", dir, "--urls", "1k", "--seeds", "-"}, stdin, io.Discard, &errs)
	}()
	errs.await(t, "crawling into")
	var s report.Sample
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // the socket appears a moment later
		h, err := crawl.Attach(t.Context(), crawl.Location{Dir: dir})
		if err == nil {
			s, err = h.Sample(t.Context())
		}
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if words := report.Limiting([]report.Gauges{s.Gauges}).Words(); words != "waiting for seeds" {
		t.Errorf("the limit of a new crawl is %q, want \"waiting for seeds\"", words)
	}
	_ = seeds.Close()
	if code := <-ended; code != exitNothing {
		t.Errorf("crawl without seeds: exit code %d, want %d: %s", code, exitNothing, &errs)
	}
}
