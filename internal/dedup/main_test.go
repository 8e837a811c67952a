package dedup

import (
	"bytes"
	"context"
	"encoding/json"
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
	"time"

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

// Settings of tests: the defaults of the command, a small filter that grows, and no filter.
var (
	standard = Settings{URLs: 10_000_000, FPR: 1e-6}
	small    = Settings{URLs: 1000, FPR: 1e-6}
	exact    = Settings{Exact: true}
)

// childEnv is set if the test binary must run as a child. If its value is POINT:N, the
// process kills itself when it reaches POINT for the N-th time. With any other value, the
// process does not kill itself.
const childEnv = "CRAWLER_DEDUP_CHILD"

// childConfig is the config of a child.
type childConfig struct {
	Dir      string
	Settings Settings
	Interval uint64
	Step     time.Duration // if it is set, the clock begins at childStart and moves by Step with each group
}

// childStart is the beginning of a generation, for all windows of the tests.
var childStart = time.Unix(6e8, 0)

func TestMain(m *testing.M) {
	if at := os.Getenv(childEnv); at != "" {
		os.Exit(child(at))
	}
	os.Exit(m.Run())
}

func child(at string) int {
	point, number, _ := strings.Cut(at, ":")
	left, _ := strconv.Atoi(number)
	crash.Hook(func(here string) {
		if here != point {
			return
		}
		if left--; left == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	var c childConfig
	err := json.Unmarshal([]byte(os.Args[1]), &c)
	if err == nil {
		cfg := Config{Dir: c.Dir, Settings: c.Settings, interval: c.Interval}
		if groups := time.Duration(-1); c.Step > 0 {
			cfg.now = func() time.Time {
				groups++ // the first call creates the directory, or opens it
				return childStart.Add(max(groups-1, 0) * c.Step)
			}
		}
		_, err = Run(context.Background(), cfg, os.Stdin, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childCommand returns a run in a separate process.
func childCommand(t testing.TB, at string, cfg childConfig) *exec.Cmd {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, string(text))
	cmd.Env = append(os.Environ(), childEnv+"="+at)
	cmd.Stderr = new(bytes.Buffer)
	return cmd
}

// result is the output of a run.
type result struct {
	*Result
	out, faults string
}

// dedup calls Run.
func dedup(ctx context.Context, input string, cfg Config) (result, error) {
	var out, faults bytes.Buffer
	r, err := Run(ctx, cfg, strings.NewReader(input), &out, &faults)
	return result{r, out.String(), faults.String()}, err
}

func mustDedup(t *testing.T, input string, cfg Config) result {
	t.Helper()
	r, err := dedup(t.Context(), input, cfg)
	if err != nil {
		t.Fatalf("dedup %+v: %v", cfg, err)
	}
	return r
}

// stored returns the config of a later run with dir.
func stored(t *testing.T, dir string) Config {
	t.Helper()
	settings, options, err := ReadSettings(dir)
	if err != nil {
		t.Fatal(err)
	}
	return Config{Dir: dir, Settings: settings, Canon: options}
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
