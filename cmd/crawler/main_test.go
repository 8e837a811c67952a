package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bloomfrontier/crawler/cmd/crawler/internal/cli"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"crawler": main})
}

// TestScripts tests the command line as users see it: each script runs the program as a
// separate process, with servers on loopback.
func TestScripts(t *testing.T) {
	web, err := testweb.New(testweb.Config{Seed: 1, Hosts: 5, Pages: 60})
	if err != nil {
		t.Fatal(err)
	}
	addr := listen(t, func(l net.Listener) error { return web.Serve(t.Context(), l) })
	odd := newOddWeb(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			s := newSite()
			env.Defer(s.close)
			env.Values[siteKey{}] = s
			env.Setenv("WEB", addr)
			env.Setenv("SITE", s.server.Listener.Addr().String())
			env.Setenv(smallFilter())
			odd.setenv(env)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "stopped": cmdStopped, "heal": cmdHeal, "lines": cmdLines, "same-lines": cmdSameLines,
			"proxied": cmdProxied, "answers": cmdAnswers,
		},
	})
}

// TestReadmeShowsARun: the README has the output of the program, except for times and
// rates.
func TestReadmeShowsARun(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```text\n$ crawler ")
	shown, _, _ = strings.Cut(shown, "```")
	line, want, _ := strings.Cut(strings.ReplaceAll(shown, "\\\n", ""), "\n")

	web, err := testweb.New(testweb.Config{Seed: 1, Hosts: 5, Pages: 100})
	if err != nil {
		t.Fatal(err)
	}
	addr := listen(t, func(l net.Listener) error { return web.Serve(t.Context(), l) })
	line = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).ReplaceAllString(line, addr)
	args := strings.Fields(strings.ReplaceAll(strings.Replace(line, "100ms", "1ms", 1), "'", ""))

	t.Chdir(t.TempDir())
	var out, got bytes.Buffer
	if code := cli.Run(t.Context(), args, strings.NewReader(""), &out, &got); code != 0 {
		t.Fatalf("the command in README.md: exit code %d: %s", code, &got)
	}
	// Times, rates and random numbers differ, and a run of less than a second has no
	// line about limits.
	differs := regexp.MustCompile(`(?m)^  (this run|requests|lost|limited by) .*\n`)
	if got, want := differs.ReplaceAllString(got.String(), ""), differs.ReplaceAllString(want, ""); got != want {
		t.Errorf("the command in README.md prints\n%s\nbut README.md shows\n%s", got, want)
	}
}

// site is a server with a page of each kind that a script needs.
//
//	/       links to /a and /b
//	/wait   does not answer until the client closes the connection
//	/ill    answers with status 500 until heal is called
type site struct {
	server  *httptest.Server
	waiting chan struct{} // gets a value when a client is at /wait
	healthy atomic.Bool
	done    chan struct{}
}

type siteKey struct{}

func newSite() *site {
	s := &site{waiting: make(chan struct{}, 16), done: make(chan struct{})}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/robots.txt":
			http.NotFound(w, r)
		case "/wait":
			s.waiting <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-s.done:
			}
		case "/ill":
			if !s.healthy.Load() {
				http.Error(w, "ill", http.StatusInternalServerError)
			}
		case "/":
			fmt.Fprint(w, `<a href="/a">a</a> <a href="/b">b</a>`)
		default:
			fmt.Fprint(w, r.URL.Path)
		}
	}))
	return s
}

func (s *site) close() {
	close(s.done)
	s.server.Close()
}

// cmdExits implements "exits CODE COMMAND..." in scripts. It runs the command and checks
// its exit code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		code = exitCode(ts, err)
	}
	if want := args[0]; strconv.Itoa(code) != want {
		ts.Fatalf("exit code %d, want %s", code, want)
	}
}

func exitCode(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	return exit.ExitCode()
}

// cmdStopped implements "stopped CODE SIGNALS [-- COMMAND...]... -- ARGUMENTS" in scripts.
// It runs crawler with ARGUMENTS, and waits until this crawl requests /wait. It then runs
// crawler with each COMMAND, sends SIGNALS, such as INT,INT, to the crawl, and checks the
// exit code of the crawl. If SIGNALS is stop, no signal is sent: a COMMAND must stop the
// crawl. The output of the crawl is in the files stdout and stderr. The output of the N-th
// command is in between.N.
func cmdStopped(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || args[2] != "--" {
		ts.Fatalf("usage: stopped CODE SIGNALS [-- COMMAND...]... -- ARGUMENTS")
	}
	parts := split(args[3:])
	var out, errs bytes.Buffer
	stopping := make(chan struct{})
	cmd := command(ts, parts[len(parts)-1]...)
	cmd.Stdout, cmd.Stderr = &out, &watcher{Writer: &errs, word: "stopping:", seen: stopping}
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ts.Value(siteKey{}).(*site).waiting:
	case err := <-ended:
		ts.Fatalf("the crawl ended before it requested /wait: %v\n%s", err, &errs)
	}
	for i, part := range parts[:len(parts)-1] {
		said, err := command(ts, part...).CombinedOutput()
		if err != nil {
			said = fmt.Appendf(said, "%v\n", err)
		}
		ts.Check(os.WriteFile(ts.MkAbs(fmt.Sprintf("between.%d", i+1)), said, 0o644))
	}
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM}
	for name := range strings.SplitSeq(args[1], ",") {
		if name == "stop" { // one of the commands ended the crawl
			break
		}
		ts.Check(cmd.Process.Signal(signals[name]))
		<-stopping // two signals at the same time would count as one
	}
	code := 0
	if err := <-ended; err != nil {
		code = exitCode(ts, err)
	}
	ts.Check(os.WriteFile(ts.MkAbs("stdout"), out.Bytes(), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("stderr"), errs.Bytes(), 0o644))
	if want := args[0]; strconv.Itoa(code) != want {
		ts.Fatalf("exit code %d, want %s\n%s", code, want, &errs)
	}
}

// watcher is a writer that closes its channel when its word is written.
type watcher struct {
	io.Writer
	word string
	seen chan struct{}
}

func (w *watcher) Write(p []byte) (int, error) {
	if w.word != "" && bytes.Contains(p, []byte(w.word)) {
		w.word = ""
		close(w.seen)
	}
	return w.Writer.Write(p)
}

// command returns a command that runs crawler in the script's directory.
func command(ts *testscript.TestScript, args ...string) *exec.Cmd {
	self, err := os.Executable()
	ts.Check(err)
	cmd := exec.Command(self, args...)
	cmd.Args[0] = "crawler"
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "TMPDIR="+ts.Getenv("TMPDIR"))
	name, value := smallFilter()
	cmd.Env = append(cmd.Env, name+"="+value)
	for _, name := range []string{"CRAWLER_REDIS", "CRAWLER_NAME"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	return cmd
}

// smallFilter returns an environment variable that makes the filter small. Without it,
// each crawl of a test would write 35 MiB.
func smallFilter() (name, value string) { return "CRAWLER_URLS", "10k" }

func split(args []string) (parts [][]string) {
	var part []string
	for _, arg := range args {
		if arg == "--" {
			parts, part = append(parts, part), nil
			continue
		}
		part = append(part, arg)
	}
	return append(parts, part)
}

// cmdHeal implements "heal" in scripts. It makes /ill answer with status 200 from now on.
func cmdHeal(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Value(siteKey{}).(*site).healthy.Store(true)
}

// cmdSameLines implements "same-lines FILE FILE" in scripts. It checks that both files
// have the same number of lines, at least one.
func cmdSameLines(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same-lines FILE FILE")
	}
	if a, b := strings.Count(ts.ReadFile(args[0]), "\n"), strings.Count(ts.ReadFile(args[1]), "\n"); a != b || a == 0 {
		ts.Fatalf("%s has %d lines and %s has %d, want the same number, at least 1", args[0], a, args[1], b)
	}
}

// cmdLines implements "lines N FILE" in scripts. It checks that the file has N lines.
func cmdLines(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: lines N FILE")
	}
	if n := strings.Count(ts.ReadFile(args[1]), "\n"); strconv.Itoa(n) != args[0] {
		ts.Fatalf("%s has %d lines, want %s", args[1], n, args[0])
	}
}
