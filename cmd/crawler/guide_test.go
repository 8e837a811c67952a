package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bloomfrontier/crawler/internal/testkit/npm"
	"github.com/bloomfrontier/crawler/internal/testkit/servers"
	"github.com/bloomfrontier/crawler/internal/testweb"
)

// guides is the folder of the pages whose commands are run.
const guides = "../../docs/guide"

// TestGuideCommandsRun runs the commands of each guide as a reader would. It runs all
// blocks of a page that are marked sh, in order, in one shell and one empty directory. If
// a block marked text follows directly, it must be the standard output of the commands.
// Blocks marked console are not run. A page starts its servers itself, in the background, except
// Postgres and the Redis beside it, which the test starts. The test replaces the ports on the page
// by free ones.
func TestGuideCommandsRun(t *testing.T) {
	for _, program := range []string{"bash", "jq", "python3"} {
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CRAWLER_TEST_SERVERS") == "require" {
			t.Fatal(err)
		} else if err != nil {
			t.Skip(err)
		}
	}
	pages, err := filepath.Glob(guides + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		steps := guideSteps(string(text))
		if len(steps) == 0 {
			continue
		}
		ran++
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			t.Parallel()
			if dir := runGuide(t, steps); filepath.Base(page) == "data.md" {
				queryAsGuide(t, string(text), dir)
			}
		})
	}
	if ran < 4 {
		t.Errorf("found commands in %d guides, want 4 or more", ran)
	}
}

// A guideStep is one block of commands.
type guideStep struct {
	commands string
	shown    string // their output according to the page
	shows    bool
}

// fence matches a block of code. Its groups are the language and the text.
var fence = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```\n")

func guideSteps(page string) []guideStep {
	var steps []guideStep
	end := -1 // the end of the last block of commands
	for _, at := range fence.FindAllStringSubmatchIndex(page, -1) {
		language, block := page[at[2]:at[3]], page[at[4]:at[5]]
		switch {
		case language == "sh":
			steps, end = append(steps, guideStep{commands: block}), at[1]
		case language == "text" && end >= 0 && strings.TrimSpace(page[end:at[0]]) == "":
			steps[len(steps)-1].shown, steps[len(steps)-1].shows = block, true
			end = -1
		default:
			end = -1
		}
	}
	return steps
}

// queryAsGuide runs the blocks of SQL in DuckDB, and those of Python with networkx, on the files that the commands of a
// guide have made in dir.
func queryAsGuide(t *testing.T, page, dir string) {
	duckDB := ""
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		switch language, program := block[1], block[2]; language {
		case "sql":
			if duckDB == "" {
				duckDB = npm.Install(t, "../../crawl/table/testdata/duckdb")
			}
			for statement := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(program), ";"), ";\n") {
				runsIn(t, dir, "node", filepath.Join(duckDB, "query.mjs"), statement)
			}
		case "python":
			if os.Getenv("CRAWLER_TEST_SERVERS") != "require" {
				continue // networkx may be missing
			}
			runsIn(t, dir, "/usr/bin/python3", "-c", program) // Debian's, for which python3-networkx is
		}
	}
}

func runsIn(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", cmd, err, out)
	}
}

// runGuide runs the steps of a guide in a directory, and returns it.
func runGuide(t *testing.T, steps []guideStep) (dir string) {
	dir = t.TempDir()
	local := guideServers(t, dir, steps)
	var script strings.Builder
	for i, step := range steps {
		// These are braces, not a subshell, so that the next blocks see exported variables.
		script.WriteString("echo '--- block' >&2\n{\n" + local.Replace(step.commands) + "} >" + outputOf(i) + "\n")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-eu", "-c", script.String())
	cmd.Dir = dir
	name, value := smallFilter()
	cmd.Env = append(os.Environ(), "HOME="+dir, name+"="+value)
	// With a process group, Cancel also ends processes that a block has left running.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // the servers of a page that failed
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for i, step := range steps {
		got, err := os.ReadFile(filepath.Join(dir, outputOf(i)))
		if err != nil {
			t.Fatal(err)
		}
		if want := local.Replace(step.shown); step.shows && !bytes.Equal(got, []byte(want)) {
			t.Errorf("the commands\n%sprint\n%swant, as on the page,\n%s", step.commands, got, want)
		}
	}
	return dir
}

func outputOf(step int) string { return "block." + string(rune('a'+step)) }

// guideServers starts the servers whose addresses are in the guides, and returns a
// replacer that turns these addresses into the real ones.
func guideServers(t *testing.T, dir string, steps []guideStep) *strings.Replacer {
	var all strings.Builder
	for _, step := range steps {
		all.WriteString(step.commands)
	}
	var pairs []string
	for name, start := range map[string]func() string{
		"127.0.0.1:8000": func() string { // python3 -m http.server --directory site
			return listen(t, func(l net.Listener) error {
				return http.Serve(l, http.FileServer(http.Dir(filepath.Join(dir, "site"))))
			})
		},
		"127.0.0.1:7070": func() string { // crawler testweb --hosts 20 --pages 400
			web, err := testweb.New(testweb.Config{Seed: 1, Hosts: 20, Pages: 400})
			if err != nil {
				t.Fatal(err)
			}
			return listen(t, func(l net.Listener) error { return web.Serve(t.Context(), l) })
		},
		"127.0.0.1:6399":      func() string { return servers.Redis(t, servers.RedisOptions{}).Addr() },
		"postgres:///crawler": func() string { return servers.Postgres(t, servers.PostgresOptions{}).DSN() },
	} {
		if strings.Contains(all.String(), name) || startsServer(all.String(), name) {
			address := ""
			if startsServer(all.String(), name) {
				address = freeAddress(t)
				host, port, _ := strings.Cut(name, ":")
				_, free, _ := strings.Cut(address, ":")
				pairs = append(pairs, "--directory site "+port, "--directory site "+free, "--bind "+host+" --port "+port, "--bind "+host+" --port "+free)
			} else {
				address = start()
			}
			pairs = append(pairs, name, address)
			// A crawl's directory is named after its host and port.
			pairs = append(pairs, strings.Replace(name, ":", "_", 1), strings.Replace(address, ":", "_", 1))
		}
	}
	return strings.NewReplacer(pairs...)
}

// startsServer reports whether commands start the server with an address.
func startsServer(commands, address string) bool {
	host, port, _ := strings.Cut(address, ":")
	for _, command := range []string{"--directory site " + port, "testweb .*--listen " + address, "redis-server --bind " + host + " --port " + port} {
		if regexp.MustCompile(command).MatchString(commands) {
			return true
		}
	}
	return false
}

// freeAddress returns an address of loopback that is free now.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// listen serves on a free port of loopback until the test ends.
func listen(t *testing.T, serve func(net.Listener) error) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- serve(listener) }()
	t.Cleanup(func() { _ = listener.Close(); <-served })
	return listener.Addr().String()
}

// TestGuideSteps: the language and the position of a block decide how the block is used.
func TestGuideSteps(t *testing.T) {
	const page = "```sh\na\n```\n\n```text\nA\n```\n\n```sh\nb\n```\n\nwords\n\n```text\nB\n```\n\n```console\n$ c\n```\n"
	want := []guideStep{{"a\n", "A\n", true}, {"b\n", "", false}}
	got := guideSteps(page)
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
