package dedup

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bloomfrontier/crawler/internal/crash"
)

var (
	seed  = flag.Uint64("seed", 0, "replay the random run with this seed; 0: a new one")
	proof = flag.Bool("proof", false, "many long random runs")
)

// random returns random numbers, and logs the seed that repeats them.
func random(t *testing.T) *rand.Rand {
	from := *seed
	if from == 0 {
		from = rand.Uint64N(1 << 48)
	}
	t.Logf("replay with -seed=%d", from)
	return rand.New(rand.NewPCG(from, 0))
}

// childEnv is set if the test binary must run the command. If its value is POINT:N, the
// process kills itself when it reaches POINT for the N-th time. With any other value, the
// process does not kill itself.
const (
	childEnv    = "CRAWLER_DEDUP_CHILD"
	intervalEnv = "CRAWLER_DEDUP_INTERVAL"
)

func TestMain(m *testing.M) {
	if at := os.Getenv(childEnv); at != "" {
		os.Exit(child(at))
	}
	os.Exit(m.Run())
}

func child(at string) int {
	point, number, _ := strings.Cut(at, ":")
	left, _ := strconv.Atoi(number)
	interval, _ := strconv.ParseUint(os.Getenv(intervalEnv), 10, 64)
	crash.Hook(func(here string) {
		if here != point {
			return
		}
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	command := newCommand(&options{interval: interval})
	command.SetArgs(os.Args[1:])
	command.SilenceUsage = true
	if command.Execute() != nil {
		return 1
	}
	return 0
}

// childCommand returns the command as a separate process.
func childCommand(t testing.TB, at string, args ...string) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), childEnv+"="+at)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// result is the output of a run of the command.
type result struct{ out, err string }

// dedup runs the command in this process.
func dedup(ctx context.Context, input string, args ...string) (result, error) {
	var out, report bytes.Buffer
	command := Command()
	command.SetIn(strings.NewReader(input))
	command.SetOut(&out)
	command.SetErr(&report)
	command.SetArgs(args)
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(ctx)
	return result{out.String(), report.String()}, err
}

func mustDedup(t *testing.T, input string, args ...string) result {
	t.Helper()
	r, err := dedup(t.Context(), input, args...)
	if err != nil {
		t.Fatalf("dedup %v: %v", args, err)
	}
	return r
}

const urlFormat = "https://host%d.example.org/section/%d?page=%d\n"

// urls returns n lines of URLs, all different.
func urls(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, urlFormat, i%97, i, i%7)
	}
	return b.String()
}

// files returns the names in a directory.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		names = append(names, filepath.Base(name))
	}
	slices.Sort(names)
	return names
}
